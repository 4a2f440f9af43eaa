"""The silver table of a source table: its columns, its creation, and new columns for it.

Invariant: a field is only ever added, never changed. A column that becomes another type on the source gets a further
field; the same column under other modes is an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from pyspark.sql.types import ArrayType, DataType, LongType, MapType, StringType, StructField, StructType

from walhouse.changes.columns import latest_columns
from walhouse.errors import TypeConflictError
from walhouse.lakehouse.session import require_names
from walhouse.lakehouse.tables import MERGE_PROPERTIES, create_table, sql_type, table_exists
from walhouse.names import quote, string_literal
from walhouse.silver.columns import Fields, SilverColumn, alike, described, fields_of, silver_columns
from walhouse.silver.keys import key_names
from walhouse.silver.modes import DEFAULTS, TypeModes
from walhouse.silver.source import SOURCE
from walhouse.silver.types.registry import source_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from walhouse.lakehouse.layout import LakeLayout
    from walhouse.names import LakeTable, TableName
    from walhouse.pgoutput.relation import RelationDescription

TRANSACTION: Final = (
    StructType().add("id", StringType()).add("total_order", LongType()).add("data_collection_order", LongType())
)
HEADERS: Final = MapType(StringType(), StringType())

PROPERTIES: Final = {
    **MERGE_PROPERTIES,
    # only these are ever compared; statistics of every field of the images would cost more than the events
    "delta.dataSkippingStatsColumns": "commit_lsn,seq,op,xid,ts_ms",
}

NO_FIELDS: Final = StructType([StructField("_", StringType(), metadata={"comment": "Always NULL"})])
"""The struct of a table without columns, or without a key."""

_IMAGES: Final = ("key", "before", "after")


def silver_schema(
    relations: Sequence[RelationDescription], modes: TypeModes = DEFAULTS, fields: Fields | None = None
) -> StructType:
    """The columns of the silver table that these relation versions need."""
    names = dict(fields or {})
    row_fields: dict[str, StructField] = {}
    key_fields: dict[str, list[str]] = {}
    for versions in alike(relations, modes):
        keys = set(key_names(versions))
        for column in silver_columns(versions, modes, names):
            names[column.name, column.form] = column.field
            row_fields[column.field] = StructField(
                column.field, column.type.spark, metadata={"comment": column.comment}
            )
            if column.name in keys:
                key_fields.setdefault(column.name, []).append(column.field)
    image = list(row_fields.values())
    key = [row_fields[field] for name in key_names(relations) for field in dict.fromkeys(key_fields.get(name, []))]
    row = StructType(image) if image else NO_FIELDS
    return StructType(
        [
            _column("key", StructType(key) if key else NO_FIELDS, "The event's key; NULL if the table has none"),
            _column("before", row, "The row before the change, as far as the replica identity tells"),
            _column("after", row, "The row after the change; NULL for a delete"),
            _column("source", SOURCE, "Where the change comes from"),
            _column("op", StringType(), "c create, u update, d delete, r read by a snapshot, t truncate"),
            *envelope_tail(),
            _column("relation_version", LongType(), "Which relation row of bronze describes the images"),
            _column(
                "unavailable",
                ArrayType(StringType()),
                "Columns of after that hold a placeholder or NULL because their TOASTed value was not sent",
            ),
            _column("before_kind", StringType(), "K: before has identity columns only; O: the whole old row"),
            _column(
                "unconverted",
                MapType(StringType(), StringType()),
                "Texts that the field's type cannot hold, by before.column or after.column; the field is NULL",
            ),
        ]
    )


def envelope_tail() -> list[StructField]:
    """The columns that data changes and logical messages share, after ``op``."""
    return [
        _column("ts_ms", LongType(), "When the change was captured, milliseconds since 1970"),
        _column("ts_us", LongType(), "When the change was captured, microseconds since 1970"),
        _column("ts_ns", LongType(), "When the change was captured, nanoseconds since 1970"),
        _column(
            "transaction",
            TRANSACTION,
            "Always NULL here; `walhouse events` counts the places",
        ),
        _column("headers", HEADERS, "Of both halves of a key change: the other key, as JSON"),
        _column("commit_lsn", LongType(), "LSN at which the commit record starts; with seq the order of events"),
        _column("seq", LongType(), "Place within the transaction"),
        _column("xid", LongType(), "Transaction, 64 bits"),
    ]


def ensure_table(
    spark: SparkSession,
    layout: LakeLayout,
    table: TableName,
    relations: Sequence[RelationDescription],
    modes: TypeModes,
    *,
    anew: bool = False,
) -> StructType:
    """Create the silver table, or add the fields it lacks; its schema. ``anew``: in the place of one that is there.

    Raises TypeConflictError, ConfigurationError.
    """
    require_names(spark, latest_columns(relations))
    target = layout.silver(table)
    if anew or not table_exists(spark, layout, target):
        properties = {**PROPERTIES, "walhouse.source.schema": table.schema, "walhouse.source.table": table.table}
        comment = f"Change events of {table}, as Debezium has them"
        schema = silver_schema(relations, modes)
        create_table(spark, layout, target, schema, comment=comment, properties=properties, replace=anew)
        return spark.table(str(target)).schema
    present = spark.table(str(target)).schema
    after = struct_of(present, "after")
    _require_same_modes(table, target, after, relations, modes)
    wanted = silver_schema(relations, modes, fields_of(after))
    missing = [
        (image, field)
        for image in _IMAGES
        for field in struct_of(wanted, image).fields
        if field.name not in struct_of(present, image).fieldNames()
    ]
    if not missing:
        return present
    added = ", ".join(
        f"{quote(image)}.{quote(field.name)} {sql_type(field.dataType)}"
        f" COMMENT {string_literal(field.metadata['comment'])}"
        if field.metadata
        else f"{quote(image)}.{quote(field.name)} {sql_type(field.dataType)}"
        for image, field in missing
    )
    spark.sql(f"ALTER TABLE {target} ADD COLUMNS ({added})")
    return spark.table(str(target)).schema


def struct_of(schema: StructType, column: str) -> StructType:
    """The fields of one of the table's struct columns."""
    return cast("StructType", schema[column].dataType)


def _require_same_modes(
    table: TableName, target: LakeTable, after: StructType, relations: Sequence[RelationDescription], modes: TypeModes
) -> None:
    """A field whose column has the type that it had must still be the column's field."""
    fields = fields_of(after)
    for versions in alike(relations, modes):
        for column in silver_columns(versions, modes, fields):
            for field in after.fields:
                facts = described(field)
                same = (facts.get("column"), facts.get("source")) == (column.name, source_type(column.column))
                if same and (column.name, column.form) not in fields:
                    raise _conflict(table, target, field, column)


def _conflict(table: TableName, target: LakeTable, field: StructField, column: SilverColumn) -> TypeConflictError:
    found, expected = field.dataType.simpleString(), column.type.spark.simpleString()
    was, is_now = described(field).get("name", "no semantic type"), column.type.semantic or "no semantic type"
    return TypeConflictError(
        f"The field after.{field.name} of {target} is {found} ({was}), but today's modes make {expected} ({is_now})"
        f" of {source_type(column.column)} in {table}.",
        todo="Set the handling modes back, or make the table anew: walhouse rebuild silver TABLE.",
        table=str(table),
        column=f"after.{field.name}",
        expected=expected,
        found=found,
    )


def _column(name: str, kind: DataType, comment: str) -> StructField:
    return StructField(name, kind, metadata={"comment": comment})
