"""How far everything is.

Invariant: read from the lake and the server as they are; nothing is kept in memory between two calls.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from walhouse.bronze.progress import read_position, read_progress
from walhouse.bronze.requests.notifications import interruptions
from walhouse.bronze.snapshots.estimate import of_chunks, of_reading
from walhouse.bronze.snapshots.queue import NOTHING_QUEUED
from walhouse.changes.epochs import EpochState, Layer
from walhouse.gold.imperfect import imperfect_values
from walhouse.lakehouse.answers import few_rows
from walhouse.lakehouse.tables import table_exists
from walhouse.lsn import Lsn
from walhouse.names import TableName
from walhouse.pgoutput.row import Kind
from walhouse.postgres.key_chunks import estimated_rows
from walhouse.postgres.slot import SlotState, retained_bytes
from walhouse.postgres.wal import oldest_running

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from walhouse.bronze.snapshots.queue import QueuedTable, SnapshotQueue
    from walhouse.bronze.snapshots.reading import WholeReading, WholeTable
    from walhouse.lakehouse.layout import LakeLayout
    from walhouse.postgres.connection import Connection


@dataclass(frozen=True, slots=True)
class TableStatus:
    """One source table. LSNs are those before which every commit is in the layer; counts are since the lake
    began, but for ``gold_rescued`` (values kept as text) and ``gold_unavailable``, which are counted in gold's rows."""

    table: TableName
    captured: Lsn | None
    silver: Lsn | None
    gold: Lsn | None
    counts: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SnapshotStatus:
    """A table that is read, by chunks or whole, or waits for it. ``rows`` are about as many as were read so far;
    ``estimated_rows`` what the server's statistics say that the table has, None if they say nothing; ``seconds_left``
    of what is being read, if it goes on as it went: of a whole reading all of its tables."""

    request: str
    table: TableName
    state: str
    """reading, waiting, paused or interrupted."""
    chunks: int
    rows: int
    estimated_rows: int | None
    rows_per_second: int | None = None
    seconds_left: int | None = None
    interrupted: str | None = None
    """Why its request stands still, if it was interrupted and nothing was captured since."""


@dataclass(frozen=True, slots=True)
class Status:
    """Everything at one glance. ``lag_bytes`` is WAL flushed but not captured; ``lag_seconds`` how long ago the last
    pass was captured while there is a lag, else 0; ``retained_bytes`` the WAL that the slot keeps on the server."""

    captured_to: Lsn | None
    source_lsn: Lsn
    lag_bytes: int
    lag_seconds: float
    slot: str
    slot_active_pid: int | None
    slot_wal_status: str | None
    retained_bytes: int | None
    tables: tuple[TableStatus, ...]
    snapshots: tuple[SnapshotStatus, ...] = ()

    def to_json(self) -> str:
        """The status as one JSON object; LSNs as text."""

        def plain(value: object) -> object:
            return str(value) if isinstance(value, Lsn) else value

        tables = [
            {**{name: plain(value) for name, value in asdict(table).items()}, "table": str(table.table)}
            for table in self.tables
        ]
        snapshots = [{**asdict(each), "table": str(each.table)} for each in self.snapshots]
        facts = {name: plain(getattr(self, name)) for name in self.__slots__ if name not in {"tables", "snapshots"}}
        return json.dumps({**facts, "tables": tables, "snapshots": snapshots})


def read_status(
    spark: SparkSession,
    layout: LakeLayout,
    conn: Connection,
    *,
    source_lsn: Lsn,
    slot_name: str,
    slot: SlotState | None,
    chunk_rows: int,
) -> Status:
    """Ask lake and server."""
    position = read_position(spark, layout) if table_exists(spark, layout, layout.bronze) else None
    captured_to = None if position is None else position.captured_to
    captured_at = 0.0 if position is None else _captured_at(spark, layout, position.pass_number)
    lag = max(0, source_lsn - captured_to) if captured_to is not None else int(source_lsn)
    return Status(
        captured_to=captured_to,
        source_lsn=source_lsn,
        lag_bytes=lag,
        lag_seconds=max(0.0, time.time() - captured_at) if position is not None and lag else 0.0,
        slot=slot_name,
        slot_active_pid=None if slot is None else slot.active_pid,
        slot_wal_status=None if slot is None else slot.wal_status,
        retained_bytes=None if slot is None else retained_bytes(conn, slot_name),
        tables=() if captured_to is None else _tables(spark, layout, captured_to),
        snapshots=() if position is None else _snapshots(spark, layout, conn, chunk_rows, captured_at),
    )


def _snapshots(
    spark: SparkSession, layout: LakeLayout, conn: Connection, chunk_rows: int, captured_at: float
) -> tuple[SnapshotStatus, ...]:
    progress = read_progress(spark, layout)
    queue = NOTHING_QUEUED if progress is None else progress.queue
    oldest = oldest_running(conn) if queue.waits_for_transactions else 0
    queue = queue.waiting_last(oldest)
    why = interruptions(spark, layout, captured_at) if queue.whole or queue.tables else {}
    whole = (
        _whole(each, reading, conn, reads=number == place == 0)
        for number, reading in enumerate(queue.whole)
        for place, each in enumerate(reading.tables)
    )
    chunked = (
        _chunked(each, conn, chunk_rows, _state(queue, each, oldest, is_first=number == 0))
        for number, each in enumerate(queue.tables)
    )
    return tuple(_interrupted(each, why.get(each.request)) for each in (*whole, *chunked))


def _state(queue: SnapshotQueue, table: QueuedTable, oldest: int, *, is_first: bool) -> str:
    """Of a table in the queue of chunks, which whole tables come before. ``oldest``: the transaction that runs."""
    if queue.paused:
        return "paused"
    return "reading" if is_first and not queue.whole and not table.waits(oldest) else "waiting"


def _interrupted(table: SnapshotStatus, why: str | None) -> SnapshotStatus:
    state = "interrupted" if table.state == "reading" and why is not None else table.state
    return replace(table, state=state, interrupted=why)


def _whole(table: WholeTable, reading: WholeReading, conn: Connection, *, reads: bool) -> SnapshotStatus:
    estimated = estimated_rows(conn, table.table)
    left = of_reading(reading, time.time()).seconds_left if reads else None
    return SnapshotStatus(
        request=reading.request,
        table=table.table,
        state="reading" if reads else "waiting",
        chunks=0,
        rows=round((estimated or 0) * table.pages_read / table.pages) if table.pages else 0,
        estimated_rows=estimated,
        seconds_left=None if left is None else round(left),
    )


def _chunked(table: QueuedTable, conn: Connection, chunk_rows: int, state: str) -> SnapshotStatus:
    estimated, rows = estimated_rows(conn, table.table), table.chunks * chunk_rows
    estimate = of_chunks(table, chunk_rows, estimated, time.time())
    left, seconds = estimate.seconds_left, estimate.seconds
    return SnapshotStatus(
        request=table.request,
        table=table.table,
        state=state,
        chunks=table.chunks,
        rows=rows,
        estimated_rows=estimated,
        rows_per_second=round(rows / seconds) if seconds else None,
        seconds_left=None if left is None else round(left),
    )


def _captured_at(spark: SparkSession, layout: LakeLayout, pass_number: int) -> float:
    """When a pass was captured, in seconds since 1970."""
    row = (
        spark.table(str(layout.bronze))
        .where((F.col("pass") == pass_number) & (F.col("kind") == Kind.PROGRESS.value))
        .select(F.unix_micros("captured_at"))
        .first()
    )
    assert row is not None
    return float(row[0]) / 1e6


def _tables(spark: SparkSession, layout: LakeLayout, captured_to: Lsn) -> tuple[TableStatus, ...]:
    epochs = layout.ops("epochs")
    if not table_exists(spark, layout, epochs):
        return ()
    done = spark.table(str(epochs)).where(F.col("state") == EpochState.DONE.value)
    applied = _applied_to(done)
    tables: dict[TableName, dict[str, int]] = {}
    for row in few_rows(_counts(_since_made_anew(done, spark.table(str(epochs))))):
        name = TableName(row["schema_name"], row["table_name"])
        tables.setdefault(name, {})[f"{row['layer']}_{row['name']}"] = int(row["total"])
    for name, imperfect in imperfect_values(spark, layout, tables.keys()).items():
        tables[name] |= {f"gold_{count}": value for count, value in imperfect.items()}
    return tuple(
        TableStatus(name, captured_to, applied.get(Layer.SILVER), applied.get(Layer.GOLD), counts)
        for name, counts in sorted(tables.items())
    )


def _applied_to(done: DataFrame) -> dict[str, Lsn]:
    rows = done.groupBy("layer").agg(F.max("to_lsn").alias("to_lsn"))
    return {row["layer"]: Lsn(row["to_lsn"]) for row in few_rows(rows)}


def _since_made_anew(done: DataFrame, epochs: DataFrame) -> DataFrame:
    """What was applied to each table since it was made anew: before, it was another table."""
    table = ["layer", "schema_name", "table_name"]
    anew = epochs.where(F.col("state") == EpochState.ANEW.value).select(*table, "epoch")
    since = anew.join(done, [*table, "epoch"], "semi").groupBy(table).agg(F.max("epoch").alias("since"))
    return done.join(since, table, "left").where(F.col("since").isNull() | (F.col("epoch") >= F.col("since")))


def _counts(done: DataFrame) -> DataFrame:
    tables = done.where(F.col("table_name").isNotNull())
    exploded = tables.select("layer", "schema_name", "table_name", F.explode_outer("counts").alias("name", "count"))
    return (
        exploded.where(F.col("name").isNotNull())
        .groupBy("layer", "schema_name", "table_name", "name")
        .agg(F.sum("count").alias("total"))
    )
