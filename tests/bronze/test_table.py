"""The bronze table of an earlier version."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from pyspark.sql.types import ArrayType, StringType, StructField, StructType

from walhouse.bronze.table import COLUMNS, ensure_bronze
from walhouse.errors import LakeVersionError
from walhouse.lakehouse.layout import LakeLayout, Writer
from walhouse.lakehouse.tables import create_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_a_bronze_that_lacks_a_column_gets_it_and_keeps_its_rows(spark: SparkSession, lake: LakeLayout) -> None:
    ensure_bronze(spark, lake)
    bronze = str(lake.bronze)
    spark.sql(f"ALTER TABLE {bronze} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    spark.sql(f"INSERT INTO {bronze} (pass, kind) VALUES (1, 'progress')")
    spark.sql(f"ALTER TABLE {bronze} SET TBLPROPERTIES ('delta.appendOnly' = 'false')")
    spark.sql(f"ALTER TABLE {bronze} DROP COLUMN slot_xmin")
    ensure_bronze(spark, lake)
    assert set(spark.table(bronze).schema.fieldNames()) == set(COLUMNS.fieldNames())
    assert [(row["pass"], row["slot_xmin"]) for row in spark.table(bronze).collect()] == [(1, None)]


@pytest.mark.parametrize(("writer", "kept"), [(Writer.ARROW, "interval 1 hour"), (Writer.SPARK, "interval 7 days")])
def test_the_log_of_a_local_bronze_does_not_grow_for_a_month(
    spark: SparkSession, lake: LakeLayout, writer: Writer, kept: str
) -> None:
    """Each pass looks through all names in it."""
    layout = replace(lake, writer=writer)
    ensure_bronze(spark, layout)
    [row] = spark.sql(f"SHOW TBLPROPERTIES {lake.bronze} ('delta.logRetentionDuration')").collect()
    assert row["value"] == kept


def test_a_bronze_that_has_rows_in_another_form_is_refused_by_name(spark: SparkSession, lake: LakeLayout) -> None:
    older = StructType([*COLUMNS.fields[:-1], StructField("after", ArrayType(StringType()))])
    older = StructType([field for field in older.fields if field != COLUMNS["after"]])
    create_table(spark, lake, lake.bronze, older, comment="an earlier version's", properties={})
    with pytest.raises(LakeVersionError, match=r"after in .* is array<string>, where this version has string"):
        ensure_bronze(spark, lake)
