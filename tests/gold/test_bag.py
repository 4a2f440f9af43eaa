"""Rows of a table without a key are told apart by all of their texts, and by nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

from walhouse.gold.bag import digest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
def test_no_two_rows_have_one_digest_and_a_row_keeps_its_own_when_a_column_is_added(spark: SparkSession) -> None:
    rows: list[list[str | None]] = [
        [None, None],
        ["", None],
        [None, ""],
        ["", ""],
        ["x", "y"],
        ["x1:by", None],
        ["y", "x"],
    ]
    images = spark.createDataFrame(
        [(row, [*row[1:], None, row[0]]) for row in rows], "old array<string>, new array<string>"
    )
    old = digest(F.col("old"), {"a": 0, "b": 1}).alias("old")
    new = digest(F.col("new"), {"b": 0, "added": 1, "a": 2}).alias("new")
    found = images.select(old, new).collect()
    assert len({row.old for row in found}) == len(rows)
    assert [row.old for row in found] == [row.new for row in found]
