"""The rows of bronze that an epoch is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from walhouse.changes.epoch import EpochRange
from walhouse.changes.resolve import bronze_range
from walhouse.lakehouse.session import beside
from walhouse.lsn import Lsn

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.fixtures_house import MakeHouse
    from tests.fixtures_server import Database
    from walhouse.lakehouse.layout import LakeLayout

pytestmark = [pytest.mark.server, pytest.mark.spark]

PASSES = 4


def epoch(after_pass: int, to_pass: int) -> EpochRange:
    return EpochRange(1, after_pass, to_pass, Lsn(1 << 62))


@pytest.fixture
def passes(database: Database, make_house: MakeHouse) -> None:
    """Bronze with a file or more for each of some passes."""
    database.execute("CREATE TABLE t (id int PRIMARY KEY)")
    house = make_house()
    for number in range(PASSES):
        database.execute(f"INSERT INTO t VALUES ({number})")
        house.capture()


@pytest.mark.usefixtures("passes")
def test_an_epoch_has_the_rows_of_its_passes_and_reads_no_file_of_those_before(
    spark: SparkSession, lake: LakeLayout
) -> None:
    bronze = spark.table(str(lake.bronze))
    last = bronze.agg({"pass": "max"}).head(1)[0][0]
    for after in (0, last - 1):
        few = bronze_range(spark, lake, epoch(after, last))
        many = bronze_range(spark, lake, epoch(after, last + 1000))
        expected = bronze.where(f"pass > {after}")
        assert few.count() == many.count() == expected.count() > 0
        assert set(few.inputFiles()) == set(many.inputFiles()) == set(expected.inputFiles())
    assert bronze_range(spark, lake, epoch(0, 1)).count() == bronze.where("pass = 1").count()


@pytest.mark.usefixtures("passes")
def test_the_code_that_reads_an_epoch_is_that_of_the_one_before(
    spark: SparkSession, lake: LakeLayout, capsys: pytest.CaptureFixture[str]
) -> None:
    generating = beside(spark, {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"})

    def code(after_pass: int, to_pass: int) -> str:
        bronze_range(generating, lake, epoch(after_pass, to_pass)).explain(mode="codegen")
        _, found, generated = capsys.readouterr().out.partition("Generated code:")
        assert found
        return generated

    assert code(1, 2) == code(2, 4)
    assert code(0, 1000) != code(0, 1001), "only what is read by few epochs may be code of its own"
