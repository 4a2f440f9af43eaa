"""Native values of a row's texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from walhouse.gold.columns import gold_columns
from walhouse.gold.native import with_native_values
from walhouse.names import TableName
from walhouse.pgoutput.column import ColumnDescription
from walhouse.pgoutput.relation import describe

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.slow
@pytest.mark.spark
def test_a_table_may_have_as_many_columns_as_postgresql_lets_it_have(spark: SparkSession) -> None:
    """What is refused of any of them is looked for in one expression, which once was as deep as they are many."""
    wide = [ColumnDescription(f"c{number}", 23, -1, identity=number == 0) for number in range(1600)]
    columns = gold_columns([describe(16_384, TableName("public", "wide"), "d", wide)])
    rows = spark.createDataFrame([([None] * 1599 + ["no number"],)], "image array<string>")
    assert with_native_values(rows, columns).columns == ["image", *(f"v{number}" for number in range(1600)), "rescued"]
