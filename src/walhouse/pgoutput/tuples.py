"""Tuples, parsed column by column over many rows at once.

Invariant: every position is checked against the end of its frame before it is read, so a damaged frame is an error with
its LSN and offset and never a wrong value.
Source: PostgreSQL documentation, "Logical Replication Message Formats", TupleData.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from walhouse.errors import FrameError, UnknownTupleKindError
from walhouse.pgoutput.frames import Frames, first_true
from walhouse.pgoutput.wire import Int32s, Int64s, Octets, read_int16, read_uint32

NULL: Final = ord("n")
UNCHANGED: Final = ord("u")
TEXT: Final = ord("t")


@dataclass(frozen=True, slots=True)
class Tuples:
    """The values of N tuples, row-major: value ``v`` of tuple ``i`` stands at ``offsets[i] + v``.

    ``bounds`` has two elements for each value, where its bytes start and end in the buffer (equal where it has none);
    it ascends. ``kinds`` are the bytes n(ull), u(nchanged) and t(ext); ``tuple_ends`` is the position after each tuple.
    """

    bounds: Int32s
    kinds: Octets
    offsets: Int64s
    tuple_ends: Int64s

    @property
    def widths(self) -> Int64s:
        """The number of values of each tuple."""
        return np.diff(self.offsets)


def parse_tuples(frames: Frames, rows: Int64s, at: Int64s) -> Tuples:
    """Parse one TupleData in each frame ``rows[i]``, beginning at byte ``at[i]`` of the buffer.

    Raises TruncatedFrameError, and UnknownTupleKindError for any kind but null, unchanged and text (binary values were
    not asked for).
    """
    frames.require(rows, at + 2, "a tuple's column count")
    widths = read_int16(frames.buffer, at)
    _refuse_negative(frames, rows, at, widths)
    offsets = _offsets(widths)
    bounds = np.empty((offsets[-1], 2), np.int32)
    kinds = np.empty(offsets[-1], np.uint8)
    widest = int(np.max(widths, initial=0))
    same_width = bool((widths == widest).all())
    tuple_ends = at + 2
    for column in range(widest):
        # Slices where all tuples have all columns (one table, the usual case): no copies of indexes.
        active = slice(None) if same_width else np.flatnonzero(widths > column)
        where = slice(column, None, widest) if same_width else offsets[:-1][active] + column
        kind, start, end = _parse_column(frames, rows[active], tuple_ends[active])
        bounds[where, 0], bounds[where, 1], kinds[where] = start, end, kind
        tuple_ends[active] = end
    return Tuples(bounds.ravel(), kinds, offsets, tuple_ends)


def _parse_column(frames: Frames, rows: Int64s, at: Int64s) -> tuple[Octets, Int64s, Int64s]:
    """The kind of the value at each position, and where its bytes start and end."""
    frames.require(rows, at + 1, "a tuple")
    kind = frames.buffer.take(at)
    sized = kind == TEXT
    if sized.all():
        start, end = _sized(frames, rows, at + 1)
        return kind, start, end
    unknown = ~sized & (kind != NULL) & (kind != UNCHANGED)
    if unknown.any():
        index = first_true(unknown)
        byte = int(kind[index])
        problem = f"A tuple value has the kind {bytes([byte])!r}."
        raise frames.failure(UnknownTupleKindError, problem, int(rows[index]), int(at[index]), byte=byte)
    start = at + 1
    end = start.copy()
    some = np.flatnonzero(sized)
    start[some], end[some] = _sized(frames, rows[some], start[some])
    return kind, start, end


def _sized(frames: Frames, rows: Int64s, at: Int64s) -> tuple[Int64s, Int64s]:
    frames.require(rows, at + 4, "a value's length")
    start = at + 4
    end = start + read_uint32(frames.buffer, at)
    frames.require(rows, end, "a value")
    return start, end


def _refuse_negative(frames: Frames, rows: Int64s, at: Int64s, numbers: Int64s) -> None:
    if (numbers < 0).any():
        index = first_true(numbers < 0)
        raise frames.failure(FrameError, "A count or length is negative.", int(rows[index]), int(at[index]))


def _offsets(widths: Int64s) -> Int64s:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(widths)])
