"""The rows of a COPY ... TO STDOUT in text format, as images (``walhouse.pgoutput.image``).

Invariant: a text here is the very text of the type's output function, as the WAL has it: what COPY escapes is given
back as it was, and NULL is only what COPY says is NULL.
Source: PostgreSQL documentation, COPY, "Text Format".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from walhouse.errors import FrameError
from walhouse.pgoutput.image import MARK, SEPARATOR, join, marked
from walhouse.pgoutput.texts import MAX_BYTES, gather_texts

if TYPE_CHECKING:
    from walhouse.pgoutput.wire import Bools, Int64s, Octets

_TAB: Final = ord("\t")
_NEWLINE: Final = ord("\n")
_NULL: Final = b"\\N"
_TO_SEPARATORS: Final = bytes.maketrans(b"\t", SEPARATOR.encode())

_WINDOW: Final = 1 << 22
"""Bytes that are looked at together: what is computed of them is as large, and a row may have a hundred MiB."""

_ESCAPES: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_STAND_IN: Final = "\0"
"""For a backslash while escapes are replaced: the one character that PostgreSQL's texts never have."""


def images_of_copy(blocks: list[bytes], columns: int) -> pa.StringArray:
    """The image of each row of a COPY in text format, with this number of columns.

    ``blocks`` is a run of the result's CopyData blocks, whole rows each; at most 2 GiB in all (ValueError), better a
    few tens of MiB. They are taken out of the list: a row may have a hundred MiB, and is not to be kept twice. Raises
    FrameError if they are not rows of so many columns.
    """
    joined = b"".join(blocks)
    blocks.clear()
    buffer = np.frombuffer(joined, np.uint8)
    ends = _separators(buffer, columns)
    if columns == 0:
        return pa.array([""] * len(ends), pa.string())
    starts = np.concatenate([np.zeros(1, np.int64), ends[:-1] + 1]) if len(ends) else ends
    null = _are_null(buffer, starts, ends)
    plain = joined.count(b"\\") == np.count_nonzero(null)  # each of them is a NULL's
    if plain and not (starts == ends).any():
        lengths = (ends[columns - 1 :: columns] - starts[::columns]) - len(_NULL) * _in_rows(null, columns)
        del buffer
        joined = joined.replace(_NULL, b"") if null.any() else joined
        return _rewritten(joined, lengths)
    texts = gather_texts(buffer, np.stack([starts, ends], axis=1).ravel().astype(np.int32), present=~null)
    del buffer, joined
    texts = texts if plain else _unescaped(texts)
    needs_mark = pc.or_kleene(pc.equal(texts, ""), pc.starts_with(texts, MARK))
    texts = marked(pc.fill_null(texts, ""), pc.fill_null(needs_mark, fill_value=False))
    return join(pa.array(np.arange(0, len(ends) + 1, columns, dtype=np.int32)), texts)


def _rewritten(joined: bytes, lengths: Int64s) -> pa.StringArray:
    """Rows whose values need no other form, but for the characters between them. Nothing stands for NULL."""
    if len(joined) > MAX_BYTES:
        raise ValueError("too many bytes at a time: Arrow's string offsets have 32 bits")
    data = joined.translate(_TO_SEPARATORS, b"\n")
    offsets = np.concatenate([np.zeros(1, np.int32), np.cumsum(lengths, dtype=np.int32)])
    return pa.StringArray.from_buffers(len(lengths), pa.py_buffer(offsets), pa.py_buffer(data))


def _in_rows(null: Bools, columns: int) -> Int64s:
    """How many values of each row are NULL."""
    found: Int64s = null.reshape(-1, columns).sum(axis=1)
    return found


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


def _unescaped(texts: pa.StringArray) -> pa.StringArray:
    """The texts without escapes; only those that have any are touched."""
    escaped = pc.fill_null(pc.match_substring(texts, "\\"), fill_value=False)
    plain = pc.replace_substring(texts.filter(escaped), "\\\\", _STAND_IN)
    for letter, character in _ESCAPES.items():
        plain = pc.replace_substring(plain, f"\\{letter}", character)
    return pc.replace_with_mask(texts, escaped, pc.replace_substring(plain, _STAND_IN, "\\"))
