"""Before and after images: the kept values of tuples, packed (``walhouse.pgoutput.image``).

Invariant: the text at place ``p`` of an image is the value of the relation description's column ``p``; so a value that
has the separator in it is an error.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from walhouse.errors import FrameError
from walhouse.pgoutput.frames import Frames, first_true
from walhouse.pgoutput.image import MARK, SEPARATOR, join, marked
from walhouse.pgoutput.texts import gather_texts, require_offsets
from walhouse.pgoutput.tuples import TEXT, UNCHANGED, Tuples

if TYPE_CHECKING:
    from walhouse.pgoutput.relations import RelationList
    from walhouse.pgoutput.wire import Bools, Int64s

_SEPARATOR: Final = SEPARATOR.encode()
_MARK: Final = MARK.encode()
_LONG: Final = 4096
"""From so many bytes a value on, values are copied one by one: a row may have a hundred MiB, and is there once less."""


@dataclass(frozen=True, slots=True)
class Lists:
    """``list<string>`` values of some rows (indexes among the changes), ``counts`` elements each, end to end."""

    rows: Int64s
    counts: Int64s
    values: pa.StringArray

    def spread(self, places: Int64s, count: int, list_type: pa.DataType) -> pa.ListArray:
        """The list column of ``count`` rows; ``places`` is where each change stands, rows without a list are null."""
        if not len(self.rows):
            return pa.nulls(count, list_type)
        where = places[self.rows]
        counts = np.zeros(count, np.int64)
        counts[where] = self.counts
        missing = np.ones(count, np.bool_)
        missing[where] = False
        offsets = np.concatenate([np.zeros(1, np.int32), np.cumsum(counts, dtype=np.int32)])
        mask = pa.array(missing) if missing.any() else None
        return pa.ListArray.from_arrays(pa.array(offsets), self.values, type=list_type, mask=mask)


@dataclass(frozen=True, slots=True)
class Images:
    """Images of some rows: indexes among the changes, ascending, and one string for each."""

    rows: Int64s
    packed: pa.StringArray

    def spread(self, places: Int64s, count: int) -> pa.StringArray:
        """The column of ``count`` rows; ``places`` is where each change stands, rows without an image are null."""
        if not len(self.rows):
            return pa.nulls(count, pa.string())
        where = places[self.rows]
        _, offsets, data = self.packed.buffers()
        ends = np.frombuffer(offsets, np.int32)[self.packed.offset :][: len(where) + 1]
        lengths = np.zeros(count, np.int32)
        lengths[where] = np.diff(ends)
        missing = np.ones(count, np.bool_)
        missing[where] = False
        spread = np.concatenate([ends[:1], ends[0] + np.cumsum(lengths, dtype=np.int32)])
        valid = pa.array(~missing).buffers()[1] if missing.any() else None
        return pa.StringArray.from_buffers(count, pa.py_buffer(spread), data, valid)


def images(
    frames: Frames, tuples: Tuples, *, frame_of: Int64s, rows: Int64s, relation: Int64s, relations: RelationList
) -> tuple[Images, Lists]:
    """The images of tuples, and the names of the columns whose value was not sent.

    ``frame_of``, ``rows`` and ``relation`` give each tuple's frame, its change and its description. Raises FrameError
    if a tuple has another number of columns than its Relation message.
    """
    other = tuples.widths != relations.widths[relation]
    if other.any():
        index = first_true(other)
        frame = int(frame_of[index])
        problem = "A tuple has another number of columns than its Relation message."
        raise frames.failure(FrameError, problem, frame, int(frames.starts[frame]))
    offsets, picks = _picks(tuples, relation, relations)
    kinds = tuples.kinds if picks is None else tuples.kinds[picks]
    unsent = _names(kinds == UNCHANGED, offsets, rows, relation, relations)
    pack = _packed_singly if frames.size > _LONG * len(kinds) else _packed
    packed = pack(frames, tuples, offsets, picks)
    if _count_separators(packed) != len(kinds) - np.count_nonzero(np.diff(offsets)):
        raise _separator_found(frames, tuples, frame_of)
    return Images(rows, packed), unsent


def _count_separators(packed: pa.StringArray) -> int:
    _, offsets, data = packed.buffers()
    if data is None:
        return 0
    first, last = (int(end) for end in np.frombuffer(offsets, np.int32)[packed.offset :][[0, len(packed)]])
    octets = np.frombuffer(data, np.uint8)[first:last]
    return len(octets) - int(np.count_nonzero(octets))  # faster than to compare each


def _separator_found(frames: Frames, tuples: Tuples, frame_of: Int64s) -> FrameError:
    """The error about the first value with a separator in it."""
    at = np.flatnonzero(frames.buffer == ord(SEPARATOR))
    bound = np.searchsorted(tuples.bounds, at, side="right")
    inside = bound % 2 == 1  # past a value's start, and not past its end
    found = first_true(inside)
    owner = int(np.searchsorted(tuples.offsets, bound[found] // 2, side="right")) - 1
    return frames.failure(FrameError, "A value has U+0000 in it.", int(frame_of[owner]), int(at[found]))


def _packed(frames: Frames, tuples: Tuples, offsets: Int64s, picks: Int64s | None) -> pa.StringArray:
    texts = gather_texts(frames.buffer, tuples.bounds, picks=picks)
    needs_mark = _needs_mark(frames, tuples)
    if needs_mark.any():
        texts = marked(texts, pa.array(needs_mark if picks is None else needs_mark[picks]))
    return join(pa.array(offsets, pa.int32()), texts)


def _packed_singly(frames: Frames, tuples: Tuples, offsets: Int64s, picks: Int64s | None) -> pa.StringArray:
    """As ``_packed``, of few and long values: each is copied once, into its image."""
    require_offsets(len(frames.buffer))
    octets = frames.buffer.data
    bounds = zip(tuples.bounds[::2].tolist(), tuples.bounds[1::2].tolist(), strict=True)
    marks = np.where(_needs_mark(frames, tuples), _MARK, b"").tolist()
    values = [(_SEPARATOR, mark, octets[start:end]) for mark, (start, end) in zip(marks, bounds, strict=True)]
    order = range(len(values)) if picks is None else picks.tolist()
    parts, lengths = [], [0]
    for first, last in pairwise(offsets.tolist()):
        image = [part for value in order[first:last] for part in values[value]][1:]
        parts += image
        lengths.append(sum(map(len, image)))
    ends = np.cumsum(lengths, dtype=np.int32)
    return pa.StringArray.from_buffers(len(ends) - 1, pa.py_buffer(ends), pa.py_buffer(b"".join(parts)))


def _needs_mark(frames: Frames, tuples: Tuples) -> Bools:
    """Which values are texts that are empty or begin with the mark."""
    starts, ends = tuples.bounds[::2], tuples.bounds[1::2]
    first = frames.buffer.take(starts, mode="clip")
    needs_mark: Bools = (tuples.kinds == TEXT) & ((starts == ends) | (first == ord(MARK)))
    return needs_mark


def _picks(tuples: Tuples, relation: Int64s, relations: RelationList) -> tuple[Int64s, Int64s | None]:
    """Offsets of the images among the kept values, and which values are kept, in their order; None for all."""
    if relations.whole[relation].all():
        return tuples.offsets, None
    used = np.unique(relation)
    positions = {int(index): np.array(relations.positions(int(index)), np.int64) for index in used}
    widths = np.zeros(len(relations.widths), np.int64)
    widths[used] = [len(kept) for kept in positions.values()]
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(widths[relation])])
    picks = np.empty(offsets[-1], np.int64)
    for index, kept in positions.items():
        here = np.flatnonzero(relation == index)
        to = offsets[here][:, np.newaxis] + np.arange(len(kept))
        picks[to] = tuples.offsets[here][:, np.newaxis] + kept
    return offsets, picks


def _names(unsent: Bools, offsets: Int64s, rows: Int64s, relation: Int64s, relations: RelationList) -> Lists:
    where = np.flatnonzero(unsent)
    owner = np.searchsorted(offsets, where, side="right") - 1
    counts = np.bincount(owner, minlength=len(rows))
    names, first = relations.column_names
    column = where - offsets[owner] + first[relation[owner]]
    some = np.flatnonzero(counts)
    return Lists(rows[some], counts[some], pc.take(names, pa.array(column)))
