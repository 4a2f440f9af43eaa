"""How a long print is cut: into pieces of positions, each printed while Spark makes the next.

A piece is made by one job, each of its parts by a task.

Invariant: the pieces and their parts are disjoint, in order, and cover everything; what a part holds is bounded, in
bytes as far as the rows before it tell.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

_STEP: Final = 4_000
"""Changes between two cuts, about."""

_PART_STEPS: Final = 8
_PART_BYTES: Final = 32 << 20
"""What a part of a piece may hold, about: a part is in a task's memory, and a piece in Python's, as a whole."""

_PARTS: Final = (1, 8)
"""Parts of the first piece, and of the others: the first lines come soon."""

_SEED: Final = 1


class Cut(NamedTuple):
    """A position between two pieces: the first of the later one."""

    commit_lsn: int
    read: str | None
    seq: int

    def is_reached(self) -> Column:
        """Whether a row stands at the cut or after it. Within a commit LSN a snapshot's rows come first, by table."""
        mine = F.struct(F.col("read").isNull(), F.coalesce("read", F.lit("")), F.col("seq").cast("bigint"))
        cut = F.struct(F.lit(self.read is None), F.lit(self.read or ""), F.lit(self.seq).cast("bigint"))
        lsn = F.col("commit_lsn")
        return (lsn > self.commit_lsn) | ((lsn == self.commit_lsn) & (mine >= cut))


@dataclass(frozen=True, slots=True)
class Piece:
    """The positions in ``[begin, end)``; None: no bound. ``inner``: the cuts between its parts."""

    begin: Cut | None = None
    inner: tuple[Cut, ...] = ()
    end: Cut | None = None
    steps: int = 1

    def of(self, rows: DataFrame) -> DataFrame:
        """The rows of this piece. Columns used: commit_lsn, read, seq."""
        # what is said of the commit LSN alone Spark takes down to the files, below an event's place in its transaction
        if self.begin is not None:
            rows = rows.where((F.col("commit_lsn") >= self.begin.commit_lsn) & self.begin.is_reached())
        if self.end is not None:
            rows = rows.where((F.col("commit_lsn") <= self.end.commit_lsn) & ~self.end.is_reached())
        if self.begin is not None and self.end is not None and self.begin[:2] == self.end[:2]:
            # within one snapshot of one table, which may have many files: this, too, is taken down to them
            rows = rows.where((F.col("seq") >= self.begin.seq) & (F.col("seq") < self.end.seq))
        return rows

    @property
    def parts(self) -> int:
        """How many parts it has."""
        return len(self.inner) + 1

    def part(self) -> Column:
        """The number of a row's part, from 0."""
        return _part(self.inner, 0)


WHOLE: Final = Piece()


def _part(inner: Sequence[Cut], first: int) -> Column:
    if not inner:
        return F.lit(first)
    middle = len(inner) // 2
    later = _part(inner[middle + 1 :], first + middle + 1)
    return F.when(inner[middle].is_reached(), later).otherwise(_part(inner[:middle], first))


class Pieces:
    """Pieces, one after another: a small one first, then as large as the bytes of those before allow."""

    def __init__(self, cuts: Sequence[Cut]) -> None:
        self._cuts = (None, *cuts, None)
        self._at = 0
        self._taken = 0
        self._part_steps = 1

    def take(self) -> Piece | None:
        """The next piece; None after the last."""
        last = len(self._cuts) - 1
        if self._at == last:
            return None
        parts = _PARTS[min(self._taken, len(_PARTS) - 1)]
        end = min(self._at + parts * self._part_steps, last)
        inner = self._cuts[self._at + self._part_steps : end : self._part_steps]
        piece = Piece(self._cuts[self._at], tuple(cut for cut in inner if cut), self._cuts[end], end - self._at)
        self._at = end
        self._taken += 1
        return piece

    def made(self, piece: Piece, size: int) -> None:
        """Tell how many bytes a piece had."""
        self._part_steps = max(1, min(_PART_STEPS, _PART_BYTES * piece.steps // max(size, 1)))


def cuts(positions: Sequence[DataFrame]) -> list[Cut]:
    """Cuts between about ``_STEP`` changes each, out of a sample of the positions (columns: commit_lsn, read, seq)."""
    if not positions:
        return []
    every = reduce(lambda one, other: one.unionAll(other), positions)
    streamed = F.col("read").isNull().alias("streamed")
    # ordered here: a query that does it has two more stages, which is a second where nothing is warm
    sampled = every.sample(1 / _STEP, _SEED).select("commit_lsn", streamed, "read", "seq").toArrow()
    distinct = sampled.group_by(sampled.column_names).aggregate([])
    ordered = distinct.sort_by([(name, "ascending") for name in distinct.column_names])
    return [Cut(cut["commit_lsn"], cut["read"], cut["seq"]) for cut in ordered.to_pylist()]
