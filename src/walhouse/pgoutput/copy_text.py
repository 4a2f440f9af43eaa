"""The rows of a COPY ... TO STDOUT in text format, as images (``walhouse.pgoutput.image``).

Invariant: a text here is the very text of the type's output function, as the WAL has it: what COPY escapes is given
back as it was, and NULL is only what COPY says is NULL.
Source: PostgreSQL documentation, COPY, "Text Format".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

import numpy as np
import pyarrow as pa

from walhouse.errors import FrameError
from walhouse.pgoutput.image import MARK, SEPARATOR
from walhouse.pgoutput.texts import gather_texts, require_offsets

if TYPE_CHECKING:
    from walhouse.pgoutput.blocks import Blocks
    from walhouse.pgoutput.wire import Bools, Int64s, Octets

_TAB: Final = ord("\t")
_NEWLINE: Final = ord("\n")
_NULL: Final = b"\\N"

_WINDOW: Final = 1 << 18
"""Bytes that are looked at together: a row may have a hundred MiB, and what is computed of these fits a cache."""

_BACKSLASH: Final = ord("\\")
_MARK: Final = ord(MARK)
_MEANING: Final = np.arange(256, dtype=np.uint8)
"""What the byte behind a backslash stands for."""
_MEANING[list(b"bfnrtv")] = list(b"\b\f\n\r\t\v")


def images_of_copy(blocks: Blocks, columns: int) -> pa.StringArray:
    """The image of each row of a COPY in text format, with this number of columns.

    ``blocks`` are at most 2 GiB in all (ValueError), better a few tens of MiB. They are taken: none is left. Raises
    FrameError if they are not rows of so many columns.
    """
    buffer, _ = blocks.take()
    ends = _separators(buffer, columns)
    if columns == 0:
        return pa.array([""] * len(ends), pa.string())
    starts = np.concatenate([np.zeros(1, np.int64), ends[:-1] + 1]) if len(ends) else ends
    null = _are_null(buffer, starts, ends)
    return _in_windows(buffer, starts, ends, null, columns)


def _separators(buffer: Octets, columns: int) -> Int64s:
    """Where each value ends: a tab, or a newline after a row's last. Inside of values COPY escapes both."""
    found = (
        np.flatnonzero((buffer[start : start + _WINDOW] - np.uint8(_TAB)) < 2) + start  # lesser bytes wrap around
        for start in range(0, len(buffer), _WINDOW)
    )
    ends: Int64s = np.concatenate([np.zeros(0, np.int64), *found])
    newlines = np.flatnonzero(buffer[ends] == _NEWLINE)
    in_a_row = max(columns, 1)  # a row without columns is a line, too
    last_is_newline = len(buffer) == 0 or buffer[-1] == _NEWLINE
    if not last_is_newline or not np.array_equal(newlines, np.arange(in_a_row - 1, len(ends), in_a_row)):
        raise FrameError(f"A block of the COPY is not rows of {columns} columns.", offset=0)
    return ends


def _are_null(buffer: Octets, starts: Int64s, ends: Int64s) -> Bools:
    null: Bools = ends - starts == len(_NULL)
    two = np.flatnonzero(null)
    null[two] = (buffer[starts[two]] == _NULL[0]) & (buffer[starts[two] + 1] == _NULL[1])
    return null


def _in_windows(buffer: Octets, starts: Int64s, ends: Int64s, null: Bools, columns: int) -> pa.StringArray:
    """The images of rows of any values, written one window after the other, so that nothing but they is as large."""
    empty = starts[starts == ends]
    require_offsets(len(buffer) + len(empty))
    images = np.empty(len(buffer) + len(empty), np.uint8)
    offsets = np.zeros(len(ends) // columns + 1, np.int32)
    row_ends, null_starts = ends[columns - 1 :: columns], starts[null]
    written = start = row = 0
    while start < len(buffer):
        window = _Window.of(buffer, start, min(start + _WINDOW, len(buffer)))
        values, rows, nulls, marks = (
            _within(places, start, window.end) for places in (ends, row_ends, null_starts, empty)
        )
        window.separate(values)
        gone = np.concatenate([window.unescape(_within(starts, start, window.end)), nulls + 1, rows])
        gone.sort()
        offsets[row + 1 : row + 1 + len(rows)] = (
            written + rows - np.searchsorted(gone, rows) + np.searchsorted(marks, rows, side="right")
        )
        length = window.write(images[written:], gone, marks)
        written, row, start = written + length, row + len(rows), window.end
    return pa.StringArray.from_buffers(len(offsets) - 1, pa.py_buffer(offsets), pa.py_buffer(images[:written]))


def _within(places: Int64s, start: int, end: int) -> Int64s:
    """Those of ascending places that lie in a range, counted from its start."""
    low, high = np.searchsorted(places, [start, end])
    found: Int64s = places[low:high] - start
    return found


@dataclass(slots=True)
class _Window:
    """A part of a block of rows that ends behind a whole escape: its bytes as they become, and where escapes begin."""

    octets: Octets
    escapes: Int64s
    end: int

    @classmethod
    def of(cls, buffer: Octets, start: int, end: int) -> Self:
        """The window ``[start, end)``, one byte shorter if an escape would be cut."""
        octets = buffer[start:end].copy()
        escapes = _escapes(octets)
        if len(escapes) and escapes[-1] == len(octets) - 1:
            octets, escapes, end = octets[:-1], escapes[:-1], end - 1
        return cls(octets, escapes, end)

    def separate(self, ends: Int64s) -> None:
        """The separator behind each value."""
        self.octets[ends] = ord(SEPARATOR)

    def unescape(self, starts: Int64s) -> Int64s:
        """Give characters back that COPY had escaped; the backslashes to be left out. ``starts``: of values.

        A text that begins with a backslash has the mark before it, which is one: COPY's own stays.
        """
        behind = self.octets[self.escapes + 1]
        self.octets[self.escapes + 1] = _MEANING[behind]
        if not len(starts):
            return self.escapes
        nearest = starts[np.minimum(np.searchsorted(starts, self.escapes), len(starts) - 1)]
        gone: Int64s = self.escapes[(nearest != self.escapes) | (behind != _BACKSLASH)]
        return gone

    def write(self, images: Octets, gone: Int64s, marks: Int64s) -> int:
        """Write all but what is gone, with marks before these places; how many bytes that is."""
        left = _without(self.octets, gone)
        length = len(left) + len(marks)
        if not len(marks):
            images[:length] = left
            return length
        is_text = np.ones(length, np.bool_)
        is_text[marks - np.searchsorted(gone, marks) + np.arange(len(marks))] = False
        images[:length][is_text] = left
        images[:length][~is_text] = _MARK
        return length


def _without(octets: Octets, gone: Int64s) -> Octets:
    """The bytes without those at these places. Runs between them are copied as texts are, a third of a mask's time."""
    bounds = np.empty(2 * len(gone) + 2, np.int32)
    bounds[0], bounds[1:-1:2], bounds[2:-1:2], bounds[-1] = 0, gone, gone + 1, len(octets)
    _, offsets, data = gather_texts(octets, bounds).buffers()
    length = int(np.frombuffer(offsets, np.int32)[len(gone) + 1])
    left: Octets = np.frombuffer(data, np.uint8, length) if length else octets[:0]
    return left


def _escapes(octets: Octets) -> Int64s:
    """Where escapes begin: in a row of backslashes each other one is what the one before it stands for."""
    found: Int64s = np.flatnonzero(octets == _BACKSLASH)
    first = np.diff(found, prepend=-2) != 1
    run = found[np.maximum.accumulate(np.where(first, np.arange(len(found)), 0))]
    begins: Int64s = found[(found - run) % 2 == 0]
    return begins
