"""One event as a line of JSON: destination, key, value, headers.

Invariant: a line is one record, with its tombstone after it where there is one.
Source: Debezium documentation, PostgreSQL connector, "Data change events". Header values: the text of a string, and the
JSON of a key.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from walhouse.pgoutput.row import Op
from walhouse.silver.columns import fields_of_version
from walhouse.silver.records.payloads import NULL, key_change, message_key, message_value, table_key, table_value
from walhouse.silver.records.rows import read_of
from walhouse.silver.records.topics import message_topic, table_topic
from walhouse.silver.table import struct_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructField

    from walhouse.names import TableName
    from walhouse.pgoutput.relation import RelationDescription
    from walhouse.silver.settings import EventsSettings

_DELETE: Final = 0
_TOMBSTONE: Final = 1
_EVENT: Final = 2
"""Places of the lines of one change: a key's change is a delete, its tombstone and a create."""

AFTER_ALL: Final = (1 << 63) - 1
"""``seq`` of a line that comes after every change of its LSN."""

MESSAGES: Final = "LOGICAL_DECODING_MESSAGE"
"""The data collection that logical messages count for."""


def table_lines(
    rows: DataFrame, table: TableName, relations: Sequence[RelationDescription], settings: EventsSettings
) -> DataFrame:
    """A table's events and tombstones.

    Columns: commit_lsn, seq, place (of the line among those of one change), xid, collection (the table), read (the same
    for a snapshot's rows, else NULL), counted (whether it has a place in its transaction) and line.
    """
    after = struct_of(rows.schema, "after")

    def fields(version: RelationDescription) -> Mapping[str, StructField]:
        return fields_of_version(after, version, settings.types)

    is_delete, is_read = F.col("op") == Op.DELETE.value, F.col("op") == Op.READ.value
    key, topic = table_key(relations, fields, settings), table_topic(table, settings)
    headers = _headers(key_change(relations, fields, settings), settings)
    value = F.when(F.col("place") == _TOMBSTONE, F.lit(NULL)).otherwise(table_value(relations, fields, settings))
    # exploded before it is rendered: a generator's expressions are interpreted, a projection's compiled
    places = F.when(is_delete, _places(_DELETE, *([_TOMBSTONE] if settings.tombstones else []))).otherwise(
        _places(_EVENT)
    )
    return (
        _not_skipped(rows, settings)
        .withColumn("place", F.explode(places))
        .select(
            "commit_lsn",
            "seq",
            "place",
            "xid",
            F.lit(str(table)).alias("collection"),
            read_of(table).alias("read"),
            (~is_read & (F.col("place") != _TOMBSTONE)).alias("counted"),
            line(topic, key, value, headers).alias("line"),
        )
    )


def _places(*places: int) -> Column:
    return F.array(*(F.lit(place) for place in places))


def counted_events(rows: DataFrame, table: TableName, settings: EventsSettings) -> DataFrame:
    """``commit_lsn``, ``seq`` and ``collection`` of a table's events that have a place in their transaction."""
    return (
        _not_skipped(rows, settings)
        .where(F.col("op") != Op.READ.value)
        .select("commit_lsn", "seq", F.lit(str(table)).alias("collection"))
    )


def counted_messages(rows: DataFrame) -> DataFrame:
    """The same of logical messages."""
    return rows.where("transactional").select("commit_lsn", "seq", F.lit(MESSAGES).alias("collection"))


def _not_skipped(rows: DataFrame, settings: EventsSettings) -> DataFrame:
    """Without the operations that are not printed."""
    return rows.where(~F.col("op").isin(sorted(settings.skipped_operations)))


def message_lines(rows: DataFrame, settings: EventsSettings) -> DataFrame:
    """Logical messages, columns as ``table_lines``."""
    text = line(message_topic(settings), message_key(settings), message_value(settings), F.lit("{}"))
    return lines_of_no_table(rows, text, collection=F.lit(MESSAGES), counted=F.col("transactional"))


def lines_of_no_table(
    rows: DataFrame, text: Column, *, place: int = 0, collection: Column | None = None, counted: Column | None = None
) -> DataFrame:
    """One line for each row with commit_lsn, seq and xid, columns as ``table_lines``. Not counted unless said."""
    return rows.select(
        "commit_lsn",
        "seq",
        F.lit(place).alias("place"),
        "xid",
        (F.lit(None).cast("string") if collection is None else collection).alias("collection"),
        F.lit(None).cast("string").alias("read"),
        (F.lit(False) if counted is None else counted).alias("counted"),
        text.alias("line"),
    )


def line(destination: str, key: Column, value: Column, headers: Column) -> Column:
    """The whole line."""
    start = f'{{"destination":{json.dumps(destination)},"key":'
    return F.concat(F.lit(start), key, F.lit(',"value":'), value, F.lit(',"headers":'), headers, F.lit("}"))


def _headers(change: Column, settings: EventsSettings) -> Column:
    """A key change's header first, then those that say which connector it was."""
    context = _context(settings)
    mine = F.coalesce(F.to_json(F.transform_values(change, lambda _, key: _with_escaped_pairs(key))), F.lit("{}"))
    if not context:
        return mine
    rest = json.dumps(context, ensure_ascii=False, separators=(",", ":"))
    return F.when(change.isNull(), F.lit(rest)).otherwise(
        F.concat(F.substr(mine, F.lit(1), F.length(mine) - 1), F.lit(","), F.lit(rest[1:]))
    )


def _with_escaped_pairs(text: Column) -> Column:
    r"""JSON with characters beyond U+FFFF as two escapes (``\uD83D\uDE00``), as the JSON converter writes its bytes."""

    def escaped(character: Column) -> Column:
        rest = F.ascii(character) - 0x10000
        high, low = F.shiftright(rest, 10) + 0xD800, rest.bitwiseAND(0x3FF) + 0xDC00
        pair = F.concat(F.lit("\\u"), F.hex(high), F.lit("\\u"), F.hex(low))
        return F.when(rest >= 0, pair).otherwise(character)

    has_pairs = text.rlike("[\\x{10000}-\\x{10FFFF}]")
    return F.when(has_pairs, F.array_join(F.transform(F.split(text, ""), escaped), "")).otherwise(text)


def _context(settings: EventsSettings) -> dict[str, str]:
    if not settings.context_headers:
        return {}
    headers = {"connectorLogicalName": settings.topic_prefix, "taskId": "0", "connectorName": "postgresql"}
    if settings.run_id is not None:
        headers["runId"] = settings.run_id
    return {f"__debezium.context.{name}": value for name, value in headers.items()}
