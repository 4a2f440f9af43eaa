"""A row that is missing, different, or there once too often makes two tables unequal, and is named."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.gold.changelog import column, relation
from walhouse.proof.compare import Difference, compare

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from walhouse.proof.compare import Comparison

pytestmark = pytest.mark.spark

COLUMNS = [column("id", "text"), column("a", "text"), column("b", "text")]
KEYED = relation(COLUMNS, key=("id",))
Texts = tuple[str | None, ...]

SAME: list[Texts] = [("1", "x", "y"), ("2", None, "y"), ("3", "", None)]


def source_of(spark: SparkSession, rows: Sequence[Texts]) -> DataFrame:
    return spark.createDataFrame([(list(row),) for row in rows], "values ARRAY<STRING>").coalesce(1)


def gold_of(spark: SparkSession, rows: Sequence[Texts]) -> DataFrame:
    schema = "id STRING, a STRING, b STRING, _rescued MAP<STRING, STRING>"
    return spark.createDataFrame([(*row, None) for row in rows], schema).coalesce(1)


def compared(
    spark: SparkSession, source: Sequence[Texts], gold: Sequence[Texts], *, bag: bool = False, limit: int = 20
) -> Comparison:
    return compare(source_of(spark, source), gold_of(spark, gold), KEYED, () if bag else ("id",), limit=limit)


def test_the_same_rows_in_another_order_are_equal(spark: SparkSession) -> None:
    comparison = compared(spark, SAME, SAME[::-1])
    assert comparison.equal
    assert (comparison.source_rows, comparison.gold_rows, comparison.differing, comparison.sample) == (3, 3, 0, ())


@pytest.mark.parametrize(
    ("gold", "difference"),
    [
        (SAME[:2], Difference(("3",), ("3", "", None), None, 1)),
        ([*SAME, ("4", None, None)], Difference(("4",), None, ("4", None, None), -1)),
        ([*SAME[:2], ("3", None, "")], Difference(("3",), ("3", "", None), ("3", None, ""), 0)),
        ([SAME[0], ("2", "y", None), SAME[2]], Difference(("2",), ("2", None, "y"), ("2", "y", None), 0)),
        ([*SAME, SAME[0]], Difference(("1",), None, ("1", "x", "y"), -1)),
    ],
    ids=["missing", "too many", "null is not empty", "null in another place", "twice"],
)
def test_each_kind_of_difference_is_found_and_shown_with_both_rows(
    spark: SparkSession, gold: list[Texts], difference: Difference
) -> None:
    comparison = compared(spark, SAME, gold)
    assert not comparison.equal
    assert comparison.differing == 1
    assert comparison.sample == (difference,)


def test_all_differing_keys_are_counted_but_only_so_many_are_shown_and_none_in_the_repr(spark: SparkSession) -> None:
    comparison = compared(spark, [(f"secret{i:02}", None, None) for i in range(30)], [], limit=3)
    assert comparison.differing == 30
    assert [difference.key for difference in comparison.sample] == [("secret00",), ("secret01",), ("secret02",)]
    assert "secret" not in repr(comparison)


def test_in_a_bag_rows_are_counted(spark: SparkSession) -> None:
    row: Texts = ("1", None, "y")
    assert compared(spark, [row] * 3 + SAME, SAME + [row] * 3, bag=True).equal
    comparison = compared(spark, [row] * 3, [row] * 5, bag=True)
    assert comparison.sample == (Difference(row, None, row, -2),)
