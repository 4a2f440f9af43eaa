"""Kafka Connect's schemas of events, as its JSON converter prints them (``schemas.enable``).

Invariant: a schema is made of the relation version, the modes and the names alone; no value has a say. The default
of a column is an expression, which Spark prints as it prints the values.
Source: Debezium documentation, PostgreSQL connector, "Data change events"; Kafka Connect, JSON converter.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F
from pyspark.sql.types import MapType

from walhouse.silver.adjusted_names import field_name, schema_name
from walhouse.silver.keys import key_columns
from walhouse.silver.modes import BinaryMode
from walhouse.silver.records.source_types import note_parameters
from walhouse.silver.settings import NO_NOTES
from walhouse.silver.types.registry import silver_type

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import Column

    from walhouse.names import TableName
    from walhouse.pgoutput.column import ColumnDescription
    from walhouse.pgoutput.relation import RelationDescription
    from walhouse.silver.settings import EventsSettings
    from walhouse.silver.types.silver_type import SilverType

Schema = dict[str, Any]


@dataclass(frozen=True, slots=True)
class SqlValue:
    """A value within a schema that Spark has to print."""

    expression: str


def schema_text(schema: Schema) -> Column:
    """The schema as JSON."""
    expressions: list[str] = []

    def mark(value: SqlValue) -> str:
        expressions.append(value.expression)
        return _MARK

    text = json.dumps(schema, ensure_ascii=False, separators=(",", ":"), default=mark)
    first, *rest = text.split(json.dumps(_MARK))
    pieces = [F.lit(first)]
    for expression, following in zip(expressions, rest, strict=True):
        pieces += [_printed(expression), F.lit(following)]
    return F.concat(*pieces)


def _printed(expression: str) -> Column:
    """The value as it stands in printed rows: what is left of an object of it alone."""
    whole = F.to_json(F.struct(F.expr(expression).alias("v")))
    return F.substr(whole, F.lit(len('{"v":') + 1), F.length(whole) - len('{"v":}'))


_MARK: Final = "\0"
"""Stands for an expression; no name or label of PostgreSQL's can have this character."""

SOURCE_NAME: Final = "io.debezium.connector.postgresql.Source"
_SNAPSHOT_MARKERS: Final = "true,first,first_in_data_collection,last_in_data_collection,last,false,incremental"


def key_schema(relation: RelationDescription, settings: EventsSettings, prefix: str) -> Schema:
    """Of a table's keys, of which no notes are taken."""
    columns = {column.name: column for column in relation.columns}
    chosen = (columns[name] for name in key_columns(relation))
    fields = _columns(relation.name, chosen, replace(settings, notes=NO_NOTES))
    return _struct(fields, name=schema_name(f"{prefix}.Key", settings.schema_names))


def value_schema(relation: RelationDescription, settings: EventsSettings, prefix: str) -> Schema:
    """Of a table's events."""
    columns = [column for column in relation.columns if settings.columns.shows(relation.name, column.name)]
    fields = _columns(relation.name, columns, settings)
    row = _struct(fields, optional=True, name=schema_name(f"{prefix}.Value", settings.schema_names))
    times = [_field(_plain("int64", optional=True), name) for name in ("ts_ms", "ts_us", "ts_ns")]
    fields = [
        _field(row, "before"),
        _field(row, "after"),
        _field(source_schema(), "source"),
        _field(block_schema(), "transaction"),
        _field(_plain("string"), "op"),
        *times,
    ]
    return _struct(fields, name=schema_name(f"{prefix}.Envelope", settings.schema_names), version=2)


def message_key_schema() -> Schema:
    """Of a logical message's key."""
    prefix = _field(_plain("string", optional=True), "prefix")
    return _struct([prefix], name="io.debezium.connector.postgresql.MessageKey", version=1)


def message_value_schema(mode: BinaryMode) -> Schema:
    """Of a logical message."""
    content = "bytes" if mode is BinaryMode.BYTES else "string"
    message = _struct(
        [
            _field(_plain("string", optional=True), "prefix"),
            _field(_plain(content, optional=True), "content"),
        ],
        name="io.debezium.connector.postgresql.Message",
        version=1,
    )
    fields = [
        _field(_plain("string"), "op"),
        _field(_plain("int64", optional=True), "ts_ms"),
        _field(source_schema(), "source"),
        _field(block_schema(), "transaction"),
        _field(message, "message"),
    ]
    return _struct(fields, name="io.debezium.connector.postgresql.MessageValue", version=1)


def transaction_key_schema() -> Schema:
    """Of the key of a transaction's begin and end."""
    return _struct(
        [_field(_plain("string"), "id")], name="io.debezium.connector.common.TransactionMetadataKey", version=1
    )


def transaction_value_schema() -> Schema:
    """Of a transaction's begin and end."""
    collection = _struct(
        [_field(_plain("string"), "data_collection"), _field(_plain("int64"), "event_count")],
        optional=True,
        name="event.collection",
        version=1,
    )
    fields = [
        _field(_plain("string"), "status"),
        _field(_plain("string"), "id"),
        _field(_plain("int64", optional=True), "event_count"),
        _field({"type": "array", "items": collection, "optional": True}, "data_collections"),
        _field(_plain("int64"), "ts_ms"),
    ]
    return _struct(fields, name="io.debezium.connector.common.TransactionMetadataValue", version=1)


def heartbeat_key_schema() -> Schema:
    """Of a heartbeat's key."""
    return _struct(
        [_field(_plain("string"), "serverName")], name="io.debezium.connector.common.ServerNameKey", version=1
    )


def heartbeat_value_schema() -> Schema:
    """Of a heartbeat."""
    return _struct([_field(_plain("int64"), "ts_ms")], name="io.debezium.connector.common.Heartbeat", version=1)


def source_schema() -> Schema:
    """Of ``source``."""
    required = {"version", "connector", "name", "ts_ms", "db", "schema", "table"}
    numbers = {"ts_ms", "ts_us", "ts_ns", "txId", "lsn", "xmin", "origin_lsn"}
    names = ("version", "connector", "name", "ts_ms", "snapshot", "db", "sequence", "ts_us", "ts_ns", "schema", "table")
    fields = []
    for name in (*names, "txId", "lsn", "xmin", "origin", "origin_lsn"):
        schema = _plain("int64" if name in numbers else "string", optional=name not in required)
        if name == "snapshot":
            enum = {"name": "io.debezium.data.Enum", "version": 1, "parameters": {"allowed": _SNAPSHOT_MARKERS}}
            schema |= {**enum, "default": "false"}
        fields.append(_field(schema, name))
    return _struct(fields, name=SOURCE_NAME, version=1)


def block_schema() -> Schema:
    """Of ``transaction``."""
    numbers = [_field(_plain("int64"), name) for name in ("total_order", "data_collection_order")]
    return _struct([_field(_plain("string"), "id"), *numbers], optional=True, name="event.block", version=1)


def _columns(table: TableName, columns: Iterable[ColumnDescription], settings: EventsSettings) -> list[Schema]:
    fields = []
    for column in columns:
        kind = silver_type(column, settings.types)
        if kind is None:
            continue
        notes = note_parameters(table, column, settings.notes)
        schema = _with_default(type_schema(kind, optional=column.nullable is not False, notes=notes), column, kind)
        fields.append(_field(schema, field_name(column.name, settings.field_names)))
    return fields


def _with_default(schema: Schema, column: ColumnDescription, kind: SilverType) -> Schema:
    default = kind.default_of(column)
    return schema if default is None else {**schema, "default": SqlValue(default)}


def type_schema(kind: SilverType, *, optional: bool, notes: Mapping[str, str] | None = None) -> Schema:
    """Of one column's type; ``notes``: further parameters."""
    schema: Schema = {"type": kind.literal}
    fields, doc = _STRUCTS.get(kind.semantic or "", ([], None))
    if kind.literal == "struct":
        schema["fields"] = fields
    elif kind.element is not None:
        schema["items"] = type_schema(kind.element, optional=kind.optional_elements)
    elif kind.literal == "array":
        schema["items"] = _plain("float" if kind.semantic == "io.debezium.data.FloatVector" else "double")
    elif isinstance(kind.spark, MapType):
        schema |= {"keys": _plain("string"), "values": _plain("string", optional=True)}
    schema["optional"] = optional
    parameters = {**kind.parameters, **(notes or {})}
    named = {"name": kind.semantic, "version": kind.version, "doc": doc, "parameters": parameters or None}
    return schema | {name: fact for name, fact in named.items() if fact is not None}


def _plain(kind: str, *, optional: bool = False) -> Schema:
    return {"type": kind, "optional": optional}


def _field(schema: Schema, name: str) -> Schema:
    return {**schema, "field": name}


def _struct(fields: list[Schema], *, optional: bool = False, name: str, version: int | None = None) -> Schema:
    numbered = {} if version is None else {"version": version}
    return {"type": "struct", "fields": fields, "optional": optional, "name": name, **numbered}


_XY: Final = [_field(_plain("double"), name) for name in ("x", "y")]
_SRID: Final = _field(_plain("int32", optional=True), "srid")

_STRUCTS: Final[dict[str, tuple[list[Schema], str]]] = {
    "io.debezium.data.VariableScaleDecimal": (
        [_field(_plain("int32"), "scale"), _field(_plain("bytes"), "value")],
        "Variable scaled decimal",
    ),
    "io.debezium.data.geometry.Point": (
        [*_XY, _field(_plain("bytes", optional=True), "wkb"), _SRID],
        "Geometry (POINT)",
    ),
    "io.debezium.data.geometry.Geometry": ([_field(_plain("bytes"), "wkb"), _SRID], "Geometry"),
    "io.debezium.data.geometry.Geography": ([_field(_plain("bytes"), "wkb"), _SRID], "Geography"),
    "io.debezium.data.SparseDoubleVector": (
        [
            _field(_plain("int16"), "dimensions"),
            _field({"type": "map", "keys": _plain("int16"), "values": _plain("double"), "optional": False}, "vector"),
        ],
        "Sparse double vector",
    ),
}
"""Fields and ``doc`` of the types that are structs."""
