"""What became of requests: the table ``ops.notifications``, and the log.

Invariant: a notification is written after what it tells is durable. A value of a row (a key) is in the table at most,
never in the log.
Source: Debezium 3.6, "Notifications": types, fields and their order; ``Signal`` / ``REFUSED`` is walhouse's own.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812  (the name everybody knows it by)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import LongType, MapType, StringType, StructField, StructType

from walhouse.errors import RequestRefusedError, TableNotReadError
from walhouse.lakehouse.answers import few_rows
from walhouse.lakehouse.tables import create_table, table_exists

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import SparkSession

    from walhouse.lakehouse.layout import LakeLayout

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


class ScanStatus(StrEnum):
    """How the reading of a table ended."""

    SUCCEEDED = "SUCCEEDED"
    EMPTY = "EMPTY"
    NO_PRIMARY_KEY = "NO_PRIMARY_KEY"
    UNKNOWN_SCHEMA = "UNKNOWN_SCHEMA"
    SQL_EXCEPTION = "SQL_EXCEPTION"


@dataclass(frozen=True, slots=True)
class Notification:
    """One notification. ``id``: that of the signal which it answers."""

    id: str
    type: Event
    aggregate_type: str = INCREMENTAL
    data: Mapping[str, str] = field(default_factory=dict)

    @property
    def shown(self) -> dict[str, str]:
        """What of the data may be shown: no values of rows."""
        return {name: value for name, value in self.data.items() if name not in KEYS}


COLUMNS: Final = StructType(
    [
        StructField("id", StringType(), metadata={"comment": "Id of the signal that this answers"}),
        StructField("aggregate_type", StringType(), metadata={"comment": "Incremental Snapshot or Signal"}),
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
    if not table_exists(spark, table):
        return []
    rows = spark.table(str(table)).where(F.col("id") == request).orderBy("timestamp", "number")
    return [
        Notification(row["id"], Event(row["type"]), row["aggregate_type"], row["additional_data"])
        for row in few_rows(rows)
    ]


def notify(spark: SparkSession, layout: LakeLayout, connector: str, notifications: Sequence[Notification]) -> None:
    """Write them, in their order, to the table and to the log. ``connector``: its name, ``topic.prefix``."""
    if not notifications:
        return
    table = layout.ops("notifications")
    if not table_exists(spark, table):
        create_table(
            spark,
            layout,
            table,
            COLUMNS,
            comment="What became of signals and snapshots",
            properties={"delta.appendOnly": "true"},
        )
    now = int(datetime.now(UTC).timestamp() * 1000)
    columns: tuple[list[object], ...] = ([], [], [], [], [], [])
    for number, each in enumerate(notifications):
        data = {"connector_name": connector, **each.data}
        facts = [(name, _storable(value)) for name, value in data.items()]
        row = (_storable(each.id), each.aggregate_type, each.type, facts, now, number)
        for column, value in zip(columns, row, strict=True):
            column.append(value)
        told = ", ".join(f"{name}={value}" for name, value in each.shown.items())
        log.info("%s %s: %s", each.aggregate_type, each.type, told)
    fields = zip(to_arrow_schema(COLUMNS, timezone="UTC"), columns, strict=True)
    rows = pa.table([pa.array(values, field.type) for field, values in fields], names=COLUMNS.names)
    spark.createDataFrame(rows, COLUMNS).coalesce(1).write.format("delta").mode("append").saveAsTable(str(table))


def _storable(text: str) -> str:
    """Without halves of surrogate pairs, which JSON can hold and no table can."""
    return text.encode("utf-8", "replace").decode()


def require_read(request: str, told: Sequence[Notification]) -> list[Notification]:
    """The notifications, if they tell of no failure. Raises RequestRefusedError, TableNotReadError."""
    for each in told:
        if each.type is Event.REFUSED:
            raise RequestRefusedError(f"The signal was refused: {each.data['reason']}.", id=request)
        status = each.data.get("status", ScanStatus.SUCCEEDED)
        if status not in {ScanStatus.SUCCEEDED, ScanStatus.EMPTY}:
            table, reason = each.data["scanned_collection"], each.data.get("reason", status)
            raise TableNotReadError(
                f"{table} was not read: {reason.rstrip('.')}.", id=request, table=table, status=status
            )
    return list(told)
