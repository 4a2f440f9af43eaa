"""Frames: pgoutput messages as byte ranges of one buffer, however they were read from the server.

Invariant: frames stand in the order in which the server sent them, one complete message each, and ascend in the buffer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np

from walhouse.errors import FrameError, TruncatedFrameError
from walhouse.lsn import Lsn
from walhouse.pgoutput.copy_rows import copy_rows
from walhouse.pgoutput.wire import read_int32, read_int64

if TYPE_CHECKING:
    from collections.abc import Iterator

    from walhouse.pgoutput.blocks import Blocks
    from walhouse.pgoutput.wire import Bools, Int64s, Octets

_Error = TypeVar("_Error", bound=FrameError)

_ROW_HEADER: Final = 26
"""Bytes of a COPY row (lsn, xid, data) before the message: count 2, length 4, lsn 8, length 4, xid 4, length 4."""


@dataclass(frozen=True, slots=True)
class Frames:
    """Messages as byte ranges ``[starts, ends)`` of ``buffer``, with the LSN and the 32-bit xid that came with each."""

    buffer: Octets
    starts: Int64s
    ends: Int64s
    lsn: Int64s
    xid: Int64s

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def size(self) -> int:
        """Bytes of all messages."""
        return int((self.ends - self.starts).sum())

    def chunks(self, max_frames: int, max_bytes: int) -> Iterator[Frames]:
        """The same frames in pieces of bounded size, each over its own part of the buffer (not copied).

        A piece holds at least one frame, so only a frame that is larger than ``max_bytes`` makes a larger piece.
        """
        low = 0
        while low < len(self):
            base = int(self.starts[low])
            high = min(low + max_frames, int(np.searchsorted(self.ends, base + max_bytes, side="right")))
            high = max(high, low + 1)
            part = slice(low, high)
            buffer = self.buffer[base : int(self.ends[high - 1])]
            yield Frames(buffer, self.starts[part] - base, self.ends[part] - base, self.lsn[part], self.xid[part])
            low = high

    def failure(self, error: type[_Error], problem: str, frame: int, at: int, byte: int | None = None) -> _Error:
        """An error about the byte ``at`` of the buffer, with the frame's LSN and the offset within its message."""
        lsn = Lsn(self.lsn[frame]) or None
        return error(problem, lsn=lsn, offset=at - int(self.starts[frame]), byte=byte)

    def require(self, frames: Int64s, upto: Int64s, what: str) -> None:
        """Raise TruncatedFrameError unless each frame reaches to its position ``upto``."""
        short = upto > self.ends[frames]
        if short.any():
            frame = int(frames[first_true(short)])
            raise self.failure(TruncatedFrameError, f"A frame ends within {what}.", frame, int(self.ends[frame]))

    def require_end(self, frames: Int64s, at: Int64s) -> None:
        """Raise FrameError unless each frame ends exactly at its position ``at``."""
        longer = at != self.ends[frames]
        if longer.any():
            index = first_true(longer)
            raise self.failure(FrameError, "A frame goes on after its content.", int(frames[index]), int(at[index]))


def first_true(mask: Bools) -> int:
    """The index of the first true element; there must be one."""
    return int(np.argmax(mask))


def frames_from_copy(blocks: Blocks) -> Frames:
    """Frames of a binary COPY of ``SELECT lsn, xid, data FROM pg_logical_slot_peek_binary_changes(...)``.

    ``blocks`` have one row each, with or without the header and the trailer. They are taken: none is left.
    Raises FrameError if a row has another shape, TruncatedFrameError if it ends too early.
    """
    rows = copy_rows(blocks)
    starts, ends, buffer = rows.starts, rows.ends, rows.buffer
    there = ends - starts - _ROW_HEADER
    if (there < 0).any():
        row = first_true(there < 0)
        raise TruncatedFrameError("A row of the peek ends too early.", row=row, offset=int(ends[row] - starts[row]))
    # Few reads of eight bytes instead of one for each field: this runs once for every message.
    count_and_length = read_int64(buffer, starts) >> 16
    length_and_xid = read_int64(buffer, starts + 14)
    length = read_int32(buffer, starts + 22)
    wrong = (count_and_length != 3 << 32 | 8) | (length_and_xid >> 32 != 4) | (length < 0)
    if wrong.any():
        raise FrameError("A row of the peek is not (pg_lsn, xid, bytea).", row=first_true(wrong), offset=0)
    _check_lengths(length, there)
    lsn = read_int64(buffer, starts + 6)
    if (lsn < 0).any():
        raise FrameError("An LSN lies beyond 63 bits.", row=first_true(lsn < 0), offset=6)
    return Frames(buffer, starts + _ROW_HEADER, ends, lsn, length_and_xid & 0xFFFFFFFF)


def _check_lengths(length: Int64s, there: Int64s) -> None:
    if (there == length).all():
        return
    row = first_true(there != length)
    if there[row] < length[row]:
        raise TruncatedFrameError("The data of a row of the peek is cut short.", row=row, offset=int(there[row]))
    raise FrameError("A row of the peek goes on after its data.", row=row, offset=int(length[row]))
