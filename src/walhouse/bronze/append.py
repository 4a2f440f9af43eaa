"""Appending to bronze, once.

Invariant: an append counts only after its progress row was read back. Delta skips, without an error, an append whose
version is not greater than the last one under the same name. There are two names: passes of chunks, which are written
beside the stream, are counted apart from all others.

On a local lake the tasks write bronze's files themselves (``lake.writer: arrow``); else Spark writes the tasks' rows.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql import Observation
from pyspark.sql import functions as F

from walhouse.bronze.failure import on_driver
from walhouse.bronze.files import BY_TABLE, ROWS_PER_FILE, write_files
from walhouse.bronze.progress import read_pass
from walhouse.bronze.source import load
from walhouse.bronze.table import generation
from walhouse.errors import AppendSkippedError
from walhouse.lakehouse.files import Once
from walhouse.pgoutput.row import Kind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, SparkSession

    from walhouse.bronze.progress import Progress
    from walhouse.bronze.source import Plan
    from walhouse.lakehouse.commits import LocalTable
    from walhouse.lakehouse.layout import LakeLayout
    from walhouse.names import TableName

_COMMITTING: Final = threading.Lock()
"""Spark's local log store looks whether a commit is there, then puts its own in that place: delta-rs waits for it."""

_COUNTED_TABLES: Final = 8
"""Spark counts so many tables apart while it writes: each is an expression more for every row."""


class Order(NamedTuple):
    """How the rows of a pass are read and written."""

    by_table: bool = False
    """Sorted by table, so that who reads one of several skips the others."""
    tasks: int = 0
    """How many read at once at most; 0: as many as Spark has cores for."""
    counted: Sequence[TableName] | None = None
    """Tables whose rows of snapshots are to be counted, each, and all together; None: none is."""


_AS_IT_COMES: Final = Order()


class Appended(NamedTuple):
    """What an append came to: its progress as bronze has it, and how many rows of snapshots are in it."""

    progress: Progress
    rows: int
    of_tables: Mapping[TableName, int]
    """Of the tables that were to be counted, of some of them at least."""


def append(
    spark: SparkSession,
    layout: LakeLayout,
    plan: Plan,
    upcoming: Progress,
    order: Order = _AS_IT_COMES,
    *,
    beside: bool = False,
) -> Appended:
    """Read a pass and write it in one Delta commit. Raises AppendSkippedError, and what reading raises.

    ``beside``: passes with greater numbers may be written before it.
    """
    source = upcoming.source
    name = f"walhouse:{source.system_identifier}:{source.database}:{generation(spark, layout)}"
    name += ":chunks" if beside else ""
    once, local = Once(name, upcoming.pass_number), layout.local(layout.bronze)
    counts = (
        _by_spark(spark, layout, plan, order, once)
        if local is None
        else _by_tasks(spark, layout, local, plan, order, once=once)
    )
    written = read_pass(spark, layout, upcoming.pass_number)
    if written is None or written.captured_to != upcoming.captured_to:
        raise AppendSkippedError(
            f"Pass {upcoming.pass_number} is not in {layout.bronze} after it was written.",
            table=str(layout.bronze),
            pass_number=upcoming.pass_number,
        )
    return Appended(written, *counts())


_Counts = Callable[[], tuple[int, "Mapping[TableName, int]"]]
"""What was written of snapshots: asked for only where it is sure that something was."""


def _by_tasks(
    spark: SparkSession, layout: LakeLayout, bronze: LocalTable, plan: Plan, order: Order, *, once: Once
) -> _Counts:
    written = write_files(spark, plan, bronze.folder, by_table=order.by_table, tasks=order.tasks)
    if written is None:
        with _COMMITTING:
            return _by_spark(spark, layout, plan, order, once)
    with _COMMITTING:
        bronze.append(written.files, once, tidies=True)
    return lambda: (written.read.total(), written.read)


def _by_spark(spark: SparkSession, layout: LakeLayout, plan: Plan, order: Order, once: Once) -> _Counts:
    rows = load(spark, plan)
    if order.by_table:
        rows = rows.sortWithinPartitions(*BY_TABLE)
    if order.tasks:
        rows = rows.coalesce(order.tasks)
    counted = dict(enumerate((order.counted or ())[:_COUNTED_TABLES]))
    seen = Observation()
    if order.counted is not None:
        rows = rows.observe(seen, *_counts_of(counted))
    with on_driver():
        (
            rows.write.format("delta")
            .mode("append")
            .option("txnAppId", once.name)
            .option("txnVersion", once.number)
            .option("maxRecordsPerFile", ROWS_PER_FILE)
            .saveAsTable(str(layout.bronze))
        )
    if order.counted is None:
        return lambda: (0, {})
    return lambda: (seen.get["rows"], {table: seen.get[f"rows_{number}"] for number, table in counted.items()})


def _counts_of(tables: Mapping[int, TableName]) -> list[Column]:
    """How many rows of snapshots there are: ``rows``, and ``rows_n`` of table n."""
    is_read = F.col("kind") == Kind.SNAPSHOT.value
    counts = [F.count(F.when(is_read, 1)).alias("rows")]
    for number, (schema, table) in tables.items():
        is_of_table = (F.col("schema_name") == schema) & (F.col("table_name") == table)
        counts.append(F.count(F.when(is_read & is_of_table, 1)).alias(f"rows_{number}"))
    return counts
