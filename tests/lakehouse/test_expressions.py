"""Expressions of many columns."""

from __future__ import annotations

from operator import or_
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

from walhouse.lakehouse.expressions import joined

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
def test_as_many_parts_as_a_table_may_have_columns_are_one_expression_in_their_order(spark: SparkSession) -> None:
    parts = [F.lit(str(number)) for number in range(1600)]
    row = spark.range(1).select(joined(F.concat, parts).alias("all")).head(1)[0]
    assert row["all"] == "".join(map(str, range(1600)))
    assert spark.range(1).where(joined(or_, [F.col("id") == number for number in range(1599, -1, -1)])).count() == 1
