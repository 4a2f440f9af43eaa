"""A witness of its own: gold compared with PostgreSQL by Python's values, without any of walhouse's own comparing.

psycopg's loaders on one side, Spark's rows on the other; both give Python objects, which are compared as objects.
Columns that gold keeps as text are compared with PostgreSQL's own output function.
"""

from __future__ import annotations

import struct
from collections import Counter
from typing import TYPE_CHECKING, Any

from psycopg import sql
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.fixtures_server import Database
    from walhouse.lakehouse.layout import LakeLayout
    from walhouse.names import TableName

NATIVE = {"boolean", "smallint", "integer", "bigint", "bytea", "date", "timestamp without time zone", "text"}


def source_rows(database: Database, table: TableName) -> Counter[tuple[Any, ...]]:
    """The table's rows as PostgreSQL has them now."""
    with database.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'; SET extra_float_digits = 3; SET bytea_output = 'hex'")
        columns = connection.execute(
            "SELECT attname, format_type(atttypid, NULL), atttypmod FROM pg_attribute"
            " WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = '' ORDER BY attnum",
            [table.quoted],
        ).fetchall()
        expressions = [_source_expression(name, kind, modifier) for name, kind, modifier in columns]
        query = sql.SQL("SELECT {} FROM {}").format(sql.SQL(", ").join(expressions), sql.Identifier(*table))
        return Counter(tuple(map(_plain, row)) for row in connection.execute(query))


def gold_rows(spark: SparkSession, lake: LakeLayout, table: TableName) -> Counter[tuple[Any, ...]]:
    """The table's rows as gold has them now."""
    frame = spark.table(str(lake.gold(table)))
    assert frame.where(F.col("_unavailable").isNotNull()).count() == 0
    columns = [
        F.unix_micros(F.col(f"`{field.name}`"))
        if field.dataType.simpleString() == "timestamp"
        else F.col(f"`{field.name}`")
        for field in frame.schema
        if not field.name.startswith("_")
    ]
    return Counter(tuple(map(_plain, row)) for row in frame.select(columns).toLocalIterator())


def _source_expression(name: str, kind: str, modifier: int) -> sql.Composable:
    column = sql.Identifier(name)
    if kind == "timestamp with time zone":
        return sql.SQL("(extract(epoch FROM {}) * 1000000)::bigint").format(column)
    if kind in NATIVE or kind in {"real", "double precision"} or (kind == "numeric" and modifier >= 0):
        return column
    return sql.SQL("CASE WHEN num_nulls({0}) = 0 THEN format('%s', {0}) END").format(column)


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return struct.pack(">d", value)
    return bytes(value) if isinstance(value, bytearray | memoryview) else value
