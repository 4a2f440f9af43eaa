"""The gold table itself: made from the relation, compared with it, given new columns.

Invariant: a column's type is changed only on purpose. A MERGE never sees a table whose types differ from what it
brings, so neither implicit casts nor automatic schema evolution ever decide anything.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from pyspark.sql.types import BinaryType, BooleanType, StructField, StructType

from walhouse.changes.columns import latest_columns
from walhouse.errors import GoldKeyError, TypeConflictError
from walhouse.gold.columns import COMMIT_LSN, DIGEST_FIELD, OWN_FIELDS, GoldColumn, gold_columns
from walhouse.gold.native import key_columns
from walhouse.lakehouse.session import require_names
from walhouse.lakehouse.tables import MERGE_PROPERTIES, create_table, sql_type, table_exists
from walhouse.names import quote, string_literal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from walhouse.gold.key import GoldKey
    from walhouse.lakehouse.layout import LakeLayout
    from walhouse.names import LakeTable
    from walhouse.pgoutput.relation import RelationDescription

SOURCE_PROPERTY: Final = "walhouse.source.table"
KEY_PROPERTY: Final = "walhouse.key"
"""JSON list of the key's source columns; an empty list for a bag."""

_MAX_CLUSTER_COLUMNS: Final = 4
_COLUMNS_WITH_STATISTICS: Final = 32


def ensure_gold_table(
    spark: SparkSession,
    layout: LakeLayout,
    relations: Sequence[RelationDescription],
    key: GoldKey,
    *,
    anew: bool = False,
    ready: bool = False,
) -> tuple[GoldColumn, ...]:
    """Create the table, or add the columns that it lacks; the gold columns of the relation's columns.

    ``anew``: in the place of one that is there. ``ready``: its key is known to be this one.

    Raises TypeConflictError if a column has another type than its source needs, GoldKeyError if the table has another
    key, ConfigurationError if the session would alter a column's name.
    """
    require_names(spark, latest_columns(relations))
    table = layout.gold(relations[-1].name)
    if anew or not table_exists(spark, layout, table):
        columns = gold_columns(relations)
        _create(spark, layout, table, relations[-1], columns=columns, key=key, replace=anew)
        return columns
    schema = spark.table(str(table)).schema
    if not ready:
        # asking for a property of a clustered table makes Delta go through the whole of its state
        _require_key(spark, table, relations[-1], key)
    columns = gold_columns(relations, schema.names)
    _require_types(table, relations[-1], schema, columns)
    _add_columns(spark, table, schema, columns)
    return columns


def _create(
    spark: SparkSession,
    layout: LakeLayout,
    table: LakeTable,
    relation: RelationDescription,
    *,
    columns: Sequence[GoldColumn],
    key: GoldKey,
    replace: bool,
) -> None:
    cluster = _cluster_columns(columns, key)
    properties = {
        **MERGE_PROPERTIES,
        # else a timestamp column could not be added later
        "delta.feature.timestampNtz": "supported",
        SOURCE_PROPERTY: str(relation.name),
        KEY_PROPERTY: json.dumps(list(key), ensure_ascii=False),
    }
    if any(column.name in cluster for column in columns[_COLUMNS_WITH_STATISTICS:]):
        # clustering needs statistics, which only the first columns have unless told otherwise
        properties["delta.dataSkippingStatsColumns"] = ",".join(map(quote, [*cluster, COMMIT_LSN]))
    create_table(
        spark,
        layout,
        table,
        StructType([*map(_field, columns), *OWN_FIELDS, *([] if key else [DIGEST_FIELD])]),
        comment=relation.comment or f"The current rows of {relation.name}",
        properties=properties,
        cluster_by=cluster,
        replace=replace,
    )


def _cluster_columns(columns: Sequence[GoldColumn], key: GoldKey) -> list[str]:
    """The first columns of the key that Delta can cluster by."""
    allowed: list[str] = []
    for column in key_columns(columns, key):
        if isinstance(column.type.spark_type, BinaryType | BooleanType):
            continue
        allowed.append(column.name)
    return allowed[:_MAX_CLUSTER_COLUMNS]


def _field(column: GoldColumn) -> StructField:
    source = column.source
    comment = source.comment or source.type_name or ""
    if column.name != source.name:
        comment = f"Column {source.name} of the source. {comment}".rstrip()
    return StructField(column.name, column.type.spark_type, metadata={"comment": comment} if comment else {})


def _require_key(spark: SparkSession, table: LakeTable, relation: RelationDescription, key: GoldKey) -> None:
    row = spark.sql(f"SHOW TBLPROPERTIES {table} ({string_literal(KEY_PROPERTY)})").select("value").first()
    found = row[0] if row is not None else ""
    # the order tells no rows apart, and is not known of a table that was dropped before its last changes were read
    if _columns_in(found) != sorted(key):
        raise GoldKeyError(
            f"The gold table {table} identifies its rows by other columns than {relation.name} now does.",
            table=str(relation.name),
            expected=list(key),
            found=found,
        )


def _columns_in(text: str) -> list[str] | None:
    """The columns of a key as the table's property has it, sorted; None if it is none, as where the table lacks it."""
    try:
        return sorted(json.loads(text))
    except ValueError:
        return None


def _require_types(
    table: LakeTable, relation: RelationDescription, schema: StructType, columns: Sequence[GoldColumn]
) -> None:
    found = {field.name: field.dataType for field in schema.fields}
    for column in columns:
        data_type = found.get(column.name)
        if data_type is not None and data_type != column.type.spark_type:
            raise TypeConflictError(
                f"The column {column.name} of the gold table {table} is {data_type.simpleString()},"
                f" but {relation.name} now needs {column.type.spark_type.simpleString()}.",
                safe="The gold table was not changed; bronze holds every change.",
                todo="Make it anew from bronze: walhouse rebuild gold TABLE.",
                table=str(relation.name),
                column=column.source.name,
                expected=column.type.spark_type.simpleString(),
                found=data_type.simpleString(),
            )


def _add_columns(spark: SparkSession, table: LakeTable, schema: StructType, columns: Sequence[GoldColumn]) -> None:
    """New columns stand where the source has them: after the column before them, before walhouse's own."""
    previous: str | None = None
    added = []
    for column in columns:
        if column.name not in schema.names:
            field = _field(column)
            comment = (field.metadata or {}).get("comment")
            added.append(
                f"{quote(field.name)} {sql_type(field.dataType)}"
                + (f" COMMENT {string_literal(comment)}" if comment else "")
                + (f" AFTER {quote(previous)}" if previous else " FIRST")
            )
        previous = column.name
    for definition in added:
        # one by one, since a later one may stand after an earlier one
        spark.sql(f"ALTER TABLE {table} ADD COLUMN {definition}")
