"""Each event's place in its transaction, and the records that tell of a transaction's begin and end.

Numbered when events are printed, since operations that are skipped are not counted.

Invariant: a line is counted at most once: neither tombstones, nor snapshot rows, nor messages outside of transactions.
Source: Debezium documentation, PostgreSQL connector, "Transaction metadata".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from walhouse.silver.records.connect_schema import transaction_key_schema, transaction_value_schema
from walhouse.silver.records.lines import AFTER_ALL, MESSAGES, line, lines_of_no_table
from walhouse.silver.records.payloads import HOLE, json_of, with_schema
from walhouse.silver.records.topics import transaction_topic
from walhouse.silver.transactions import TRANSACTION_ID

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from walhouse.silver.records.connect_schema import Schema
    from walhouse.silver.settings import EventsSettings

_COLLECTIONS: Final = "array<struct<data_collection:string,event_count:bigint>>"


def numbered(lines: DataFrame) -> DataFrame:
    """Lines with their holes filled. Columns in: commit_lsn, seq, place, xid, collection, counted, line."""
    # what is not counted (a whole snapshot, say) is spread: its window is nobody's business
    spread = F.when(~F.col("counted"), F.xxhash64("seq", "place"))
    whole = Window.partitionBy("commit_lsn", spread).orderBy("seq", "place")
    of_table = Window.partitionBy("commit_lsn", spread, "collection", _alone()).orderBy("seq", "place")
    block = F.struct(
        F.expr(TRANSACTION_ID).alias("id"),
        F.row_number().over(whole).cast("bigint").alias("total_order"),
        F.row_number().over(of_table).cast("bigint").alias("data_collection_order"),
    )
    text = F.when(F.col("counted"), F.to_json(block)).otherwise("null")
    return lines.withColumn("line", F.replace("line", F.lit(HOLE), text))


def transaction_lines(begun: DataFrame, events: DataFrame, settings: EventsSettings) -> DataFrame:
    """The begins and ends of silver's transactions.

    ``events``: commit_lsn, seq and collection of all that is counted.
    """
    topic = transaction_topic(settings)
    key, nothing = _printed(F.struct("id"), transaction_key_schema(), settings), F.lit(None)
    tables = F.coalesce("data_collections", F.array().cast(_COLLECTIONS))

    def value(status: str, count: Column, collections: Column) -> Column:
        fields = F.struct(
            F.lit(status).alias("status"),
            "id",
            count.cast("bigint").alias("event_count"),
            collections.cast(_COLLECTIONS).alias("data_collections"),
            "ts_ms",
        )
        return _printed(fields, transaction_value_schema(), settings)

    begin = line(topic, key, value("BEGIN", nothing, nothing), F.lit("{}"))
    end = line(topic, key, value("END", F.coalesce("event_count", F.lit(0)), tables), F.lit("{}"))
    last = F.lit(AFTER_ALL).alias("seq")
    marks = F.array(F.struct(F.col("seq"), begin.alias("line")), F.struct(last, end.alias("line")))
    told = begun.join(_counts(events), "commit_lsn", "left")
    marked = told.select("commit_lsn", "xid", F.explode(marks).alias("mark"))
    return lines_of_no_table(marked.select("commit_lsn", "xid", "mark.*"), F.col("line"))


def _alone() -> Column:
    """Tells messages apart: Debezium takes each for a collection of its own."""
    return F.when(F.col("collection") == MESSAGES, F.col("seq"))


def _printed(fields: Column, schema: Schema, settings: EventsSettings) -> Column:
    text = json_of(fields)
    return with_schema(text, schema) if settings.schemas else text


def _counts(events: DataFrame) -> DataFrame:
    """Of each transaction with events: ``commit_lsn``, ``event_count`` and ``data_collections``."""
    by_table = events.groupBy("commit_lsn", "collection", _alone().alias("seq")).agg(F.count(F.lit(1)).alias("events"))
    table = F.struct(F.col("collection").alias("data_collection"), F.col("events").alias("event_count"))
    return by_table.groupBy("commit_lsn").agg(
        F.sum("events").alias("event_count"), F.array_sort(F.collect_list(table)).alias("data_collections")
    )
