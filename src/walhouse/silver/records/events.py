"""Silver as the records that Debezium would have sent, one JSON object a line.

Invariant: one order over all tables, that of the commits: (commit_lsn, seq), a key change's delete, its tombstone, then
its create. A snapshot's rows stand at its LSN, table by table.
Source: Debezium documentation, PostgreSQL connector, "Data change events".
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from functools import reduce
from typing import TYPE_CHECKING, BinaryIO, Self, cast

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from walhouse.changes.columns import latest_columns
from walhouse.changes.epochs import Layer, applied_tables
from walhouse.changes.failures import raise_first, table_gone
from walhouse.changes.touched import APART
from walhouse.errors import QueryError
from walhouse.lakehouse.session import require_names
from walhouse.lakehouse.tables import table_exists
from walhouse.names import MESSAGES, TRANSACTIONS
from walhouse.pgoutput.row import Kind
from walhouse.silver.keys import with_chosen_keys
from walhouse.silver.records.heartbeats import heartbeat_lines
from walhouse.silver.records.lines import counted_events, counted_messages, message_lines, table_lines
from walhouse.silver.records.pieces import WHOLE, Piece, Pieces, cuts
from walhouse.silver.records.places import numbered, transaction_lines
from walhouse.silver.records.rows import PrintedRows
from walhouse.silver.records.topics import require_distinct_topics

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

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
) -> EventLines:
    """The lines ``{"destination", "key", "value", "headers"}`` of commits that start in ``[from_lsn, to_lsn)``.

    ``tables``: all relation versions of each captured table, the current one last. A table that silver does not have
    yet has no events. ``only``: the events of these tables; None for those of all, logical messages, and transactions.
    The lines are made by Spark, a piece while the one before is printed. Raises QueryError if bronze knows nothing of
    one of ``only``, LakeError if silver lacks a table that was applied, ConfigurationError if the session would alter
    a column's name.
    """
    if unknown := sorted(str(table) for table in set(only or ()) - tables.keys()):
        raise QueryError(
            f"There is nothing of {', '.join(unknown)} in the lake.", todo="See the names in `walhouse status`."
        )
    for table in tables if only is None else only:
        require_names(spark, latest_columns(tables[table]))

    def batches() -> Iterator[pa.StringArray]:
        rows = _rows(spark, layout, settings, tables, only).between(from_lsn, to_lsn)
        if rows.is_empty:
            return
        every, pieces = lines_of(rows, settings, tables, only=only), Pieces(cuts(rows.positions()))

        # not toLocalIterator: Spark 4.2 keeps every row that it gave, until the session ends (DAGScheduler's
        # activeQueryToJobs gets jobs of a query that has ended)
        for piece, lines in _one_ahead(pieces, lambda piece: in_order(every, piece).toArrow()):
            pieces.made(piece, lines.nbytes)
            yield from lines.column(0).chunks

    return EventLines(batches())


class EventLines:
    """The lines of events, as they are made: one text after another, or, several times faster, written as they are."""

    def __init__(self, batches: Iterator[pa.StringArray]) -> None:
        self._batches = batches
        self._lines = (line for batch in batches for line in batch.to_pylist())

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> str:
        return cast("str", next(self._lines))

    def write(self, stream: BinaryIO) -> None:
        """Write all lines that are left, in UTF-8, each with a newline."""
        for batch in filter(len, self._batches):  # nothing joined would be an empty line
            # a session's setting may make them large strings, which Arrow cannot join
            lines = pa.ListArray.from_arrays([0, len(batch)], batch.cast(pa.string()))
            stream.write(pc.binary_join(lines, "\n")[0].as_buffer())
            stream.write(b"\n")


def lines_of(
    rows: PrintedRows,
    settings: EventsSettings,
    tables: Mapping[TableName, Sequence[RelationDescription]],
    *,
    only: Collection[TableName] | None = None,
) -> DataFrame:
    """The lines of these rows, columns as ``table_lines`` has them, in no order."""
    shown = [table for table in rows.tables if only is None or table in only]
    require_distinct_topics(shown, settings)
    parts = [
        table_lines(of_table, table, with_chosen_keys(tables[table], settings.columns), settings)
        for table, of_table in rows.tables.items()
    ]
    if rows.messages is not None:
        parts.append(message_lines(rows.messages, settings))
    if settings.transactions and parts:
        parts = [numbered(_union(parts))]
    if only is not None:
        parts = [part.where(F.col("collection").isin([str(table) for table in shown])) for part in parts]
    if rows.transactions is not None:
        parts.append(transaction_lines(rows.transactions, _counted(rows, settings), settings))
    if rows.passes is not None:
        parts.append(heartbeat_lines(rows.passes, settings))
    return _union(parts)


def in_order(lines: DataFrame, piece: Piece = WHOLE) -> DataFrame:
    """The lines of a piece in a column ``line``, in order."""
    # the tables of a snapshot share its LSN and number their rows alike
    order = ("commit_lsn", F.asc_nulls_last("read"), "seq", "place")
    lines = piece.of(lines)
    # a sort over several partitions would make every line twice, the first time to find their bounds
    in_parts = getattr(type(lines), "repartitionById", None)
    if in_parts is None:  # before Spark 4.1
        return lines.orderBy(*order).select("line")
    parts: DataFrame = in_parts(lines, piece.parts, piece.part())
    return parts.sortWithinPartitions(*order).select("line")


def _rows(
    spark: SparkSession,
    layout: LakeLayout,
    settings: EventsSettings,
    tables: Iterable[TableName],
    only: Collection[TableName] | None,
) -> PrintedRows:
    """What there is to print. Where places are printed all tables are read: they count events that are not shown."""

    read = [table for table in tables if only is None or table in only or settings.transactions]
    if only is None or settings.transactions:
        read.append(MESSAGES)
    if only is None and settings.transactions:
        read.append(TRANSACTIONS)
    names = {table: layout.silver(table) for table in read}
    there = {table: spark.table(str(name)) for table, name in names.items() if table_exists(spark, layout, name)}
    _require_applied(spark, layout, {table: name for table, name in names.items() if table not in there})
    return PrintedRows(
        {table: frame for table, frame in there.items() if table not in APART},
        there.get(MESSAGES),
        there.get(TRANSACTIONS),
        _passes(spark, layout) if only is None and settings.heartbeat_ms else None,
    )


def _require_applied(spark: SparkSession, layout: LakeLayout, missing: Mapping[TableName, LakeTable]) -> None:
    """What silver does not have was never applied: else its events would be left out without a word."""
    gone = applied_tables(spark, layout, Layer.SILVER).intersection(missing) if missing else ()
    safe = "Nothing was printed; bronze holds every change."
    raise_first({str(table): table_gone(Layer.SILVER, table, missing[table], safe=safe) for table in sorted(gone)})


def _one_ahead(pieces: Pieces, make: Callable[[Piece], pa.Table]) -> Iterator[tuple[Piece, pa.Table]]:
    """Each piece and what is made of it, the next one being made while the caller works on one."""
    with ThreadPoolExecutor(1) as pool:
        coming: deque[tuple[Piece, Future[pa.Table]]] = deque()
        while (piece := pieces.take()) is not None:
            coming.append((piece, pool.submit(make, piece)))
            if len(coming) > 1:
                yield _made(coming)
        yield _made(coming)


def _made(coming: deque[tuple[Piece, Future[pa.Table]]]) -> tuple[Piece, pa.Table]:
    piece, future = coming.popleft()
    return piece, future.result()


def _counted(rows: PrintedRows, settings: EventsSettings) -> DataFrame:
    """``commit_lsn``, ``seq`` and ``collection`` of each event that has a place in a transaction."""
    parts = [counted_events(of_table, table, settings) for table, of_table in rows.tables.items()]
    if rows.messages is not None:
        parts.append(counted_messages(rows.messages))
    if rows.transactions is not None:
        nothing = rows.transactions.select("commit_lsn", F.lit(0).alias("seq"), F.lit("").alias("collection"))
        parts.append(nothing.where("false"))
    return _union(parts)


def _union(parts: Sequence[DataFrame]) -> DataFrame:
    return reduce(lambda one, other: one.unionAll(other), parts)


def _passes(spark: SparkSession, layout: LakeLayout) -> DataFrame:
    rows = spark.table(str(layout.bronze)).where(F.col("kind") == Kind.PROGRESS.value)
    return rows.withColumn("commit_lsn", F.col("captured_to"))
