"""Values of gold tables that are not what the source has, counted where they stand.

Invariant: counted in the rows as they are now, so that a row that was repaired or deleted is no longer counted.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from walhouse.gold.columns import RESCUED, UNAVAILABLE
from walhouse.lakehouse.answers import few_rows
from walhouse.lakehouse.tables import table_exists
from walhouse.names import TableName

if TYPE_CHECKING:
    from collections.abc import Collection

    from pyspark.sql import SparkSession

    from walhouse.lakehouse.layout import LakeLayout
    from walhouse.names import LakeTable


_COUNTED: Final = ("rescued", "unavailable")


def imperfect_values(
    spark: SparkSession, layout: LakeLayout, tables: Collection[TableName]
) -> dict[TableName, dict[str, int]]:
    """By source table: ``rescued``, values kept as text; ``unavailable``, values nobody has.

    Nothing of tables that gold does not have. One query, of those tables that may have such values; files without are
    not read. A local lake's statistics tell which may: to plan the query takes a second for each.
    """
    perfect = {table for table in tables if _is_perfect(layout, table)}
    asked = [table for table in tables if table not in perfect and table_exists(spark, layout, layout.gold(table))]
    found = {table: dict.fromkeys(_COUNTED, 0) for table in perfect}
    if asked:
        counts = (_count(spark, table, layout.gold(table)) for table in asked)
        for row in few_rows(reduce(DataFrame.unionAll, counts)):
            found[TableName(row["schema"], row["table"])] = {name: int(row[name] or 0) for name in _COUNTED}
    return found


def _is_perfect(layout: LakeLayout, table: TableName) -> bool:
    """Whether the table's statistics say that all of its values are what the source has."""
    local = layout.local(layout.gold(table))
    return local is not None and local.is_there and local.lacks((RESCUED, UNAVAILABLE))


def _count(spark: SparkSession, source: TableName, gold: LakeTable) -> DataFrame:
    imperfect = spark.table(str(gold)).where(F.col(RESCUED).isNotNull() | F.col(UNAVAILABLE).isNotNull())
    return imperfect.agg(
        F.lit(source.schema).alias("schema"),
        F.lit(source.table).alias("table"),
        F.sum(F.array_size(F.map_keys(RESCUED))).alias("rescued"),
        F.sum(F.array_size(UNAVAILABLE)).alias("unavailable"),
    )
