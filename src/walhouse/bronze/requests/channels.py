"""Where signals come from: the source's signal table, the lake's own ``ops.signals``, and a file.

Invariant: a signal is read again until what it did is durable in bronze's progress; positions are kept there.
Source: Debezium 3.6, "Signaling": a signal table has three columns, read by position; a file has one JSON object a line
and is emptied once it was read.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812  (the name everybody knows it by)
from pyspark.sql.types import StringType, StructField, StructType

from walhouse.bronze.requests.notifications import storable
from walhouse.bronze.requests.signals import Signal
from walhouse.changes.images import text_at
from walhouse.lakehouse.answers import few_rows
from walhouse.lakehouse.tables import create_table, current_version, table_exists
from walhouse.pgoutput.row import Kind, Op

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pyspark.sql import SparkSession

    from walhouse.bronze.progress import Progress, SignalPosition
    from walhouse.lakehouse.layout import LakeLayout
    from walhouse.names import TableName
    from walhouse.postgres.watermarks import Watermarks

COLUMNS: Final = StructType(
    [
        StructField("id", StringType(), metadata={"comment": "Any name; notifications answer with it"}),
        StructField("type", StringType(), metadata={"comment": "execute-snapshot, stop-snapshot, pause-snapshot ..."}),
        StructField("data", StringType(), metadata={"comment": "What is asked for, as JSON"}),
    ]
)


@dataclass(frozen=True, slots=True)
class SignalSettings:
    """Which channels are read."""

    table: TableName | None = None
    """The source's signal table."""
    file: Path | None = None
    poll_seconds: float = 5
    """How often the lake's table and the file are looked at."""
    watermarks: Watermarks | None = None
    """How windows of chunks are written into the source's signal table, if somebody wants to see them there."""


@dataclass(slots=True)
class SignalsFound:
    """Signals in the order in which they count, and where the next reading begins."""

    signals: list[Signal]
    position: SignalPosition
    in_file: int = 0
    """How many bytes of the file they were."""


def ensure_signals(spark: SparkSession, layout: LakeLayout) -> None:
    """Make ``ops.signals`` if it is missing: whoever may INSERT into it can give signals."""
    table = layout.ops("signals")
    if not table_exists(spark, table):
        properties = {"delta.appendOnly": "true", "delta.enableChangeDataFeed": "true"}
        create_table(spark, layout, table, COLUMNS, comment="INSERT here to ask for a snapshot", properties=properties)


def give_signal(spark: SparkSession, layout: LakeLayout, signal: Signal) -> str:
    """Put a signal into ``ops.signals``; its id."""
    ensure_signals(spark, layout)
    rows = spark.createDataFrame([(signal.id, signal.type, signal.data)], COLUMNS)
    rows.coalesce(1).write.format("delta").mode("append").saveAsTable(str(layout.ops("signals")))
    return signal.id


@dataclass(slots=True)
class SignalChannels:
    """Reads all channels of one lake."""

    spark: SparkSession
    layout: LakeLayout
    settings: SignalSettings
    _polled: float = field(default=float("-inf"))

    def read(self, progress: Progress) -> SignalsFound:
        """What has come since ``progress`` was written: by the stream, then in the lake's table, then in the file."""
        position = progress.signals
        found = SignalsFound(self._streamed(position.of_pass, progress.pass_number), position)
        found.position = position.at_pass(progress.pass_number) if self.settings.table is not None else position
        now = time.monotonic()
        if now - self._polled >= self.settings.poll_seconds:
            self._polled = now
            self._add_tabled(found)
            self._add_filed(found)
        return found

    def forget(self, found: SignalsFound) -> None:
        """Take what was read out of the file; what was added meanwhile stays."""
        file = self.settings.file
        if file is not None and found.in_file:
            rest = file.read_bytes()[found.in_file :]
            file.write_bytes(rest)

    def _streamed(self, after_pass: int, to_pass: int) -> list[Signal]:
        table = self.settings.table
        if table is None or after_pass == to_pass:
            return []
        rows = self.spark.table(str(self.layout.bronze)).where(
            (F.col("pass") > after_pass)
            & (F.col("pass") <= to_pass)
            & (F.col("kind") == Kind.CHANGE.value)
            & (F.col("op") == Op.CREATE.value)
            & (F.col("schema_name") == table.schema)
            & (F.col("table_name") == table.table)
        )
        fields = [text_at(F.col("after"), place).alias(name) for place, name in enumerate(COLUMNS.names)]
        ordered = rows.orderBy("commit_lsn", "seq").select(*fields)
        return [_of_row(row) for row in few_rows(ordered)]

    def _add_tabled(self, found: SignalsFound) -> None:
        table = self.layout.ops("signals")
        if not table_exists(self.spark, table):
            return
        first, last = found.position.of_version + 1, current_version(self.spark, self.layout, table)
        if first > last:
            return
        changes = self.spark.read.option("readChangeFeed", "true").option("startingVersion", first)
        rows = changes.option("endingVersion", last).table(str(table)).where(F.col("_change_type") == "insert")
        ordered = rows.orderBy("_commit_version", "id").select(*COLUMNS.names)
        found.signals += [_of_row(row) for row in few_rows(ordered)]
        found.position = found.position.at_version(last)

    def _add_filed(self, found: SignalsFound) -> None:
        file = self.settings.file
        if file is None or not file.is_file():
            return
        whole, newline, _ = file.read_bytes().rpartition(b"\n")
        found.in_file = len(whole) + len(newline)
        lines = whole.decode(errors="replace").splitlines()
        found.signals += [_of_line(number, line) for number, line in enumerate(lines, 1) if line.strip()]


def _of_row(row: Mapping[str, str | None]) -> Signal:
    """A row of a table of signals, where anything may be NULL."""
    return Signal(row["id"] or "", row["type"] or "", row["data"])


def _of_line(number: int, line: str) -> Signal:
    """One line of the file. One that is no signal gets a type that is refused by name."""
    try:
        raw = json.loads(line)
    except json.JSONDecodeError:
        raw = None
    if not isinstance(raw, dict) or not isinstance(raw.get("type"), str):
        return Signal(f"line {number}", "a line that is no signal")
    data = raw.get("data")
    return Signal(
        storable(str(raw.get("id", ""))), raw["type"], data if isinstance(data, str) else json.dumps(data or {})
    )
