"""Silver as the records that Debezium would have sent, one JSON object a line.

Invariant: one order over all tables, that of the commits: (commit_lsn, seq), a key change's delete, its tombstone, then
its create. A row is printed with the columns that its own relation version had.
Source: Debezium documentation, PostgreSQL connector, "Data change events"; Kafka Connect's JSON converter without
schemas: bytes as base64, NaN and infinities as strings, every field printed. Header values: the text of a string, and
the JSON of a key.
"""

from __future__ import annotations

import json
from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812  (the name everybody knows it by)
from pyspark.sql.types import StructField, StructType

from walhouse.lakehouse.tables import table_exists
from walhouse.pgoutput.row import Op
from walhouse.silver.adjusted_names import NameMode, field_name, require_distinct_fields
from walhouse.silver.columns import fields_of
from walhouse.silver.connect_schema import (
    Schema,
    key_schema,
    message_key_schema,
    message_value_schema,
    value_schema,
)
from walhouse.silver.keys import key_columns, with_chosen_keys
from walhouse.silver.table import struct_of
from walhouse.silver.texts import of_versions
from walhouse.silver.topics import message_topic, require_distinct_topics, table_topic
from walhouse.silver.vectors import SPARSE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from walhouse.lakehouse.layout import LakeLayout
    from walhouse.lsn import Lsn
    from walhouse.names import TableName
    from walhouse.pgoutput.relation import RelationDescription
    from walhouse.silver.settings import EventsSettings

_ENVELOPE: Final = ("source", "transaction", "op", "ts_ms", "ts_us", "ts_ns")
_NULL: Final = "null"

_WITH_NULLS: Final = {"ignoreNullFields": "false"}
"""The JSON converter prints every field."""


def events(
    spark: SparkSession,
    layout: LakeLayout,
    settings: EventsSettings,
    tables: Mapping[TableName, Sequence[RelationDescription]],
    *,
    from_lsn: Lsn | None = None,
    to_lsn: Lsn | None = None,
    messages: bool = True,
) -> Iterator[str]:
    """The lines ``{"destination", "key", "value", "headers"}`` of commits that start in ``[from_lsn, to_lsn)``.

    ``tables``: all relation versions of each table, the current one last. A table that silver does not have yet has no
    events. ``messages``: logical messages, too. The lines are made by Spark and come a partition at a time.
    """
    lines = event_lines(spark, layout, settings, tables, from_lsn=from_lsn, to_lsn=to_lsn, messages=messages)
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
    from_lsn: Lsn | None,
    to_lsn: Lsn | None,
    messages: bool,
) -> DataFrame | None:
    """The same as a frame of one column, ``line``, in order; None if there is no table to read."""
    frames = {
        table: _between(spark.table(str(layout.silver(table))), from_lsn, to_lsn)
        for table in tables
        if table_exists(spark, layout.silver(table))
    }
    told = messages and table_exists(spark, layout.silver_messages)
    lone = _between(spark.table(str(layout.silver_messages)), from_lsn, to_lsn) if told else None
    return lines_of(frames, lone, settings, tables)


def lines_of(
    frames: Mapping[TableName, DataFrame],
    messages: DataFrame | None,
    settings: EventsSettings,
    tables: Mapping[TableName, Sequence[RelationDescription]],
) -> DataFrame | None:
    """The lines of these rows of silver, in order, in a column ``line``; None if there are no frames."""
    require_distinct_topics(frames, settings)
    parts = [
        _table_lines(rows, table, with_chosen_keys(tables[table], settings.columns), settings)
        for table, rows in frames.items()
    ]
    if messages is not None:
        parts.append(_message_lines(messages, settings))
    if not parts:
        return None
    return reduce(lambda a, b: a.unionAll(b), parts).orderBy("commit_lsn", "seq", "place").select("line")


def _between(rows: DataFrame, from_lsn: Lsn | None, to_lsn: Lsn | None) -> DataFrame:
    if from_lsn is not None:
        rows = rows.where(F.col("commit_lsn") >= int(from_lsn))
    return rows if to_lsn is None else rows.where(F.col("commit_lsn") < int(to_lsn))


def _table_lines(
    rows: DataFrame, table: TableName, relations: Sequence[RelationDescription], settings: EventsSettings
) -> DataFrame:
    """Columns commit_lsn, seq, place (of the line among those of one change) and line."""
    after = struct_of(rows.schema, "after")
    fields = {column: after[field] for column, field in fields_of(after).items()}
    shown = rows.where(~F.col("op").isin(sorted(settings.skipped_operations)))
    is_delete = F.col("op") == Op.DELETE.value
    key = F.coalesce(_by_version(relations, lambda version: _key(version, fields, settings)), F.lit(_NULL))
    value = _by_version(relations, lambda version: _value(version, fields, settings))
    headers = _headers(_key_change(relations, fields, settings.field_names), settings)
    line = _line(table_topic(table, settings), key, value, headers)
    tombstone = _line(table_topic(table, settings), key, F.lit(_NULL), headers)
    lines = (
        F.when(is_delete, F.array(line, tombstone)).otherwise(F.array(line)) if settings.tombstones else F.array(line)
    )
    first = F.when(is_delete, F.lit(0)).otherwise(F.lit(2))
    return shown.select("commit_lsn", "seq", first.alias("first"), F.posexplode(lines).alias("nth", "line")).select(
        "commit_lsn", "seq", (F.col("first") + F.col("nth")).alias("place"), "line"
    )


def _message_lines(rows: DataFrame, settings: EventsSettings) -> DataFrame:
    key = F.to_json(F.struct(F.col("message.prefix").alias("prefix")), _WITH_NULLS)
    value = F.to_json(F.struct("op", "ts_ms", "source", "transaction", "message"), _WITH_NULLS)
    if settings.schemas:
        key = _with_schema(key, message_key_schema())
        value = _with_schema(value, message_value_schema(settings.types.binary))
    line = _line(message_topic(settings), key, value, F.lit("{}"))
    return rows.select("commit_lsn", "seq", F.lit(0).alias("place"), line.alias("line"))


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
    require_distinct_fields(relation.name, (name for name in names if name in fields), settings.field_names)
    images = [_named(image, names, fields, settings.field_names).alias(image) for image in ("before", "after")]
    value = F.to_json(F.struct(*images, *_ENVELOPE), _WITH_NULLS)
    if not settings.schemas:
        return value
    prefix = table_topic(relation.name, settings)
    return _with_schema(value, value_schema(relation, settings, prefix))


def _key(relation: RelationDescription, fields: Mapping[str, StructField], settings: EventsSettings) -> Column:
    names = key_columns(relation)
    if not names:
        return F.lit(_NULL)
    require_distinct_fields(relation.name, names, settings.field_names)
    key = F.to_json(_named("key", names, fields, settings.field_names), _WITH_NULLS)
    if not settings.schemas:
        return key
    return _with_schema(key, key_schema(relation, settings, table_topic(relation.name, settings)))


def _key_change(relations: Sequence[RelationDescription], fields: Mapping[str, StructField], mode: NameMode) -> Column:
    """The header of a key change, NULL if it is none. Silver's has the columns' own names."""
    if mode is NameMode.NONE:
        return F.col("headers")
    renamed = _by_version(relations, lambda version: _renamed(F.map_values("headers")[0], version, fields, mode))
    return F.when(F.col("headers").isNotNull(), F.create_map(F.map_keys("headers")[0], renamed))


def _renamed(key: Column, relation: RelationDescription, fields: Mapping[str, StructField], mode: NameMode) -> Column:
    """A key's JSON with its fields' names adjusted."""
    names = [name for name in key_columns(relation) if name in fields]
    if not names:
        return key
    parsed = F.from_json(key, StructType([StructField(name, fields[name].dataType) for name in names]))
    return F.to_json(F.struct(*(parsed.getField(name).alias(field_name(name, mode)) for name in names)), _WITH_NULLS)


def _with_schema(payload: Column, schema: Schema) -> Column:
    text = json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
    return F.concat(F.lit(f'{{"schema":{text},"payload":'), payload, F.lit("}"))


def _named(image: str, names: Sequence[str], fields: Mapping[str, StructField], mode: NameMode) -> Column:
    """The image with the source's own column names, adjusted, in the source's order."""
    shown = [name for name in names if name in fields]
    values = ((name, _printable(F.col(image).getField(fields[name].name), fields[name])) for name in shown)
    row = F.struct(*(value.alias(field_name(name, mode)) for name, value in values))
    return F.when(F.col(image).isNotNull(), row)


def _printable(value: Column, field: StructField) -> Column:
    """A map whose keys are no texts is printed as pairs, which no type of Spark's but a variant holds."""
    if field.dataType != SPARSE:
        return value
    pairs = F.transform(
        F.map_entries(value.getField("vector")),
        lambda entry: F.array(entry.getField("key").cast("variant"), entry.getField("value").cast("variant")),
    )
    return F.when(value.isNotNull(), F.struct(value.getField("dimensions").alias("dimensions"), pairs.alias("vector")))


def _line(destination: str, key: Column, value: Column, headers: Column) -> Column:
    start = f'{{"destination":{json.dumps(destination)},"key":'
    return F.concat(F.lit(start), key, F.lit(',"value":'), value, F.lit(',"headers":'), headers, F.lit("}"))


def _headers(key_change: Column, settings: EventsSettings) -> Column:
    """A key change's header first, then those that say which connector it was."""
    context = _context(settings)
    mine = F.coalesce(F.to_json(F.transform_values(key_change, lambda _, key: _with_escaped_pairs(key))), F.lit("{}"))
    if not context:
        return mine
    rest = json.dumps(context, ensure_ascii=False, separators=(",", ":"))
    return F.when(key_change.isNull(), F.lit(rest)).otherwise(
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
