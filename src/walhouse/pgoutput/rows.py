"""The rows of a piece of the stream before they are Arrow: what each is made of, as indexes.

Invariant: rows stand in the order of their frames; of one frame, the description that it needs comes first.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Final, Self

import numpy as np

from walhouse.pgoutput.row import MESSAGE_SEQ

if TYPE_CHECKING:
    from collections.abc import Sequence

    from walhouse.pgoutput.wire import Bools, Int64s

CHANGE, LOGICAL_MESSAGE, DESCRIPTION, TRANSACTION = range(4)
"""Values of ``Rows.kind``."""

NONE: Final = -1
"""No relation, no message."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Parallel arrays, one element for each row."""

    frame: Int64s
    kind: Int64s
    type: Int64s
    """The type byte of the message that the row is made of; 0 for a description or a transaction."""
    seq: Int64s
    relation: Int64s
    """The index of the description that holds, or NONE."""
    message: Int64s
    """The frame of the logical message, or NONE."""

    @classmethod
    def of(cls, rows: Sequence[tuple[int, ...]]) -> Self:
        """Rows given one by one, as tuples of the fields."""
        return cls(*np.array(rows, np.int64).reshape(len(rows), len(fields(cls))).T)

    def __len__(self) -> int:
        return len(self.frame)

    @property
    def alone(self) -> Bools:
        """Which rows are non-transactional messages."""
        alone: Bools = (self.kind == LOGICAL_MESSAGE) & (self.seq == MESSAGE_SEQ)
        return alone

    def where(self, mask: Bools) -> Rows:
        """The rows for which the mask is true."""
        if mask.all():
            return self
        return Rows(*(getattr(self, field.name)[mask] for field in fields(self)))


def merge(first: Rows, second: Rows) -> Rows:
    """Both in the order of their frames; of one frame, those of ``first`` come first."""
    if not len(first):
        return second
    order = np.argsort(np.concatenate([first.frame, second.frame]), kind="stable")
    names = [field.name for field in fields(Rows)]
    return Rows(*(np.concatenate([getattr(first, name), getattr(second, name)])[order] for name in names))
