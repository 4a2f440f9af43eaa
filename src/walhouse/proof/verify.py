"""verify: gold equals PostgreSQL, row by row, at one LSN.

Invariant: both sides are of one instant. The source is read in one exported snapshot, whose insert LSN H is made the
end of an epoch; gold is read as that epoch left it. Commits before H that the snapshot does not see (a commit is in
the WAL before it is visible) are found in bronze, and the keys that they touched are compared without them.

The tables are locked while they are read, and no longer: whoever wants to TRUNCATE or ALTER one waits for that lock,
and all others wait behind them. Spark keeps what was read on its disks, and gold is brought up afterwards.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, LongType, StringType, StructField, StructType, TimestampType

from walhouse.bronze.failure import on_driver
from walhouse.bronze.snapshots.pieces import tasks
from walhouse.bronze.source import SnapshotPlan, load
from walhouse.changes.epoch import EpochRange
from walhouse.changes.epochs import Layer
from walhouse.changes.images import text_at
from walhouse.changes.resolve import bronze_range, resolve
from walhouse.errors import NotProvenError, TableChangedError, TableNotReadError
from walhouse.lakehouse.appends import append_rows
from walhouse.lakehouse.tables import create_table, table_exists
from walhouse.postgres.catalog import read_relations
from walhouse.postgres.connection import connect
from walhouse.postgres.exported import OwnSnapshot, exported_snapshot
from walhouse.postgres.publication import captured_tables, publishes_roots
from walhouse.postgres.snapshot import LockHolder, locked_tables, plan_chunks
from walhouse.proof.compare import Comparison, compare
from walhouse.proof.invisible import expected_overrides
from walhouse.proof.text import source_expressions

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from walhouse.bronze.capture import Capture
    from walhouse.bronze.progress import CaptureStep
    from walhouse.bronze.settings import CaptureSettings
    from walhouse.changes.epoch import AppliedTable
    from walhouse.changes.layers import Layers
    from walhouse.changes.relations import RelationCatalog
    from walhouse.lakehouse.layout import LakeLayout
    from walhouse.lsn import Lsn
    from walhouse.names import TableName
    from walhouse.ops.reporting import Reporter
    from walhouse.pgoutput.relation import RelationDescription
    from walhouse.postgres.connection import Connection

WAIT_BEHIND_OWN_LOCK: Final = 1.0
"""Seconds that a reader waits for a table. The proof's own lock is on it: whoever is before the reader wants the table
for himself alone and waits for that lock, so that only the proof's letting go can help, and all others wait meanwhile.
"""

PROOFS: Final = StructType(
    [
        StructField("schema_name", StringType(), metadata={"comment": "Source table"}),
        StructField("table_name", StringType(), metadata={"comment": "Source table"}),
        StructField("lsn", LongType(), metadata={"comment": "Both sides are as of this LSN"}),
        StructField("source_rows", LongType(), metadata={"comment": "Rows of the source"}),
        StructField("gold_rows", LongType(), metadata={"comment": "Rows of gold"}),
        StructField("differing", LongType(), metadata={"comment": "Keys that differ"}),
        StructField("equal", BooleanType(), metadata={"comment": "Whether every row is equal"}),
        StructField("at", TimestampType(), metadata={"comment": "When it was compared"}),
    ]
)


@dataclass(frozen=True, slots=True)
class Proof:
    """What comparing one table gave. ``comparison`` has the differing keys, up to the limit, with both rows."""

    table: TableName
    lsn: Lsn
    comparison: Comparison

    @property
    def source_rows(self) -> int:
        """Rows of the source."""
        return self.comparison.source_rows

    @property
    def gold_rows(self) -> int:
        """Rows of gold."""
        return self.comparison.gold_rows

    @property
    def equal(self) -> bool:
        """Whether every row is equal."""
        return self.comparison.equal


class Verification:
    """Compares gold with the source. Create it inside the lake's write lock."""

    def __init__(
        self,
        spark: SparkSession,
        layout: LakeLayout,
        *,
        settings: CaptureSettings,
        relations: RelationCatalog,
        capture: Capture,
        layers: Layers,
        conn: Connection,
        threads: int,
    ) -> None:
        self._spark = spark
        self._layout = layout
        self._settings = settings
        self._relations = relations
        self._capture = capture
        self._layers = layers
        self._conn = conn
        self._threads = threads

    def run(self, tables: Sequence[TableName] | None, reporter: Reporter, limit: int) -> list[Proof]:
        """Prove these tables, or all captured ones. The result is also written to ``ops.proofs``.

        Raises NotProvenError if one of these tables is not captured; or if all are to be proven, and the source has one
        that gold has, too, and the publication lacks.
        """
        catalog = self._catalog()
        if tables is None:
            self._require_published(catalog.values())
        relations = sorted(
            (relation for relation in catalog.values() if tables is None or relation.name in tables),
            key=lambda relation: relation.name,
        )
        _require_all_of(tables or (), relations)
        with ExitStack() as kept, ThreadPoolExecutor(self._threads) as pool:
            with (
                locked_tables(self._settings.connection, [relation.name for relation in relations]) as locks,
                exported_snapshot(self._settings.connection, not_before=self._capture.progress.captured_to) as snapshot,
            ):
                _require_unchanged(relations, self._catalog())

                def read(relation: RelationDescription) -> DataFrame:
                    return self._read(relation, snapshot, locks, kept=kept, reporter=reporter)

                sources = list(pool.map(read, relations))
            epoch = self._bring_to(snapshot.insert_lsn.page_aligned(), reporter)

            def prove(relation: RelationDescription, source: DataFrame) -> Proof:
                proof = self._prove(relation, source, snapshot, epoch, limit)
                rows, lsn = proof.source_rows, epoch.to_lsn
                reporter.update("verify", rows=rows, detail=str(relation.name), lsn=lsn, target=lsn)
                return proof

            proofs = list(pool.map(prove, relations, sources))
        self._record(proofs)
        return proofs

    def _catalog(self) -> Mapping[int, RelationDescription]:
        return read_relations(self._conn, self._settings.publication, self._settings.selection)

    def _require_published(self, found: Iterable[RelationDescription]) -> None:
        settings = self._settings
        via_root = publishes_roots(self._conn, settings.publication, otherwise=settings.via_partition_root)
        there = captured_tables(self._conn, settings.selection, via_root=via_root)
        unpublished = self._relations.by_table().keys() & set(there) - {relation.name for relation in found}
        if lacking := sorted(map(str, unpublished)):
            raise NotProvenError(
                f"The publication {settings.publication} does not have {', '.join(lacking)} any more: what gold has of"
                " that is of before.",
                safe="Nothing was compared, and nothing was changed.",
                todo="With publication.autocreate.mode filtered, `walhouse run` adds it and reads it anew; else add it,"
                " leave it out of the configuration, or name the tables to be compared.",
                tables=lacking,
            )

    def _bring_to(self, lsn: Lsn, reporter: Reporter) -> EpochRange:
        """Make ``lsn`` the end of a pass, and gold complete up to it."""

        def captured(step: CaptureStep) -> None:
            reporter.update("capture", rows=step.rows, lsn=step.progress.captured_to, target=lsn)

        def applied(layer: Layer, table: TableName, done: AppliedTable) -> None:
            reporter.update(layer.value, rows=sum(done.counts.values()), detail=str(table), lsn=lsn, target=lsn)

        progress = self._capture.run(lsn, captured)
        if progress.is_open:
            waiting = ", ".join(str(table.table) for reading in progress.queue.whole for table in reading.tables)
            raise TableNotReadError(
                f"{waiting} is published, but not read yet.",
                todo="Run `walhouse run`, then verify again.",
                table=waiting,
            )
        self._layers.run([Layer.GOLD], progress.pass_number, progress.captured_to, applied)
        return EpochRange(0, 0, progress.pass_number, progress.captured_to)

    def _read(
        self,
        relation: RelationDescription,
        snapshot: OwnSnapshot,
        locks: LockHolder,
        *,
        kept: ExitStack,
        reporter: Reporter,
    ) -> DataFrame:
        """The source's rows, as ``compare`` takes them, read when this returns and kept until ``kept`` is left."""
        plan = self._plan(relation, snapshot, locks)
        texts = (text_at(F.col("after"), place) for place in range(len(relation.columns)))
        source = _on_disks(load(self._spark, plan).select(F.array(*texts).alias("values")))
        kept.callback(source.unpersist)
        with on_driver():
            reporter.update("read", rows=source.count(), detail=str(relation.name), lsn=snapshot.insert_lsn)
        return source

    def _plan(self, relation: RelationDescription, snapshot: OwnSnapshot, locks: LockHolder) -> SnapshotPlan:
        pages = self._settings.snapshots.chunk_pages
        with connect(self._settings.connection, lock_timeout_seconds=WAIT_BEHIND_OWN_LOCK) as planning:
            chunks = plan_chunks(planning, relation, pages, publication=self._settings.publication)
        return SnapshotPlan(
            settings=self._settings.connection,
            exported=snapshot.name,
            groups=tasks(chunks, pages),
            relations=(relation,),
            snapshot_id="proof",
            visibility=str(snapshot.visibility),
            at=snapshot.insert_lsn,
            pass_number=0,
            captured_at=time.time_ns() // 1000,
            progress=None,
            lock_holder=locks,
            lock_timeout_seconds=WAIT_BEHIND_OWN_LOCK,
            masks=self._settings.masks,  # the source as it may be seen: gold has nothing else
            for_events=False,
            expressions=tuple(source_expressions(relation)),
        )

    def _prove(
        self, relation: RelationDescription, source: DataFrame, snapshot: OwnSnapshot, epoch: EpochRange, limit: int
    ) -> Proof:
        with on_driver():
            comparison = compare(
                source,
                self._gold_rows(relation.name),
                relation,
                relation.row_key,
                limit=limit,
                expected_overrides=self._overrides(source, relation, snapshot, epoch),
            )
        return Proof(relation.name, epoch.to_lsn, comparison)

    def _overrides(
        self, source: DataFrame, relation: RelationDescription, snapshot: OwnSnapshot, epoch: EpochRange
    ) -> DataFrame | None:
        """What gold must hold where transactions that the snapshot does not see have been applied to it."""
        changes = resolve(bronze_range(self._spark, self._layout, epoch), relation.name)
        others = [known for known in self._relations.by_table().get(relation.name, ()) if known != relation]
        return expected_overrides(source, changes, (*others, relation), snapshot.visibility, snapshot.insert_lsn)

    def _gold_rows(self, table: TableName) -> DataFrame:
        """Gold as it is: the epoch was applied under the lock that is still held, so nothing newer can be in it."""
        gold = self._layout.gold(table)
        if not table_exists(self._spark, self._layout, gold):
            raise NotProvenError(
                f"{table} cannot be compared: {gold} is not there. It was dropped, or its name or schema was changed.",
                safe="Nothing was changed; bronze holds every change.",
                todo="Set the name back under lake, if that is it. Else: walhouse rebuild gold TABLE, then verify.",
                tables=[str(table)],
            )
        return self._spark.table(str(gold))

    def _record(self, proofs: Sequence[Proof]) -> None:
        table = self._layout.ops("proofs")
        if not table_exists(self._spark, self._layout, table):
            create_table(
                self._spark,
                self._layout,
                table,
                PROOFS,
                comment="Comparisons of gold with the source",
                properties={"delta.appendOnly": "true"},
            )
        now = datetime.now(UTC)
        rows = [
            (
                *proof.table,
                int(proof.lsn),
                proof.source_rows,
                proof.gold_rows,
                proof.comparison.differing,
                proof.equal,
                now,
            )
            for proof in proofs
        ]
        if rows:
            append_rows(self._spark, self._layout, table, PROOFS, rows)


def _on_disks(rows: DataFrame) -> DataFrame:
    """Rows that Spark keeps from their first reading on. Raises NotProvenError where it keeps none."""
    try:
        return rows.persist(StorageLevel.DISK_ONLY)
    except PySparkException as error:
        if "[NOT_SUPPORTED_WITH_SERVERLESS]" not in str(error):
            raise
        raise NotProvenError(
            "Serverless compute keeps no rows on its disks, as a proof has to.",
            safe="Nothing was compared, and nothing was changed.",
            todo="Verify on a cluster, as the bundle's job does.",
        ) from None


def _require_unchanged(expected: Sequence[RelationDescription], catalog: Mapping[int, RelationDescription]) -> None:
    """What was altered before the lock was there would be compared in the columns that it had."""
    now = {replace(relation, catalog_lsn=None) for relation in catalog.values()}
    if changed := [relation.name for relation in expected if replace(relation, catalog_lsn=None) not in now]:
        raise TableChangedError(
            f"The columns of {changed[0]} changed before the proof had locked it.",
            safe="Nothing was compared, and nothing was changed.",
            todo="Verify again when the migration has ended.",
            table=str(changed[0]),
        )


def _require_all_of(tables: Sequence[TableName], found: Sequence[RelationDescription]) -> None:
    if missing := sorted(str(table) for table in set(tables) - {relation.name for relation in found}):
        raise NotProvenError(
            f"{', '.join(missing)} cannot be compared: no such table is captured.",
            safe="Nothing was compared, and nothing was changed.",
            todo="See the names in `walhouse status`.",
            tables=missing,
        )
