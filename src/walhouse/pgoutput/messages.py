"""The messages that come rarely, read one by one: Relation, Type, Origin, Truncate, Message.

Invariant: a message is read to its last byte; too few bytes, too many, or a value that the protocol does not have is an
error with LSN and offset.
Source: PostgreSQL documentation, "Logical Replication Message Formats". Streaming and two-phase messages were not asked
for (protocol version 1), so their bytes are unknown here.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NoReturn, TypeVar

import numpy as np

from walhouse.errors import FrameError, TruncatedFrameError, UnknownMessageError
from walhouse.lsn import Lsn
from walhouse.names import TableName
from walhouse.pgoutput.column import ColumnDescription
from walhouse.pgoutput.frames import Frames, first_true

if TYPE_CHECKING:
    from collections.abc import Callable

    from walhouse.pgoutput.wire import Octets

BEGIN: Final = ord("B")
COMMIT: Final = ord("C")
ORIGIN: Final = ord("O")
RELATION: Final = ord("R")
TYPE: Final = ord("Y")
INSERT: Final = ord("I")
UPDATE: Final = ord("U")
DELETE: Final = ord("D")
TRUNCATE: Final = ord("T")
MESSAGE: Final = ord("M")

_KNOWN: Final = np.zeros(256, np.bool_)
_KNOWN[list(b"BCORYIUDTM")] = True
_REPLICA_IDENTITIES: Final = "dnfi"
_TRUNCATE_OPTIONS: Final = 3
_Message = TypeVar("_Message")


@dataclass(frozen=True, slots=True)
class RelationMessage:
    """A relation as the following changes use it; ``identity`` flags are in the columns."""

    oid: int
    name: TableName
    replica_identity: str
    columns: tuple[ColumnDescription, ...]


@dataclass(frozen=True, slots=True)
class TypeMessage:
    """The name of a type that is not built in."""

    oid: int
    schema: str
    name: str


@dataclass(frozen=True, slots=True)
class OriginMessage:
    """Where a transaction was committed first: the origin's name, and the commit's LSN there."""

    name: str
    lsn: Lsn


@dataclass(frozen=True, slots=True)
class TruncateMessage:
    """Relations emptied by one statement; options: 1 cascade, 2 restart identity."""

    relations: tuple[int, ...]
    options: int


@dataclass(frozen=True, slots=True)
class LogicalMessage:
    """What ``pg_logical_emit_message`` wrote; ``lsn`` is the end of its record."""

    transactional: bool
    lsn: Lsn
    prefix: str
    content: bytes


def message_types(frames: Frames) -> Octets:
    """The first byte of each frame. Raises UnknownMessageError, and TruncatedFrameError for an empty frame."""
    empty = frames.starts >= frames.ends
    if empty.any():
        frame = first_true(empty)
        raise frames.failure(TruncatedFrameError, "A frame is empty.", frame, int(frames.starts[frame]))
    types = frames.buffer.take(frames.starts)
    unknown = ~_KNOWN[types]
    if unknown.any():
        frame = first_true(unknown)
        byte = int(types[frame])
        raise frames.failure(
            UnknownMessageError,
            f"A message has the unknown type {bytes([byte])!r}.",
            frame,
            int(frames.starts[frame]),
            byte=byte,
        )
    return types


def read_relation(frames: Frames, frame: int) -> RelationMessage:
    """Relation: oid, schema, table, replica identity, column count, columns of flags, name, type oid, typmod."""
    return _read(frames, frame, _relation)


def read_type(frames: Frames, frame: int) -> TypeMessage:
    """Type: Int32 oid, String schema, String name."""
    return _read(frames, frame, lambda reader: TypeMessage(reader.uint32(), reader.schema(), reader.text()))


def read_origin(frames: Frames, frame: int) -> OriginMessage:
    """Origin: Int64 LSN of the commit there, String name."""
    return _read(frames, frame, _origin)


def read_truncate(frames: Frames, frame: int) -> TruncateMessage:
    """Truncate: Int32 count, Int8 options, Int32 oid of each relation."""
    return _read(frames, frame, _truncate)


def read_message(frames: Frames, frame: int) -> LogicalMessage:
    """Message: Int8 flags (1 transactional), Int64 LSN, String prefix, Int32 length, content."""
    return _read(frames, frame, _message)


class _Reader:
    """A cursor over one message."""

    def __init__(self, frames: Frames, frame: int) -> None:
        self.data = frames.buffer[int(frames.starts[frame]) : int(frames.ends[frame])].tobytes()
        self.at = 1
        self._lsn = Lsn(frames.lsn[frame]) or None

    def uint8(self) -> int:
        return self._unpack("B")

    def int16(self) -> int:
        return self._unpack(">h")

    def int32(self) -> int:
        return self._unpack(">i")

    def uint32(self) -> int:
        return self._unpack(">I")

    def lsn(self) -> Lsn:
        value = self._unpack(">q")
        if value < 0:
            self.refuse("An LSN lies beyond 63 bits.")
        return Lsn(value)

    def text(self) -> str:
        end = self.data.find(b"\0", self.at)
        if end < 0:
            self._truncated()
        try:
            value = self.data[self.at : end].decode()
        except UnicodeDecodeError as error:
            raise FrameError("A name is not UTF-8.", lsn=self._lsn, offset=self.at + error.start) from error
        self.at = end + 1
        return value

    def schema(self) -> str:
        # pgoutput sends the empty string for pg_catalog.
        return self.text() or "pg_catalog"

    def octets(self, length: int) -> bytes:
        if length < 0:
            self.refuse("A length is negative.")
        if self.at + length > len(self.data):
            self._truncated()
        self.at += length
        return self.data[self.at - length : self.at]

    def refuse(self, problem: str) -> NoReturn:
        raise FrameError(problem, lsn=self._lsn, offset=self.at)

    def finish(self) -> None:
        if self.at != len(self.data):
            self.refuse("A frame goes on after its content.")

    def _unpack(self, form: str) -> int:
        size = struct.calcsize(form)
        if self.at + size > len(self.data):
            self._truncated()
        value: int = struct.unpack_from(form, self.data, self.at)[0]
        self.at += size
        return value

    def _truncated(self) -> NoReturn:
        raise TruncatedFrameError("A frame ends before its content.", lsn=self._lsn, offset=len(self.data))


def _read(frames: Frames, frame: int, parse: Callable[[_Reader], _Message]) -> _Message:
    reader = _Reader(frames, frame)
    message = parse(reader)
    reader.finish()
    return message


def _relation(reader: _Reader) -> RelationMessage:
    oid, schema, table = reader.uint32(), reader.schema(), reader.text()
    identity = chr(reader.uint8())
    if identity not in _REPLICA_IDENTITIES:
        reader.refuse(f"A relation has the unknown replica identity {identity!r}.")
    count = reader.int16()
    if count < 0:
        reader.refuse("A count of columns is negative.")
    columns = tuple(_column(reader) for _ in range(count))
    return RelationMessage(oid, TableName(schema, table), identity, columns)


def _column(reader: _Reader) -> ColumnDescription:
    flags, name, type_oid, typmod = reader.uint8(), reader.text(), reader.uint32(), reader.int32()
    if flags > 1:
        reader.refuse(f"A column has the unknown flags {flags:#x}.")
    return ColumnDescription(name, type_oid, typmod, identity=flags == 1)


def _origin(reader: _Reader) -> OriginMessage:
    lsn = reader.lsn()
    return OriginMessage(reader.text(), lsn)


def _truncate(reader: _Reader) -> TruncateMessage:
    count, options = reader.int32(), reader.uint8()
    if count < 0:
        reader.refuse("A count of relations is negative.")
    if options > _TRUNCATE_OPTIONS:
        reader.refuse(f"A truncate has the unknown options {options:#x}.")
    return TruncateMessage(tuple(reader.uint32() for _ in range(count)), options)


def _message(reader: _Reader) -> LogicalMessage:
    flags, lsn, prefix = reader.uint8(), reader.lsn(), reader.text()
    if flags > 1:
        reader.refuse(f"A logical message has the unknown flags {flags:#x}.")
    return LogicalMessage(transactional=flags == 1, lsn=lsn, prefix=prefix, content=reader.octets(reader.int32()))
