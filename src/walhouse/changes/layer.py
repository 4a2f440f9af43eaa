"""Bringing one layer up to where bronze is, epoch by epoch.

Invariant: planned, then applied, then recorded as done, in this order, whatever the layer; applying is idempotent, so a
crash between any two of these is repaired by running again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812  (the name everybody knows it by)

from walhouse.changes.epoch import AppliedTable, EpochRange, TableEpoch
from walhouse.changes.epochs import EpochLedger, PlannedEpoch
from walhouse.changes.resolve import bronze_range, resolve
from walhouse.lakehouse.tables import current_version, table_exists
from walhouse.lsn import Lsn
from walhouse.names import LakeTable, TableName
from walhouse.pgoutput.row import Kind

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from walhouse.changes.relations import RelationCatalog
    from walhouse.lakehouse.layout import LakeLayout

MESSAGES: Final = TableName("", "message")
"""The name under which the ledger keeps logical messages, which belong to no table."""


Report = Callable[[TableName, AppliedTable], None]
"""Told of each table as it is done."""


@dataclass(frozen=True, slots=True)
class Touched:
    """A table with rows in an epoch: its relation versions, the current one last, and how many rows."""

    table: TableName
    versions: tuple[int, ...]
    rows: int
    span: tuple[int, int] | None
    """First and last commit LSN of the rows; None if there are none but descriptions."""


@dataclass(frozen=True, slots=True)
class LayerTarget:
    """What makes a layer: where its tables are and how an epoch is applied to one of them."""

    ledger: EpochLedger
    name_of: Callable[[TableName], LakeTable]
    apply: Callable[[TableEpoch], AppliedTable]
    apply_messages: Callable[[TableEpoch], AppliedTable] | None = None


class LayerRun:
    """Applies what bronze has and the layer lacks."""

    def __init__(
        self, spark: SparkSession, layout: LakeLayout, target: LayerTarget, relations: RelationCatalog, threads: int
    ) -> None:
        self._spark = spark
        self._layout = layout
        self._target = target
        self._relations = relations
        self._threads = threads
        self._last = target.ledger.last()
        self._versions = target.ledger.versions()
        """Each table's Delta version as its last epoch left it: what the next epoch is resolved against."""

    @property
    def ledger(self) -> EpochLedger:
        """What the layer has applied, with the versions of its tables."""
        return self._target.ledger

    @property
    def applied_to(self) -> tuple[int, Lsn]:
        """Pass and LSN up to which the layer is computed."""
        if self._last is None:
            return 0, Lsn(0)
        planned, done = self._last
        return (planned.range.to_pass, planned.range.to_lsn) if done else (planned.range.after_pass, Lsn(0))

    def run(self, to_pass: int, to_lsn: Lsn, report: Report) -> int:
        """Apply everything up to a capture pass. Returns how many of bronze's rows that were."""
        rows = 0
        if self._last is not None and not self._last[1]:
            rows += self._apply_again(self._last[0], report)
        after, _ = self.applied_to
        if after < to_pass:
            number = 1 if self._last is None else self._last[0].range.number + 1
            rows += self._apply_new(EpochRange(number, after, to_pass, to_lsn), report)
        return rows

    def _apply_new(self, epoch: EpochRange, report: Report) -> int:
        touched = self._touched(epoch)
        planned = PlannedEpoch(epoch, {each.table: self._base(each.table) for each in touched})
        self._target.ledger.plan(planned)
        return self._apply(planned, touched, report, fresh=True)

    def _apply_again(self, planned: PlannedEpoch, report: Report) -> int:
        """An epoch that was written down and may have been applied in part: the process died in between."""
        return self._apply(planned, self._touched(planned.range), report, fresh=False)

    def _base(self, table: TableName) -> int | None:
        known = self._versions.get(table)
        if known is not None:
            return known
        name = self._lake_name(table)
        return current_version(self._spark, name) if table_exists(self._spark, name) else None

    def _lake_name(self, table: TableName) -> LakeTable:
        return self._layout.silver_messages if table == MESSAGES else self._target.name_of(table)

    def _apply(self, planned: PlannedEpoch, touched: Sequence[Touched], report: Report, *, fresh: bool) -> int:
        self._relations.refresh(planned.range.to_pass)

        def apply(each: Touched) -> AppliedTable:
            done = self._apply_table(planned, each, fresh=fresh)
            report(each.table, done)
            return done

        with ThreadPoolExecutor(self._threads) as pool:
            done = dict(zip((each.table for each in touched), pool.map(apply, touched), strict=True))
        self._target.ledger.finish(planned, done)
        self._last = planned, True
        self._versions.update((table, applied.version) for table, applied in done.items())
        return sum(each.rows for each in touched)

    def _apply_table(self, planned: PlannedEpoch, touched: Touched, *, fresh: bool) -> AppliedTable:
        bronze = bronze_range(self._spark, self._layout, planned.range)
        base = planned.bases[touched.table]
        if touched.table == MESSAGES:
            assert self._target.apply_messages is not None
            messages = bronze.where(F.col("kind") == Kind.MESSAGE.value)
            return self._target.apply_messages(
                TableEpoch(planned.range, touched.table, messages, (), base, fresh, touched.span)
            )
        relations = self._relations.describe(touched.versions)
        changes = resolve(bronze, touched.table)
        return self._target.apply(
            TableEpoch(planned.range, touched.table, changes, relations, base, fresh, touched.span)
        )

    def _touched(self, epoch: EpochRange) -> list[Touched]:
        bronze = bronze_range(self._spark, self._layout, epoch)
        position = F.struct("commit_lsn", F.coalesce("seq", F.lit(0)))
        rows = (
            bronze.where(F.col("kind") != Kind.PROGRESS.value)
            .groupBy("kind", "schema_name", "table_name", "relation_version")
            .agg(F.max(position).alias("last"), F.min("commit_lsn").alias("first_lsn"), F.count("*").alias("rows"))
        )
        found: dict[TableName, _Found] = {}
        for row in rows.toLocalIterator():
            is_message = row["kind"] == Kind.MESSAGE
            if is_message and self._target.apply_messages is None:
                continue
            table = MESSAGES if is_message else TableName(row["schema_name"], row["table_name"])
            mine = found.setdefault(table, _Found())
            last = (int(row["last"][0]), int(row["last"][1]))
            if not is_message:
                version = int(row["relation_version"])
                mine.versions[version] = max(mine.versions.get(version, (-1, 0)), last)
            if row["kind"] != Kind.RELATION:
                mine.add(int(row["rows"]), int(row["first_lsn"]), last[0])
        return [found[table].touched(table) for table in sorted(found)]


@dataclass(slots=True)
class _Found:
    """What is known of one table while the rows of ``_touched`` come in."""

    versions: dict[int, tuple[int, int]] = field(default_factory=dict)
    rows: int = 0
    span: tuple[int, int] | None = None

    def add(self, rows: int, first: int, last: int) -> None:
        self.rows += rows
        self.span = (first, last) if self.span is None else (min(first, self.span[0]), max(last, self.span[1]))

    def touched(self, table: TableName) -> Touched:
        return Touched(table, tuple(sorted(self.versions, key=self.versions.__getitem__)), self.rows, self.span)
