"""Silver as the records that Debezium would have sent, one JSON object a line.

Invariant: one order over all tables, that of the commits: (commit_lsn, seq), a key change's delete, its tombstone, then
its create. A snapshot's rows stand at its LSN, table by table.
Source: Debezium documentation, PostgreSQL connector, "Data change events".
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812  (the name everybody knows it by)

from walhouse.lakehouse.tables import table_exists
from walhouse.pgoutput.row import Kind
from walhouse.silver.heartbeats import heartbeat_lines
from walhouse.silver.keys import with_chosen_keys
from walhouse.silver.lines import counted_events, counted_messages, message_lines, table_lines
from walhouse.silver.places import numbered, transaction_lines
from walhouse.silver.topics import require_distinct_topics

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from walhouse.lakehouse.layout import LakeLayout
    from walhouse.lsn import Lsn
    from walhouse.names import LakeTable, TableName
    from walhouse.pgoutput.relation import RelationDescription
    from walhouse.silver.settings import EventsSettings


def events(
    spark: SparkSession,
    layout: LakeLayout,
    settings: EventsSettings,
    tables: Mapping[TableName, Sequence[RelationDescription]],
    *,
    only: Collection[TableName] | None = None,
    from_lsn: Lsn | None = None,
    to_lsn: Lsn | None = None,
) -> Iterator[str]:
    """The lines ``{"destination", "key", "value", "headers"}`` of commits that start in ``[from_lsn, to_lsn)``.

    ``tables``: all relation versions of each captured table, the current one last. A table that silver does not have
    yet has no events. ``only``: the events of these tables; None for those of all, logical messages, and transactions.
    The lines are made by Spark and come a partition at a time.
    """
    lines = event_lines(spark, layout, settings, tables, only=only, from_lsn=from_lsn, to_lsn=to_lsn)
    if lines is None:
        return
    for row in lines.toLocalIterator(prefetchPartitions=True):
        yield row[0]


def event_lines(
    spark: SparkSession,
    layout: LakeLayout,
    settings: EventsSettings,
    tables: Mapping[TableName, Sequence[RelationDescription]],
    *,
    only: Collection[TableName] | None,
    from_lsn: Lsn | None,
    to_lsn: Lsn | None,
) -> DataFrame | None:
    """The same as a frame of one column, ``line``, in order; None if there is nothing to read."""

    def rows(table: LakeTable) -> DataFrame | None:
        return _between(spark.table(str(table)), from_lsn, to_lsn) if table_exists(spark, table) else None

    # a place counts the events of all tables, printed or not
    read = [table for table in tables if only is None or table in only or settings.transactions]
    found = {table: rows(layout.silver(table)) for table in read}
    return lines_of(
        {table: frame for table, frame in found.items() if frame is not None},
        rows(layout.silver_messages) if only is None or settings.transactions else None,
        rows(layout.silver_transactions) if only is None and settings.transactions else None,
        settings,
        tables,
        only=only,
        passes=_passes(spark, layout, from_lsn, to_lsn) if only is None and settings.heartbeat_ms else None,
    )


def lines_of(
    frames: Mapping[TableName, DataFrame],
    messages: DataFrame | None,
    transactions: DataFrame | None,
    settings: EventsSettings,
    tables: Mapping[TableName, Sequence[RelationDescription]],
    *,
    only: Collection[TableName] | None = None,
    passes: DataFrame | None = None,
) -> DataFrame | None:
    """The lines of these rows of silver, in order, in a column ``line``; None if there are no frames.

    ``passes``: bronze's progress rows, which give heartbeats.
    """
    shown = [table for table in frames if only is None or table in only]
    require_distinct_topics(shown, settings)
    parts = [
        table_lines(rows, table, with_chosen_keys(tables[table], settings.columns), settings)
        for table, rows in frames.items()
    ]
    if messages is not None:
        parts.append(message_lines(messages, settings))
    if settings.transactions and parts:
        parts = [numbered(_union(parts))]
    if only is not None:
        parts = [part.where(F.col("collection").isin([str(table) for table in shown])) for part in parts]
    if transactions is not None:
        parts.append(transaction_lines(transactions, _counted(transactions, frames, messages, settings), settings))
    if passes is not None:
        parts.append(heartbeat_lines(passes, settings))
    # the tables of a snapshot share its LSN and number their rows alike
    order = ("commit_lsn", F.asc_nulls_last("read"), "seq", "place")
    return _union(parts).orderBy(*order).select("line") if parts else None


def _counted(
    transactions: DataFrame,
    frames: Mapping[TableName, DataFrame],
    messages: DataFrame | None,
    settings: EventsSettings,
) -> DataFrame:
    """``commit_lsn`` and ``collection`` of each event that has a place in a transaction."""
    none = transactions.select("commit_lsn", F.lit("").alias("collection")).where("false")
    of_tables = [counted_events(rows, table, settings) for table, rows in frames.items()]
    return _union([none, *of_tables, *([] if messages is None else [counted_messages(messages)])])


def _union(parts: Sequence[DataFrame]) -> DataFrame:
    return reduce(lambda one, other: one.unionAll(other), parts)


def _passes(spark: SparkSession, layout: LakeLayout, from_lsn: Lsn | None, to_lsn: Lsn | None) -> DataFrame:
    rows = spark.table(str(layout.bronze)).where(F.col("kind") == Kind.PROGRESS.value)
    return _between(rows.withColumn("commit_lsn", F.col("captured_to")), from_lsn, to_lsn)


def _between(rows: DataFrame, from_lsn: Lsn | None, to_lsn: Lsn | None) -> DataFrame:
    if from_lsn is not None:
        rows = rows.where(F.col("commit_lsn") >= int(from_lsn))
    return rows if to_lsn is None else rows.where(F.col("commit_lsn") < int(to_lsn))
