"""What became of requests: the table ``ops.notifications``, and the log.

Invariant: a notification is written after what it tells is durable, and is never lost: what is still to be told is part
of the progress row, and is written once, however often a process dies in between. How far a reading is (IN_PROGRESS of
chunks) is told in passing only. A value of a row (a key) is in the table at most, never in the log.
Source: Debezium 3.6, "Notifications": types, fields and their order; ``REFUSED``, ``CHANGES_LOST`` and
``INTERRUPTED`` are walhouse's own.
"""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, MapType, StringType, StructField, StructType

from walhouse.errors import RequestRefusedError, TableNotReadError
from walhouse.lakehouse.answers import few_rows
from walhouse.lakehouse.appends import append_rows
from walhouse.lakehouse.tables import create_table, table_exists
from walhouse.pgoutput.row import Kind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence, Set

    from pyspark.sql import SparkSession

    from walhouse.lakehouse.files import Once
    from walhouse.lakehouse.layout import LakeLayout

INITIAL: Final = "Initial Snapshot"
"""Of every snapshot that reads tables whole, a blocking one, too."""
INCREMENTAL: Final = "Incremental Snapshot"
SIGNAL: Final = "Signal"

KEYS: Final = frozenset({"maximum_key", "last_processed_key"})
"""Fields that hold values of a row."""

log = logging.getLogger("walhouse.notifications")


class Event(StrEnum):
    """Types of notifications."""

    STARTED = "STARTED"
    IN_PROGRESS = "IN_PROGRESS"
    TABLE_SCAN_COMPLETED = "TABLE_SCAN_COMPLETED"
    COMPLETED = "COMPLETED"
    ABORTED = "ABORTED"
    PAUSED = "PAUSED"
    RESUMED = "RESUMED"
    REFUSED = "REFUSED"
    CHANGES_LOST = "CHANGES_LOST"
    """Of walhouse's own: tables are read anew, since changes were lost with the slot."""
    INTERRUPTED = "INTERRUPTED"
    """Of walhouse's own: the source failed. The reading goes on with the next run, where it was."""


class ScanStatus(StrEnum):
    """How the reading of a table ended."""

    SUCCEEDED = "SUCCEEDED"
    EMPTY = "EMPTY"
    NO_PRIMARY_KEY = "NO_PRIMARY_KEY"
    UNKNOWN_SCHEMA = "UNKNOWN_SCHEMA"
    SQL_EXCEPTION = "SQL_EXCEPTION"


_WAS_READ: Final = {ScanStatus.SUCCEEDED, ScanStatus.EMPTY}


class RowsOf(NamedTuple):
    """Rows of a table that a snapshot has read: in chunks from this number on."""

    snapshot: str
    schema: str
    table: str
    first_chunk: int


@dataclass(frozen=True, slots=True)
class Notification:
    """One notification. ``id``: that of the signal which it answers."""

    id: str
    type: Event
    aggregate_type: str = INCREMENTAL
    data: Mapping[str, str] = field(default_factory=dict)
    rows_of: RowsOf | None = None
    """What is counted when it is told: ``total_rows_scanned``."""

    def to_dict(self) -> dict[str, Any]:
        """What the progress row keeps until it is told."""
        return {**asdict(self), "data": dict(self.data)}

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> Self:
        """Read what ``to_dict`` gave, by way of JSON."""
        rows_of = None if raw["rows_of"] is None else RowsOf(*raw["rows_of"])
        return cls(**{**raw, "type": Event(raw["type"]), "rows_of": rows_of})

    @property
    def shown(self) -> dict[str, str]:
        """What of the data may be shown: no values of rows."""
        return {name: value for name, value in self.data.items() if name not in KEYS}

    @property
    def status(self) -> str:
        """How the reading that this tells of ended, a ``ScanStatus``; what tells of none is no failure."""
        return self.data.get("status", ScanStatus.SUCCEEDED)

    @property
    def level(self) -> int:
        """Of the log: a warning if what was asked for is not done, and nothing else says so there."""
        is_done = self.type is not Event.REFUSED and self.status in _WAS_READ
        return logging.INFO if is_done else logging.WARNING


COLUMNS: Final = StructType(
    [
        StructField("id", StringType(), metadata={"comment": "Id of the signal that this answers"}),
        StructField("aggregate_type", StringType(), metadata={"comment": "Initial or Incremental Snapshot, or Signal"}),
        StructField("type", StringType(), metadata={"comment": "STARTED, IN_PROGRESS, TABLE_SCAN_COMPLETED ..."}),
        StructField("additional_data", MapType(StringType(), StringType()), metadata={"comment": "What it tells"}),
        StructField("timestamp", LongType(), metadata={"comment": "When it was written, milliseconds since 1970"}),
        StructField("number", LongType(), metadata={"comment": "Order among those with the same timestamp"}),
    ]
)


def has_ended(told: Sequence[Notification]) -> bool:
    """Whether nothing more will be told of a request."""
    return any(each.type in {Event.COMPLETED, Event.ABORTED, Event.REFUSED} for each in told)


def notifications_of(spark: SparkSession, layout: LakeLayout, request: str) -> list[Notification]:
    """What was told of a request so far, in its order."""
    table = layout.ops("notifications")
    if not table_exists(spark, layout, table):
        return []
    rows = spark.table(str(table)).where(F.col("id") == request).orderBy("timestamp", "number")
    return [
        Notification(row["id"], Event(row["type"]), row["aggregate_type"], row["additional_data"])
        for row in few_rows(rows)
    ]


def interruptions(spark: SparkSession, layout: LakeLayout, since: float) -> dict[str, str]:
    """Why requests were interrupted since a time, in seconds since 1970, by their ids."""
    table = layout.ops("notifications")
    if not table_exists(spark, layout, table):
        return {}
    told = spark.table(str(table)).where(
        (F.col("type") == Event.INTERRUPTED.value) & (F.col("timestamp") >= int(since * 1000))
    )
    last = F.max_by(F.col("additional_data")["reason"], F.struct("timestamp", "number")).alias("reason")
    return {row["id"]: row["reason"] for row in few_rows(told.groupBy("id").agg(last))}


def ensure_notifications(spark: SparkSession, layout: LakeLayout) -> None:
    """Create the table if it is missing."""
    table = layout.ops("notifications")
    if not table_exists(spark, layout, table):
        create_table(
            spark,
            layout,
            table,
            COLUMNS,
            comment="What became of signals and snapshots",
            properties={"delta.appendOnly": "true"},
        )


def notify(
    spark: SparkSession,
    layout: LakeLayout,
    connector: str,
    notifications: Sequence[Notification],
    *,
    once: Once | None = None,
    counted: Mapping[RowsOf, int] | None = None,
) -> None:
    """Write them, in their order, to the table and to the log. ``connector``: its name, ``topic.prefix``.

    ``counted``: of which readings it is known how many rows they have; bronze is asked for the others.

    ``once``: if they were written under this name and number, or a greater one, they are in the table already.
    """
    if not notifications:
        return
    ensure_notifications(spark, layout)
    now = int(datetime.now(UTC).timestamp() * 1000)
    rows = []
    counts = dict(counted or {})
    readings = {each.rows_of for each in notifications if each.rows_of is not None}
    counts.update(_row_counts(spark, layout, readings - counts.keys()))
    for number, each in enumerate(notifications):
        scanned = {} if each.rows_of is None else {"total_rows_scanned": str(counts.get(each.rows_of, 0))}
        data = {"connector_name": connector, **each.data, **scanned}
        facts = [(name, storable(value)) for name, value in data.items()]
        rows.append((storable(each.id), each.aggregate_type, each.type, facts, now, number))
        told = ", ".join(f"{name}={value}" for name, value in {**each.shown, **scanned}.items())
        log.log(each.level, "%s %s: %s", each.aggregate_type, each.type, told)
    append_rows(spark, layout, layout.ops("notifications"), COLUMNS, rows, once=once)


def _row_counts(spark: SparkSession, layout: LakeLayout, wanted: Set[RowsOf]) -> dict[RowsOf, int]:
    """How many rows each reading has in bronze, in one look."""
    if not wanted:
        return {}
    asked = spark.createDataFrame(
        pa.Table.from_pylist([each._asdict() for each in wanted]),
        "snapshot string, schema string, table string, first_chunk bigint",
    )
    tables = {each.table for each in wanted}
    read = spark.table(str(layout.bronze)).where(
        (F.col("kind") == Kind.SNAPSHOT.value) & F.col("table_name").between(min(tables), max(tables))
    )
    of_reading = (
        (F.col("bronze.snapshot.id") == F.col("asked.snapshot"))
        & (F.col("schema_name") == F.col("asked.schema"))
        & (F.col("table_name") == F.col("asked.table"))
        & (F.col("bronze.snapshot.chunk") >= F.col("asked.first_chunk"))
    )
    counted = (
        read.alias("bronze")
        .join(F.broadcast(asked.alias("asked")), of_reading)
        .groupBy(*(F.col(f"asked.{name}") for name in RowsOf._fields))
        .count()
    )
    return {RowsOf(*(row[name] for name in RowsOf._fields)): int(row["count"]) for row in few_rows(counted)}


def storable(text: str) -> str:
    """Without halves of surrogate pairs, which JSON can hold and no table can."""
    return text.encode("utf-8", "replace").decode()


def require_read(request: str, told: Sequence[Notification]) -> list[Notification]:
    """The notifications, if they tell of no failure. Raises RequestRefusedError, TableNotReadError."""
    for each in told:
        if each.type is Event.REFUSED:
            raise RequestRefusedError(f"The signal was refused: {each.data['reason']}.", id=request)
        if each.status not in _WAS_READ:
            table, reason = each.data["scanned_collection"], each.data.get("reason", each.status)
            raise TableNotReadError(
                f"{table} was not read: {reason.rstrip('.')}.", id=request, table=table, status=each.status
            )
    return list(told)
