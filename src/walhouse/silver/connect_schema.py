"""Kafka Connect's schemas of events, as its JSON converter prints them (``schemas.enable``).

Invariant: a schema is made of the relation version, the modes and the names alone; no value has a say. Defaults of
columns are not in it yet.
Source: Debezium documentation, PostgreSQL connector, "Data change events"; Kafka Connect, JSON converter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.types import MapType

from walhouse.silver.keys import key_columns
from walhouse.silver.modes import BinaryMode
from walhouse.silver.types import silver_type

if TYPE_CHECKING:
    from collections.abc import Iterable

    from walhouse.pgoutput.relation import ColumnDescription, RelationDescription
    from walhouse.silver.modes import TypeModes
    from walhouse.silver.settings import ColumnChoice
    from walhouse.silver.silver_type import SilverType

Schema = dict[str, Any]

SOURCE_NAME: Final = "io.debezium.connector.postgresql.Source"
_SNAPSHOT_MARKERS: Final = "true,first,first_in_data_collection,last_in_data_collection,last,false,incremental"


def key_schema(relation: RelationDescription, modes: TypeModes, prefix: str) -> Schema:
    """Of a table's keys."""
    columns = {column.name: column for column in relation.columns}
    fields = _columns((columns[name] for name in key_columns(relation)), modes)
    return _struct(fields, name=f"{prefix}.Key")


def value_schema(relation: RelationDescription, modes: TypeModes, prefix: str, shown: ColumnChoice) -> Schema:
    """Of a table's events."""
    columns = [column for column in relation.columns if shown.shows(relation.name, column.name)]
    row = _struct(_columns(columns, modes), optional=True, name=f"{prefix}.Value")
    times = [_field(_plain("int64", optional=True), name) for name in ("ts_ms", "ts_us", "ts_ns")]
    fields = [
        _field(row, "before"),
        _field(row, "after"),
        _field(source_schema(), "source"),
        _field(block_schema(), "transaction"),
        _field(_plain("string"), "op"),
        *times,
    ]
    return _struct(fields, name=f"{prefix}.Envelope", version=2)


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


def _columns(columns: Iterable[ColumnDescription], modes: TypeModes) -> list[Schema]:
    typed = ((column, silver_type(column, modes)) for column in columns)
    return [
        _field(type_schema(kind, optional=column.nullable is not False), column.name)
        for column, kind in typed
        if kind is not None
    ]


def type_schema(kind: SilverType, *, optional: bool) -> Schema:
    """Of one column's type."""
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
    named = {"name": kind.semantic, "version": kind.version, "doc": doc, "parameters": dict(kind.parameters) or None}
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
