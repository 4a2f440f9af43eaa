"""Values of gold tables that are not what the source has, counted where they stand.

Invariant: counted in the rows as they are now, so that a row that was repaired or deleted is no longer counted.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from walhouse.gold.columns import RESCUED, UNAVAILABLE
from walhouse.lakehouse.answers import few_rows
from walhouse.names import TableName

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from walhouse.names import LakeTable


def imperfect_values(spark: SparkSession, tables: Mapping[TableName, LakeTable]) -> dict[TableName, dict[str, int]]:
    """By source table: ``rescued``, values kept as text; ``unavailable``, values nobody has.

    One query; files without such values are not read. ``tables``: the gold table of each source table.
    """
    if not tables:
        return {}
    rows = reduce(DataFrame.unionAll, (_count(spark, source, gold) for source, gold in tables.items()))
    return {
        TableName(row["schema"], row["table"]): {name: int(row[name] or 0) for name in ("rescued", "unavailable")}
        for row in few_rows(rows)
    }


def _count(spark: SparkSession, source: TableName, gold: LakeTable) -> DataFrame:
    imperfect = spark.table(str(gold)).where(F.col(RESCUED).isNotNull() | F.col(UNAVAILABLE).isNotNull())
    return imperfect.agg(
        F.lit(source.schema).alias("schema"),
        F.lit(source.table).alias("table"),
        F.sum(F.array_size(F.map_keys(RESCUED))).alias("rescued"),
        F.sum(F.array_size(UNAVAILABLE)).alias("unavailable"),
    )
