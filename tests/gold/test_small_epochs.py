"""Many small epochs: gold's files are put together as they come, else each MERGE would open more of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.gold.changelog import SourceTable, column, relation
from walhouse.gold.apply import apply_gold

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from walhouse.lakehouse.layout import LakeLayout

pytestmark = pytest.mark.spark

EPOCHS = 6
ENOUGH = "spark.databricks.delta.autoCompact.minNumFiles"


@pytest.fixture
def eager(spark: SparkSession) -> Iterator[None]:
    """Delta waits for 50 small files before it puts them together; here a few are enough."""
    spark.conf.set(ENOUGH, "3")
    yield
    spark.conf.unset(ENOUGH)


@pytest.mark.slow
@pytest.mark.usefixtures("deletion_vectors", "eager")
def test_the_number_of_golds_files_does_not_grow_with_the_number_of_epochs(
    spark: SparkSession, lake: LakeLayout
) -> None:
    source = SourceTable(relation([column("id"), column("v")], key=["id"]), key=("id",))
    base: int | None = None
    for number in range(1, EPOCHS + 1):
        for i in range(5):
            source.insert((f"{number}-{i}", "new"))
        if number > 1:
            source.update((f"{number - 1}-0", "new"), (f"{number - 1}-0", "changed"))
        source.commit()
        base = apply_gold(spark, lake, source.epoch(spark, number, base)).version
    gold = lake.gold(source.relation.name)
    assert spark.table(str(gold)).count() == 5 * EPOCHS
    files = spark.sql(f"DESCRIBE DETAIL {gold}").head(1)[0]["numFiles"]
    assert files < EPOCHS - 1, f"{files} files after {EPOCHS} epochs"
