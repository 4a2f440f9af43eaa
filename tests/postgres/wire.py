"""A second, simple reader of COPY and pgoutput for these tests, so that they do not trust the product's own."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from walhouse.lsn import Lsn
from walhouse.names import TableName
from walhouse.pgoutput.column import ColumnDescription

if TYPE_CHECKING:
    from collections.abc import Iterable


_ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def copy_rows(lists: Iterable[Iterable[bytes]]) -> list[tuple[bytes | None, ...]]:
    """The fields of each row of a binary COPY."""
    stream = b"".join(block for blocks in lists for block in blocks)
    assert stream[:19] == b"PGCOPY\n\xff\r\n\0" + bytes(8)
    at, rows = 19, []
    while (count := struct.unpack_from(">h", stream, at)[0]) != -1:
        at += 2
        values: list[bytes | None] = []
        for _ in range(count):
            (length,) = struct.unpack_from(">i", stream, at)
            at += 4
            values.append(None if length == -1 else stream[at : at + length])
            at += max(length, 0)
        rows.append(tuple(values))
    assert at + 2 == len(stream)
    return rows


def texts(lists: Iterable[Iterable[bytes]]) -> list[tuple[str | None, ...]]:
    """The rows of a COPY in text format, each of at least one column."""
    lines = b"".join(block for blocks in lists for block in blocks).decode().split("\n")
    assert lines.pop() == ""
    return [tuple(None if text == r"\N" else _unescaped(text) for text in line.split("\t")) for line in lines]


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", lambda escape: _ESCAPED.get(escape[1], escape[1]), text)


@dataclass
class Relation:
    """What a Relation message says."""

    oid: int
    name: TableName
    identity: str
    columns: list[ColumnDescription]


@dataclass
class Stream:
    """What a peek gave."""

    commits: list[Lsn] = field(default_factory=list)
    """Where each commit record starts."""
    relations: dict[int, Relation] = field(default_factory=dict)
    inserts: list[tuple[int, tuple[Any, ...]]] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    kinds: str = ""

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        """The inserted rows of a table."""
        return [row for oid, row in self.inserts if self.relations[oid].name.table == table]


def read_stream(lists: Iterable[Iterable[bytes]]) -> Stream:
    """Decode what these tests look at: commits, relations, inserts, prefixes of logical messages."""
    stream = Stream()
    for _, _, data in copy_rows(lists):
        assert data is not None
        kind = chr(data[0])
        stream.kinds += kind
        match kind:
            case "C":
                stream.commits.append(Lsn(struct.unpack_from(">q", data, 2)[0]))
            case "R":
                relation = _relation(data)
                stream.relations[relation.oid] = relation
            case "I":
                stream.inserts.append((struct.unpack_from(">I", data, 1)[0], _tuple(data, 6)))
            case "M":
                stream.messages.append(data[10 : data.index(b"\0", 10)].decode())
            case _:
                pass
    return stream


def _relation(data: bytes) -> Relation:
    (oid,) = struct.unpack_from(">I", data, 1)
    end = data.index(b"\0", 5)
    table_end = data.index(b"\0", end + 1)
    name = TableName(data[5:end].decode(), data[end + 1 : table_end].decode())
    identity, count = struct.unpack_from(">ch", data, table_end + 1)
    at, columns = table_end + 4, []
    for _ in range(count):
        flags, stop = data[at], data.index(b"\0", at + 1)
        type_oid, typmod = struct.unpack_from(">Ii", data, stop + 1)
        columns.append(ColumnDescription(data[at + 1 : stop].decode(), type_oid, typmod, bool(flags & 1)))
        at = stop + 9
    return Relation(oid, name, identity.decode(), columns)


def _tuple(data: bytes, at: int) -> tuple[Any, ...]:
    (count,) = struct.unpack_from(">h", data, at)
    at += 2
    values: list[str | None] = []
    for _ in range(count):
        kind = chr(data[at])
        at += 1
        assert kind in "nt", kind
        if kind == "n":
            values.append(None)
            continue
        (length,) = struct.unpack_from(">i", data, at)
        values.append(data[at + 4 : at + 4 + length].decode())
        at += 4 + length
    return tuple(values)
