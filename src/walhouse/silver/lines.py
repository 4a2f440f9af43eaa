"""One event as a line of JSON: destination, key, value, headers.

Invariant: a row is printed with the columns that its own relation version had; every field is printed.
Source: Kafka Connect's JSON converter without schemas: bytes as base64, NaN and infinities as strings, a NULL as the
field's default. Header values: the text of a string, and the JSON of a key.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812  (the name everybody knows it by)

from walhouse.pgoutput.row import Op
from walhouse.silver.columns import fields_of
from walhouse.silver.connect_schema import (
    Schema,
    key_schema,
    message_key_schema,
    message_value_schema,
    schema_text,
    value_schema,
)
from walhouse.silver.defaults import default_value
from walhouse.silver.keys import key_columns
from walhouse.silver.table import struct_of
from walhouse.silver.texts import of_versions
from walhouse.silver.topics import message_topic, table_topic
from walhouse.silver.types import silver_type
from walhouse.silver.vectors import SPARSE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructField

    from walhouse.names import TableName
    from walhouse.pgoutput.relation import RelationDescription
    from walhouse.silver.settings import EventsSettings

_UNKNOWN: Final = "\0"
HOLE: Final = json.dumps(_UNKNOWN)
"""Stands in a line where the event's place in its transaction belongs; no text of PostgreSQL's has this character."""

MESSAGES: Final = "LOGICAL_DECODING_MESSAGE"
"""The data collection that logical messages count for."""

_TIMES: Final = ("ts_ms", "ts_us", "ts_ns")
_NULL: Final = "null"

_WITH_NULLS: Final = {"ignoreNullFields": "false"}
"""The JSON converter prints every field."""


def table_lines(
    rows: DataFrame, table: TableName, relations: Sequence[RelationDescription], settings: EventsSettings
) -> DataFrame:
    """A table's events and tombstones.

    Columns: commit_lsn, seq, place (of the line among those of one change), xid, collection (the table), counted
    (whether it has a place in its transaction) and line.
    """
    after = struct_of(rows.schema, "after")
    fields = {column: after[field] for column, field in fields_of(after).items()}
    is_delete = F.col("op") == Op.DELETE.value
    key = F.coalesce(_by_version(relations, lambda version: _key(version, fields, settings)), F.lit(_NULL))
    value = _by_version(relations, lambda version: _value(version, fields, settings))
    topic, headers = table_topic(table, settings), _headers(settings)
    event, tombstone = line(topic, key, value, headers), line(topic, key, F.lit(_NULL), headers)
    lines = F.when(is_delete & F.lit(settings.tombstones), F.array(event, tombstone)).otherwise(F.array(event))
    first = F.when(is_delete, F.lit(0)).otherwise(F.lit(2))
    counted = F.col("op") != Op.READ.value
    return (
        _not_skipped(rows, settings)
        .select("commit_lsn", "seq", "xid", first.alias("first"), counted.alias("is_change"), F.posexplode(lines))
        .select(
            "commit_lsn",
            "seq",
            (F.col("first") + F.col("pos")).alias("place"),
            "xid",
            F.lit(str(table)).alias("collection"),
            (F.col("is_change") & (F.col("pos") == 0)).alias("counted"),
            F.col("col").alias("line"),
        )
    )


def counted_events(rows: DataFrame, table: TableName, settings: EventsSettings) -> DataFrame:
    """``commit_lsn`` and ``collection`` of a table's events that have a place in their transaction."""
    return (
        _not_skipped(rows, settings)
        .where(F.col("op") != Op.READ.value)
        .select("commit_lsn", F.lit(str(table)).alias("collection"))
    )


def counted_messages(rows: DataFrame) -> DataFrame:
    """The same of logical messages."""
    return rows.where("transactional").select("commit_lsn", F.lit(MESSAGES).alias("collection"))


def _not_skipped(rows: DataFrame, settings: EventsSettings) -> DataFrame:
    """Without the operations that are not printed."""
    return rows.where(~F.col("op").isin(sorted(settings.skipped_operations)))


def message_lines(rows: DataFrame, settings: EventsSettings) -> DataFrame:
    """Logical messages, columns as ``table_lines``."""
    key = F.to_json(F.struct(F.col("message.prefix").alias("prefix")), _WITH_NULLS)
    value = F.to_json(F.struct("op", "ts_ms", _source(settings), _place(settings), "message"), _WITH_NULLS)
    if settings.schemas:
        key = with_schema(key, message_key_schema())
        value = with_schema(value, message_value_schema(settings.types.binary))
    text = line(message_topic(settings), key, value, F.lit("{}"))
    return rows.select(
        "commit_lsn",
        "seq",
        F.lit(0).alias("place"),
        "xid",
        F.lit(MESSAGES).alias("collection"),
        F.col("transactional").alias("counted"),
        text.alias("line"),
    )


def _by_version(relations: Sequence[RelationDescription], text: Callable[[RelationDescription], Column]) -> Column:
    """The text by each row's relation version; versions that print alike share a branch."""
    alike: dict[object, list[RelationDescription]] = {}
    for relation in relations:
        alike.setdefault((relation.columns, key_columns(relation)), []).append(relation)
    *older, current = alike.values()
    value = text(current[-1])
    for versions in older:
        value = F.when(F.expr(of_versions(versions)), text(versions[-1])).otherwise(value)
    return value


def _value(relation: RelationDescription, fields: Mapping[str, StructField], settings: EventsSettings) -> Column:
    names = [name for name in relation.column_names if settings.columns.shows(relation.name, name)]
    defaults = _defaults(relation, settings)
    images = [_named(image, names, fields, defaults).alias(image) for image in ("before", "after")]
    value = F.to_json(F.struct(*images, _source(settings), _place(settings), "op", *_TIMES), _WITH_NULLS)
    if not settings.schemas:
        return value
    prefix = table_topic(relation.name, settings)
    return with_schema(value, value_schema(relation, settings.types, prefix, settings.columns))


def _key(relation: RelationDescription, fields: Mapping[str, StructField], settings: EventsSettings) -> Column:
    names = key_columns(relation)
    if not names:
        return F.lit(_NULL)
    key = F.to_json(_named("key", names, fields, _defaults(relation, settings)), _WITH_NULLS)
    if not settings.schemas:
        return key
    return with_schema(key, key_schema(relation, settings.types, table_topic(relation.name, settings)))


def _place(settings: EventsSettings) -> Column:
    """``transaction``, which is not known yet where it is wanted."""
    return F.lit(_UNKNOWN if settings.transactions else None).alias("transaction")


def with_schema(payload: Column, schema: Schema) -> Column:
    """The payload and its schema, as the JSON converter wraps them."""
    return F.concat(F.lit('{"schema":'), schema_text(schema), F.lit(',"payload":'), payload, F.lit("}"))


def _named(image: str, names: Sequence[str], fields: Mapping[str, StructField], defaults: Mapping[str, str]) -> Column:
    """The image with the source's own column names, in the source's order."""

    def shown(name: str) -> Column:
        value = _printable(F.col(image).getField(fields[name].name), fields[name])
        return F.coalesce(value, F.expr(defaults[name])) if name in defaults else value

    row = F.struct(*(shown(name).alias(name) for name in names if name in fields))
    return F.when(F.col(image).isNotNull(), row)


def _defaults(relation: RelationDescription, settings: EventsSettings) -> dict[str, str]:
    """What is printed in place of NULL, by column."""
    if settings.keep_nulls:
        return {}
    found = {}
    for column in relation.columns:
        kind = silver_type(column, settings.types)
        default = default_value(column, kind) if kind else None
        if default is not None:
            found[column.name] = default
    return found


def _source(settings: EventsSettings) -> Column:
    """``source``; the marker of a streamed change is its field's default, which is NULL where NULL is kept."""
    source = F.col("source")
    if not settings.keep_nulls:
        return source
    marker = F.nullif(source.getField("snapshot"), F.lit("false"))
    return source.withField("snapshot", marker).alias("source")


def _printable(value: Column, field: StructField) -> Column:
    """A map whose keys are no texts is printed as pairs, which no type of Spark's but a variant holds."""
    if field.dataType != SPARSE:
        return value
    pairs = F.transform(
        F.map_entries(value.getField("vector")),
        lambda entry: F.array(entry.getField("key").cast("variant"), entry.getField("value").cast("variant")),
    )
    return F.when(value.isNotNull(), F.struct(value.getField("dimensions").alias("dimensions"), pairs.alias("vector")))


def line(destination: str, key: Column, value: Column, headers: Column) -> Column:
    """The whole line."""
    start = f'{{"destination":{json.dumps(destination)},"key":'
    return F.concat(F.lit(start), key, F.lit(',"value":'), value, F.lit(',"headers":'), headers, F.lit("}"))


def _headers(settings: EventsSettings) -> Column:
    """A key change's header first, then those that say which connector it was."""
    context = _context(settings)
    mine = F.coalesce(F.to_json("headers"), F.lit("{}"))
    if not context:
        return mine
    rest = json.dumps(context, ensure_ascii=False, separators=(",", ":"))
    return F.when(F.col("headers").isNull(), F.lit(rest)).otherwise(
        F.concat(F.substr(mine, F.lit(1), F.length(mine) - 1), F.lit(","), F.lit(rest[1:]))
    )


def _context(settings: EventsSettings) -> dict[str, str]:
    if not settings.context_headers:
        return {}
    headers = {"connectorLogicalName": settings.topic_prefix, "taskId": "0", "connectorName": "postgresql"}
    if settings.run_id is not None:
        headers["runId"] = settings.run_id
    return {f"__debezium.context.{name}": value for name, value in headers.items()}
