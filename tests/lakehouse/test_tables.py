"""Tables of a local lake: made, found again, never mixed up with those of another lake."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql.types import LongType, StringType, StructField, StructType

from walhouse.errors import OtherLakeError
from walhouse.lakehouse.layout import LOCAL_CATALOG, LakeLayout
from walhouse.lakehouse.tables import (
    create_table,
    current_version,
    ensure_schema,
    register_tables,
    stands_at,
    table_exists,
    was_restored,
)
from walhouse.names import LakeTable

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

COLUMNS = StructType([StructField("a", LongType()), StructField("name`x", StringType(), metadata={"comment": "it's"})])


def create(spark: SparkSession, lake: LakeLayout, name: str = "things") -> None:
    create_table(spark, lake, lake.ops(name), COLUMNS, comment="what's in it", properties={"delta.appendOnly": "true"})


def test_a_table_is_made_once_with_its_comments_and_in_the_lakes_folder(spark: SparkSession, lake: LakeLayout) -> None:
    create(spark, lake)
    create(spark, lake)
    assert current_version(spark, lake, lake.ops("things")) == 0
    fields = {row["col_name"]: row["comment"] for row in spark.sql(f"DESCRIBE {lake.ops('things')}").toLocalIterator()}
    assert fields["name`x"] == "it's"
    location = spark.sql(f"DESCRIBE DETAIL {lake.ops('things')}").head(1)[0]["location"]
    assert location.endswith(str(lake.location(lake.ops("things"))))


def test_the_next_process_finds_the_tables_in_the_folder(spark: SparkSession, lake: LakeLayout) -> None:
    create(spark, lake)
    spark.sql(f"INSERT INTO {lake.ops('things')} VALUES (1, 'x')")
    spark.sql(f"DROP TABLE {lake.ops('things')}")  # only from the catalog in memory: the table has a folder of its own
    assert not spark.catalog.tableExists(str(lake.ops("things")))
    register_tables(spark, lake)
    assert spark.table(str(lake.ops("things"))).count() == 1


def test_what_other_schemas_have_is_found_in_the_folder_once_it_is_looked_for(
    spark: SparkSession, lake: LakeLayout
) -> None:
    create(spark, lake)
    spark.sql(f"DROP TABLE {lake.ops('things')}")
    register_tables(spark, lake, [lake.bronze_schema])
    assert not spark.catalog.tableExists(str(lake.ops("things")))
    assert table_exists(spark, lake, lake.ops("things"))
    assert spark.table(str(lake.ops("things"))).isEmpty()
    assert not table_exists(spark, lake, lake.ops("others"))


@pytest.mark.parametrize("left", [(), (".00000000000000000000.json.1f.tmp",)])
def test_a_creation_that_was_killed_before_its_first_commit_is_no_table_and_is_made_again(
    spark: SparkSession, lake: LakeLayout, left: tuple[str, ...]
) -> None:
    location = lake.location(lake.ops("things"))
    assert location is not None
    log = lake.schema_folder(lake.ops_schema) / "things" / "_delta_log"
    log.mkdir(parents=True)
    for name in left:
        (log / name).write_text("{}")
    register_tables(spark, lake)
    assert not table_exists(spark, lake, lake.ops("things"))
    create(spark, lake)
    assert spark.table(str(lake.ops("things"))).count() == 0


def test_a_folder_with_data_of_somebody_else_is_never_removed(spark: SparkSession, lake: LakeLayout) -> None:
    folder = lake.schema_folder(lake.ops_schema) / "things"
    folder.mkdir(parents=True)
    (folder / "letters.txt").write_text("dear")
    with pytest.raises(Exception, match="NON_EMPTY_LOCATION"):
        create(spark, lake)
    assert (folder / "letters.txt").read_text() == "dear"


def test_a_table_tells_that_it_was_restored(spark: SparkSession, lake: LakeLayout) -> None:
    create(spark, lake)
    spark.sql(f"INSERT INTO {lake.ops('things')} VALUES (1, 'x')")
    assert not was_restored(spark, lake.ops("things"))
    spark.sql(f"RESTORE TABLE {lake.ops('things')} TO VERSION AS OF 0")
    assert was_restored(spark, lake.ops("things"))


@pytest.mark.parametrize("by", ["the folder's log", "the catalog's history"])
def test_a_table_stands_at_the_version_that_it_was_restored_to(by: str, spark: SparkSession, lake: LakeLayout) -> None:
    asked = lake if by == "the folder's log" else replace(lake, path=None)
    table = lake.ops("things")

    def stands_after(statement: str, known: int) -> int:
        spark.sql(statement)
        return stands_at(spark, asked, table, known)

    create(spark, lake)
    assert stands_after(f"INSERT INTO {table} VALUES (1, 'x')", 1) == 1
    assert stands_after(f"INSERT INTO {table} VALUES (2, 'x')", 1) == 1, "what was added does not take away"
    assert stands_after(f"RESTORE TABLE {table} TO VERSION AS OF 0", 2) == 0
    assert stands_after(f"ALTER TABLE {table} SET TBLPROPERTIES ('note' = 'tidied')", 2) == 0
    assert stands_after(f"RESTORE TABLE {table} TO VERSION AS OF 2", 2) == 2, "set right again"
    time = spark.sql(f"DESCRIBE HISTORY {table}").where("version = 1").head(1)[0]["timestamp"]
    assert stands_after(f"RESTORE TABLE {table} TO TIMESTAMP AS OF '{time}'", 2) == -1


def test_a_second_lake_with_the_same_schema_names_is_refused_in_one_session(
    spark: SparkSession, lake: LakeLayout, tmp_path: Path
) -> None:
    create(spark, lake)
    other = LakeLayout(
        path=tmp_path / "other",
        bronze_schema=lake.bronze_schema,
        silver_schema=lake.silver_schema,
        gold_schema=lake.gold_schema,
        ops_schema=lake.ops_schema,
    )
    with pytest.raises(OtherLakeError) as refused:
        register_tables(spark, other)
    assert refused.value.fields["schema"] == lake.ops_schema
    with pytest.raises(OtherLakeError):
        create(spark, other)
    register_tables(spark, lake)


def test_a_schema_that_a_catalog_has_is_not_created_which_would_take_a_right_on_the_catalog(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(spark, "sql", asked.append)
    managed = LakeLayout(path=None)
    ensure_schema(spark, managed, "default")
    assert asked == []
    ensure_schema(spark, managed, "never_made")
    assert asked == ["CREATE SCHEMA IF NOT EXISTS `spark_catalog`.`never_made`"]


def test_a_table_is_looked_for_under_names_that_have_to_be_quoted(spark: SparkSession) -> None:
    """As those of catalogs with a hyphen: to look into one that is not there gives another error than its name does."""
    managed = LakeLayout(path=None)
    assert not table_exists(spark, managed, LakeTable(LOCAL_CATALOG, "not-there", "wal"))
    with pytest.raises(AnalysisException, match="my-catalog"):
        table_exists(spark, managed, LakeTable("my-catalog", "bronze", "wal"))
