"""What a range of changes contains, table by table, found out in one look, or in two if something is emptied.

Invariant: everything rare (a truncate, a key that changed, a value that was not sent) costs its extra work only in
epochs where it happens, and these facts are what says so. They are computed from the changes, never assumed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from walhouse.lakehouse.answers import few_rows
from walhouse.pgoutput.row import CHUNK_ID, BeforeKind, Op

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame

Place = tuple[int, int]
"""Commit LSN and seq: the order of changes."""


@dataclass(frozen=True, slots=True)
class ChunkFacts:
    """What the rows of chunks with a snapshot of their own contain."""

    xmin: int | None
    """All snapshots that tell it have seen every commit of a transaction before this one; None if none does."""
    last_lsn: int
    """The latest position of such a row."""
    seen_to: int | None = None
    """All others, a standby's, have seen every commit that starts before this LSN; None if there are none."""

    def __or__(self, other: ChunkFacts) -> ChunkFacts:
        """What both together contain."""
        return ChunkFacts(
            _least(self.xmin, other.xmin), max(self.last_lsn, other.last_lsn), _least(self.seen_to, other.seen_to)
        )


@dataclass(frozen=True, slots=True)
class Facts:
    """What the changes of one table contain."""

    rows: int = 0
    span: tuple[int, int] | None = None
    """First and last commit LSN; None if there are no rows."""
    truncated_at: Place | None = None
    """The last truncate, or the last beginning of the whole table's reading. Every change before it is without effect
    on what is left."""
    updates_with_old: int = 0
    """Updates that came with an old tuple: only these can have changed a key."""
    left_out: frozenset[str] = frozenset()
    """Columns whose value was left out somewhere (unchanged TOAST) and is not in the change's own old row either."""
    in_old_row: frozenset[str] = frozenset()
    """Columns whose value was left out somewhere, but is in the change's own old row (replica identity full)."""
    removals: int = 0
    """Updates and deletes."""
    incomplete_removals: int = 0
    """Updates and deletes that came without the whole old row, as they must not in a table without a key."""
    chunks: ChunkFacts | None = None
    """Of rows that were read in snapshots of their chunks' own; None if there are none."""
    snapshot_seqs: tuple[int, int] | None = None
    """``seq`` of the first and the last row of a snapshot taken as a whole; None if there are none."""
    base_seq: int | None = None
    """``seq`` of where the whole table's reading begins first; None if it does not."""
    begins_snapshot: bool = False
    """Whether the first of them is the whole snapshot's first: no table, not even an empty one, comes before."""
    ends_snapshot: bool = False
    """Whether the last of them is the whole snapshot's last."""

    def __or__(self, other: Facts) -> Facts:
        """What both together contain."""
        truncates = [place for place in (self.truncated_at, other.truncated_at) if place is not None]
        return Facts(
            rows=self.rows + other.rows,
            span=_around(self.span, other.span),
            truncated_at=max(truncates, default=None),
            updates_with_old=self.updates_with_old + other.updates_with_old,
            left_out=self.left_out | other.left_out,
            in_old_row=self.in_old_row | other.in_old_row,
            removals=self.removals + other.removals,
            incomplete_removals=self.incomplete_removals + other.incomplete_removals,
            chunks=self.chunks | other.chunks if self.chunks and other.chunks else self.chunks or other.chunks,
            snapshot_seqs=_around(self.snapshot_seqs, other.snapshot_seqs),
            base_seq=min((seq for seq in (self.base_seq, other.base_seq) if seq is not None), default=None),
            begins_snapshot=self.begins_snapshot or other.begins_snapshot,
            ends_snapshot=self.ends_snapshot or other.ends_snapshot,
        )


NOTHING: Final = Facts()
"""Of no changes at all."""


def _least(*values: int | None) -> int | None:
    return min((value for value in values if value is not None), default=None)


def _around(*spans: tuple[int, int] | None) -> tuple[int, int] | None:
    known = [span for span in spans if span is not None]
    return (min(first for first, _ in known), max(last for _, last in known)) if known else None


def has_full_before() -> Column:
    """True if the change carries the whole old row, TOASTed values included. Never NULL."""
    return F.coalesce(F.col("before_kind") == BeforeKind.FULL.value, F.lit(False))


def is_of_chunk() -> Column:
    """True for a row that was read in a snapshot of its chunk's own. Never NULL."""
    return F.coalesce(F.startswith("snapshot.id", F.lit(CHUNK_ID)), F.lit(False))


def is_of_standby(visibility: Column) -> Column:
    """True if it is that of a snapshot on a standby, ``lsn:…``: all commits before that LSN are seen, others may be."""
    return F.startswith(visibility, F.lit("lsn:"))


def visibility_part(visibility: Column, number: int) -> Column:
    """A number of ``xmin:xmax:xip`` or ``lsn:…``, by its place from 0."""
    return F.split(visibility, ":")[number].cast("bigint")


EMPTIES: Final = (Op.TRUNCATE.value, Op.BASE.value)
"""Operations that make all before them without effect."""

KINDS_OF_CHANGE: Final = ("op", "before_kind", "unchanged")
"""Of one kind all changes bring the same with them: facts are computed for each kind, and are few rows then.

With them as groups everything that is computed is a number, which Spark's generated code keeps in place; for sets of
columns and greatest places it would make objects, of each row.
"""


def fact_columns() -> list[Column]:
    """The aggregates that ``read_facts`` reads, over bronze's columns, grouped by KINDS_OF_CHANGE."""
    read = F.when((F.col("op") == Op.READ.value) & ~is_of_chunk(), F.col("seq"))
    visibility = F.col("snapshot.visibility")
    return [
        F.count(F.lit(1)).alias("rows"),
        F.min("commit_lsn").alias("first_lsn"),
        F.max("commit_lsn").alias("last_lsn"),
        F.min(F.when(is_of_chunk() & ~is_of_standby(visibility), visibility_part(visibility, 0))).alias("chunk_xmin"),
        F.min(F.when(is_of_chunk() & is_of_standby(visibility), visibility_part(visibility, 1))).alias("chunk_seen_to"),
        F.max(F.when(is_of_chunk(), F.col("commit_lsn"))).alias("chunk_lsn"),
        F.min(F.when(F.col("op") == Op.BASE.value, F.col("seq"))).alias("base_seq"),
        F.min(read).alias("first_read"),
        F.max(read).alias("last_read"),
    ]


def read_facts(row: Mapping[str, Any]) -> Facts:
    """The facts in a row of ``fact_columns``, but for ``truncated_at``, which is to be asked for (``last_place``)."""
    op, rows = row["op"], int(row["rows"])
    left_out = frozenset(row["unchanged"] or ())
    is_whole = row["before_kind"] == BeforeKind.FULL.value
    is_removal = op in {Op.UPDATE.value, Op.DELETE.value}
    return Facts(
        rows=rows,
        span=None if row["first_lsn"] is None else (int(row["first_lsn"]), int(row["last_lsn"])),
        updates_with_old=rows if op == Op.UPDATE.value and row["before_kind"] is not None else 0,
        left_out=frozenset() if is_whole else left_out,
        in_old_row=left_out if is_whole else frozenset(),
        removals=rows if is_removal else 0,
        incomplete_removals=rows if is_removal and not is_whole else 0,
        chunks=None
        if row["chunk_lsn"] is None
        else ChunkFacts(_int(row["chunk_xmin"]), int(row["chunk_lsn"]), _int(row["chunk_seen_to"])),
        base_seq=_int(row["base_seq"]),
        snapshot_seqs=None if row["first_read"] is None else (int(row["first_read"]), int(row["last_read"])),
    )


def empties() -> Column:
    """True for a change that makes all before it without effect. Never NULL."""
    return F.coalesce(F.col("op").isin(*EMPTIES), F.lit(False))


def last_place() -> Column:
    """The greatest place of some rows."""
    return F.max(F.struct("commit_lsn", F.coalesce("seq", F.lit(0)).alias("seq")))


def place_of(last: Mapping[str, Any]) -> Place:
    """What ``last_place`` has found."""
    return int(last["commit_lsn"]), int(last["seq"])


def _int(value: Any) -> int | None:
    return None if value is None else int(value)


def facts_of(changes: DataFrame) -> Facts:
    """Look through the changes of one table; a second time only for where a truncate stands."""
    found = few_rows(changes.groupBy(*KINDS_OF_CHANGE).agg(*fact_columns()))
    facts = reduce(or_, map(read_facts, found), NOTHING)
    if not any(kind["op"] in EMPTIES for kind in found):
        return facts
    [row] = few_rows(changes.where(empties()).agg(last_place().alias("last")))
    return replace(facts, truncated_at=place_of(row["last"]))
