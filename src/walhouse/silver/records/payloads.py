"""Keys and values of events as the JSON converter prints them, by relation version.

Invariant: a row is printed with the columns that its own relation version had; every field is printed.
Source: Kafka Connect's JSON converter: bytes as base64, NaN and infinities as strings, a NULL as the field's default.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from walhouse.names import quote
from walhouse.silver.adjusted_names import NameMode, field_name, require_distinct_fields
from walhouse.silver.keys import key_columns
from walhouse.silver.records.connect_schema import (
    Schema,
    key_schema,
    message_key_schema,
    message_value_schema,
    schema_text,
    value_schema,
)
from walhouse.silver.records.topics import table_topic
from walhouse.silver.texts import of_versions
from walhouse.silver.types.registry import silver_type
from walhouse.silver.types.vectors import PRINTED_SPARSE, SPARSE, as_printed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import Column

    from walhouse.pgoutput.relation import RelationDescription
    from walhouse.silver.settings import EventsSettings

    FieldsOf = Callable[[RelationDescription], Mapping[str, StructField]]

_UNKNOWN: Final = "\0"
HOLE: Final = json.dumps(_UNKNOWN)
"""Stands in a value where the event's place in its transaction belongs; no text of PostgreSQL's has this character."""

NULL: Final = "null"
_TIMES: Final = ("ts_ms", "ts_us", "ts_ns")


def table_key(relations: Sequence[RelationDescription], fields: FieldsOf, settings: EventsSettings) -> Column:
    """The key of a table's event; ``fields``: the field of each of a version's columns in silver's images."""
    return F.coalesce(_by_version(relations, lambda version: _key(version, fields(version), settings)), F.lit(NULL))


def table_value(relations: Sequence[RelationDescription], fields: FieldsOf, settings: EventsSettings) -> Column:
    """The value of a table's event."""
    return _by_version(relations, lambda version: _value(version, fields(version), settings))


def key_change(relations: Sequence[RelationDescription], fields: FieldsOf, settings: EventsSettings) -> Column:
    """The header of a key change, NULL if it is none. Silver's has the columns' own names, and NULL where it is."""
    if settings.field_names is NameMode.NONE and not any(_key_defaults(each, settings) for each in relations):
        return F.col("headers")
    key = F.map_values("headers")[0]
    printed = _by_version(relations, lambda version: _printed_key(key, version, fields(version), settings))
    return F.when(F.col("headers").isNotNull(), F.create_map(F.map_keys("headers")[0], printed))


def message_key(settings: EventsSettings) -> Column:
    """The key of a logical message."""
    key = json_of(F.struct(F.col("message.prefix").alias("prefix")))
    return with_schema(key, message_key_schema()) if settings.schemas else key


def message_value(settings: EventsSettings) -> Column:
    """The value of a logical message."""
    value = json_of(F.struct("op", "ts_ms", _source(settings), _place(settings), "message"))
    return with_schema(value, message_value_schema(settings.types.binary)) if settings.schemas else value


def json_of(fields: Column) -> Column:
    """A struct with all of its fields."""
    return F.to_json(fields, {"ignoreNullFields": "false"})


def with_schema(payload: Column, schema: Schema) -> Column:
    """The payload and its schema, as the JSON converter wraps them."""
    return F.concat(F.lit('{"schema":'), schema_text(schema), F.lit(',"payload":'), payload, F.lit("}"))


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
    defaults = _defaults(relation, settings)
    images = [_named(image, names, defaults, fields, settings).alias(image) for image in ("before", "after")]
    value = json_of(F.struct(*images, _source(settings), _place(settings), "op", *_TIMES))
    if not settings.schemas:
        return value
    return with_schema(value, value_schema(relation, settings, table_topic(relation.name, settings)))


def _key(relation: RelationDescription, fields: Mapping[str, StructField], settings: EventsSettings) -> Column:
    names = key_columns(relation)
    if not names:
        return F.lit(NULL)
    require_distinct_fields(relation.name, names, settings.field_names)
    key = json_of(_named("key", names, _defaults(relation, settings), fields, settings))
    if not settings.schemas:
        return key
    return with_schema(key, key_schema(relation, settings, table_topic(relation.name, settings)))


def _printed_key(
    key: Column, relation: RelationDescription, fields: Mapping[str, StructField], settings: EventsSettings
) -> Column:
    """A key's JSON with its fields' names adjusted, and with defaults in place of NULL."""
    names = [name for name in key_columns(relation) if name in fields]
    defaults = _key_defaults(relation, settings)
    if not names or (settings.field_names is NameMode.NONE and not defaults):
        return key
    sparse = {name for name in names if fields[name].dataType == SPARSE}
    kinds = [StructField(name, PRINTED_SPARSE if name in sparse else fields[name].dataType) for name in names]
    parsed = F.from_json(key, StructType(kinds))

    def printed(name: str) -> Column:
        value = parsed.getField(name)
        value = _printed_again(value) if name in sparse else value
        return F.coalesce(value, F.expr(defaults[name])) if name in defaults else value

    return json_of(F.struct(*(printed(name).alias(field_name(name, settings.field_names)) for name in names)))


def _printed_again(sparse: Column) -> Column:
    """A sparse vector as ``as_printed`` gives it, after it was parsed."""

    def pair(texts: Column) -> Column:
        return F.array(texts[0].cast("smallint").cast("variant"), texts[1].cast("double").cast("variant"))

    pairs = F.transform(sparse.getField("vector"), pair)
    return F.when(
        sparse.isNotNull(), F.struct(sparse.getField("dimensions").alias("dimensions"), pairs.alias("vector"))
    )


def _key_defaults(relation: RelationDescription, settings: EventsSettings) -> dict[str, str]:
    """Those of the key's columns that may be NULL."""
    can_be_null = {column.name for column in relation.columns if column.nullable is not False}
    key = can_be_null.intersection(key_columns(relation))
    return {name: default for name, default in _defaults(relation, settings).items() if name in key}


def _named(
    image: str,
    names: Sequence[str],
    defaults: Mapping[str, str],
    fields: Mapping[str, StructField],
    settings: EventsSettings,
) -> Column:
    """The image with the source's own column names, adjusted, in the source's order."""

    def shown(name: str) -> Column:
        field = fields[name]
        value = F.expr(as_printed(f"{image}.{quote(field.name)}", field.dataType))
        return F.coalesce(value, F.expr(defaults[name])) if name in defaults else value

    row = F.struct(*(shown(name).alias(field_name(name, settings.field_names)) for name in names if name in fields))
    return F.when(F.col(image).isNotNull(), row)


def _defaults(relation: RelationDescription, settings: EventsSettings) -> dict[str, str]:
    """What is printed in place of NULL, by column."""
    if settings.keep_nulls:
        return {}
    found = {}
    for column in relation.columns:
        kind = silver_type(column, settings.types)
        default = kind.default_of(column) if kind else None
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


def _place(settings: EventsSettings) -> Column:
    """``transaction``, which is not known yet where it is wanted."""
    return F.lit(_UNKNOWN if settings.transactions else None).alias("transaction")
