"""Where signals come from: the source's signal table, the lake's own ``ops.signals``, and a file.

Invariant: a signal is read again until what it did is durable in bronze's progress; positions are kept there.
Source: Debezium 3.6, "Signaling": a signal table has three columns, read by position; a file has one JSON object a line
and is emptied once it was read.
A file that is being followed has ``.taken`` behind its name until its signals are durable.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from walhouse.bronze.requests.notifications import storable
from walhouse.bronze.requests.signals import Signal
from walhouse.changes.images import text_at
from walhouse.errors import ConfigurationError
from walhouse.lakehouse.answers import few_rows
from walhouse.lakehouse.tables import create_table, current_version, table_exists, table_id
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

_WRITTEN_SECONDS: Final = 2.0
"""A last line without a line break counts as whole once nothing was written to the file for so long."""


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
    """How many bytes they were of what was taken from the file's place."""


def ensure_signals(spark: SparkSession, layout: LakeLayout) -> None:
    """Make ``ops.signals`` if it is missing: whoever may INSERT into it can give signals."""
    table = layout.ops("signals")
    if not table_exists(spark, layout, table):
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
        """What was read of the file need not be read again; what was written behind it meanwhile stays."""
        if self.settings.file is None or not found.in_file:
            return
        taken = _taken(self.settings.file.resolve())
        if rest := taken.read_bytes()[found.in_file :]:
            left = taken.with_name(f"{taken.name}.rest")
            left.write_bytes(rest)
            left.replace(taken)
        else:
            taken.unlink()

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
        if not table_exists(self.spark, self.layout, table):
            return
        identity, last = table_id(self.spark, self.layout, table), current_version(self.spark, self.layout, table)
        position = found.position.of_signals(identity)  # from the beginning, if it was dropped and made again
        first = position.of_version + 1
        if first > last:
            found.position = position
            return
        changes = self.spark.read.option("readChangeFeed", "true").option("startingVersion", first)
        rows = changes.option("endingVersion", last).table(str(table)).where(F.col("_change_type") == "insert")
        ordered = rows.orderBy("_commit_version", "id").select(*COLUMNS.names)
        found.signals += [_of_row(row) for row in few_rows(ordered)]
        found.position = position.at_version(last)

    def _add_filed(self, found: SignalsFound) -> None:
        """The file is moved away before it is read: who writes to its name meanwhile writes to another."""
        file = self.settings.file
        if file is None:
            return
        try:
            content = _take(file.resolve())
        except OSError as error:
            raise ConfigurationError(
                f"The signal file {file} cannot be taken: {error.strerror}.",
                safe="None of its signals was followed, and nothing else was changed.",
                todo="Let walhouse write to the file and its folder, or take file out of signal.enabled.channels.",
                file=str(file),
                path="connector.signal.file",
            ) from None
        found.in_file = len(content)
        lines = content.decode("utf-8-sig", errors="replace").split("\n")
        signals = [_of_line(number, line) for number, line in enumerate(lines, 1) if line.strip()]
        found.signals += signals
        if not signals:  # nobody follows blank lines, and what comes after them is not to wait for that
            self.forget(found)
            found.in_file = 0


def _taken(file: Path) -> Path:
    """Where the file is while its signals are followed."""
    return file.with_name(f"{file.name}.taken")


def _is_written(file: Path) -> bool:
    """Whether it has lines, and the last of them is not being written."""
    content = file.read_bytes()
    return content.endswith(b"\n") or (content != b"" and not _is_being_written(file))


def _is_being_written(file: Path) -> bool:
    return time.time() - file.stat().st_mtime <= _WRITTEN_SECONDS


def _take(file: Path) -> bytes:
    """What is to be followed: of the file, moved away now, or of before. An empty one stays for who may only write
    to it."""
    taken = _taken(file)
    if taken.exists() and not taken.read_bytes() and not _is_being_written(taken):
        taken.unlink()  # somebody emptied the file right before it was moved
    if not taken.exists():
        if not file.is_file() or not _is_written(file):
            return b""
        file.rename(taken)
    with suppress(FileExistsError):  # somebody wrote a new one already
        os.close(os.open(file, os.O_CREAT | os.O_EXCL))
        file.chmod(taken.stat().st_mode & 0o777)
    return taken.read_bytes() if _is_written(taken) else b""  # somebody may write to it still who had opened it


def _of_row(row: Mapping[str, str | None]) -> Signal:
    """A row of a table of signals, where anything may be NULL."""
    return Signal(row["id"] or "", row["type"] or "", row["data"])


def _of_line(number: int, line: str) -> Signal:
    """One line of the file. One that is no signal gets a type that is refused by name."""
    try:
        raw = json.loads(line)
    except (ValueError, RecursionError):  # also a number of thousands of digits
        raw = None
    if not isinstance(raw, dict) or not isinstance(raw.get("type"), str):
        return Signal(f"line {number}", "a line that is no signal")
    data = raw.get("data")
    return Signal(
        storable(str(raw.get("id", ""))), raw["type"], data if isinstance(data, str) else json.dumps(data or {})
    )
