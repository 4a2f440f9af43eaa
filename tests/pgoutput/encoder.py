"""pgoutput messages and COPY rows written with ``struct`` alone: what the decoder is tested against."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from walhouse.pgoutput.blocks import Blocks

if TYPE_CHECKING:
    from collections.abc import Sequence

POSTGRES_EPOCH = 946_684_800_000_000


class Unchanged:
    """A TOASTed value that was not sent."""

    def __repr__(self) -> str:
        return "UNCHANGED"


UNCHANGED = Unchanged()

Value = str | None | Unchanged


class Frame(NamedTuple):
    data: bytes
    lsn: int
    xid: int = 0


COMMIT_SIZE = 48
"""Bytes of WAL from a commit's start to its end, where a test does not say otherwise."""


def text(value: str) -> bytes:
    return value.encode() + b"\0"


def begin(commit_lsn: int, commit_ts: int, xid: int) -> bytes:
    return b"B" + struct.pack(">QqI", commit_lsn, commit_ts - POSTGRES_EPOCH, xid)


def commit(commit_lsn: int, commit_ts: int, end_lsn: int | None = None, flags: int = 0) -> bytes:
    end = commit_lsn + COMMIT_SIZE if end_lsn is None else end_lsn
    return b"C" + struct.pack(">BQQq", flags, commit_lsn, end, commit_ts - POSTGRES_EPOCH)


def origin(name: str, lsn: int) -> bytes:
    return b"O" + struct.pack(">Q", lsn) + text(name)


def relation(oid: int, schema: str, table: str, identity: str, columns: Sequence[tuple[str, int, int, bool]]) -> bytes:
    """``columns``: name, type oid, typmod, part of the replica identity."""
    head = b"R" + struct.pack(">I", oid) + text(schema) + text(table) + identity.encode()
    body = b"".join(
        struct.pack(">B", key) + text(name) + struct.pack(">Ii", type_oid, typmod)
        for name, type_oid, typmod, key in columns
    )
    return head + struct.pack(">h", len(columns)) + body


def type_(oid: int, schema: str, name: str) -> bytes:
    return b"Y" + struct.pack(">I", oid) + text(schema) + text(name)


def values(row: Sequence[Value]) -> bytes:
    parts = [struct.pack(">h", len(row))]
    for value in row:
        if value is None:
            parts.append(b"n")
        elif isinstance(value, Unchanged):
            parts.append(b"u")
        else:
            parts.append(b"t" + struct.pack(">I", len(value.encode())) + value.encode())
    return b"".join(parts)


def insert(oid: int, new: Sequence[Value]) -> bytes:
    return b"I" + struct.pack(">I", oid) + b"N" + values(new)


def update(oid: int, new: Sequence[Value], old: Sequence[Value] | None = None, kind: str = "K") -> bytes:
    before = b"" if old is None else kind.encode() + values(old)
    return b"U" + struct.pack(">I", oid) + before + b"N" + values(new)


def delete(oid: int, old: Sequence[Value], kind: str = "K") -> bytes:
    return b"D" + struct.pack(">I", oid) + kind.encode() + values(old)


def truncate(oids: Sequence[int], options: int = 0) -> bytes:
    return b"T" + struct.pack(">IB", len(oids), options) + b"".join(struct.pack(">I", oid) for oid in oids)


def message(lsn: int, prefix: str, content: bytes, *, transactional: bool) -> bytes:
    return b"M" + struct.pack(">BQ", transactional, lsn) + text(prefix) + struct.pack(">I", len(content)) + content


HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
TRAILER = b"\xff\xff"


def copy_row(fields: Sequence[bytes | None]) -> bytes:
    return struct.pack(">h", len(fields)) + b"".join(
        struct.pack(">i", -1) if field is None else struct.pack(">i", len(field)) + field for field in fields
    )


def copy_block(frame: Frame) -> bytes:
    return copy_row([struct.pack(">Q", frame.lsn), struct.pack(">I", frame.xid), frame.data])


def copy_blocks(frames: Sequence[Frame]) -> Blocks:
    """The COPY result as libpq hands it out: the header glued to the first row, the trailer alone."""
    blocks = [copy_block(frame) for frame in frames]
    return Blocks.of([HEADER + blocks[0], *blocks[1:], TRAILER] if blocks else [HEADER + TRAILER])
