"""The rows of a COPY ... (FORMAT binary) result, as libpq hands them out: one CopyData block for each row.

Invariant: the stream's header and trailer are recognised here and nowhere else; what remains is whole rows.
Source: PostgreSQL documentation, COPY, "Binary Format".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from walhouse.errors import FrameError, TruncatedFrameError
from walhouse.pgoutput.wire import NO_INTEGERS, Int64s, Octets

if TYPE_CHECKING:
    from walhouse.pgoutput.blocks import Blocks

SIGNATURE: Final = b"PGCOPY\n\xff\r\n\0"
"""The first 11 bytes of the stream; flags and the extension's length (32 bits each) follow."""

_HEADER: Final = 19
_TRAILER: Final = b"\xff\xff"


@dataclass(frozen=True, slots=True)
class CopyRows:
    """Rows as byte ranges ``[starts, ends)`` of one buffer, each from its field count to its last field."""

    buffer: Octets
    starts: Int64s
    ends: Int64s


def copy_rows(blocks: Blocks) -> CopyRows:
    """Find the rows of blocks, without the header (alone or glued to the first row) and the trailer.

    Any run of a stream's blocks may be given, so a result can be read piece by piece. They are taken: none is left.
    Raises FrameError for a header that asks for something unknown, TruncatedFrameError for one that is cut short.
    """
    if not len(blocks):
        return CopyRows(np.zeros(0, np.uint8), NO_INTEGERS, NO_INTEGERS)
    buffer, bounds = blocks.take()
    ends = np.array(bounds, np.int64)
    starts = np.concatenate([np.zeros(1, np.int64), ends[:-1]])
    first, length = 0, int(ends[0])
    if length >= len(SIGNATURE) and buffer[: len(SIGNATURE)].tobytes() == SIGNATURE:
        starts[0] = _header_length(buffer[: min(_HEADER, length)].tobytes(), length)
        first = int(starts[0] == ends[0])
    last = len(starts)
    if first < last and ends[-1] - starts[-1] == len(_TRAILER) and buffer[-2:].tobytes() == _TRAILER:
        last -= 1
    return CopyRows(buffer, starts[first:last], ends[first:last])


def _header_length(header: bytes, available: int) -> int:
    if len(header) < _HEADER:
        raise TruncatedFrameError("The header of the binary COPY is cut short.", offset=len(header))
    flags, extension = int.from_bytes(header[11:15]), int.from_bytes(header[15:19])
    if flags:
        raise FrameError(f"The binary COPY has flags {flags:#x}, which no known server sends.", offset=11)
    if _HEADER + extension > available:
        raise TruncatedFrameError("The header extension of the binary COPY is cut short.", offset=available)
    return _HEADER + extension
