"""Before and after images: the kept values of tuples as Arrow strings.

Invariant: element ``p`` of an image is the value of the relation description's column ``p``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from walhouse.errors import FrameError
from walhouse.pgoutput.frames import Frames, first_true
from walhouse.pgoutput.texts import gather_texts
from walhouse.pgoutput.tuples import TEXT, UNCHANGED, Tuples

if TYPE_CHECKING:
    from walhouse.pgoutput.relations import RelationList
    from walhouse.pgoutput.wire import Bools, Int64s


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


def images(
    frames: Frames, tuples: Tuples, *, frame_of: Int64s, rows: Int64s, relation: Int64s, relations: RelationList
) -> tuple[Lists, Lists]:
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
    values = gather_texts(frames.buffer, tuples.bounds, present=tuples.kinds == TEXT, picks=picks)
    kinds = tuples.kinds if picks is None else tuples.kinds[picks]
    unsent = _names(kinds == UNCHANGED, offsets, rows, relation, relations)
    return Lists(rows, np.diff(offsets), values), unsent


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
