"""A part of few rows is interpreted, beside the session that compiles; what either writes, the other reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from walhouse.changes.facts import ChunkFacts, Facts
from walhouse.changes.sessions import Sessions
from walhouse.changes.touched import Touched
from walhouse.lakehouse.session import SMALL_TABLES, TINY_TABLES, beside
from walhouse.lakehouse.tables import MERGE_PROPERTIES, create_table
from walhouse.names import TableName

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from walhouse.lakehouse.layout import LakeLayout

pytestmark = pytest.mark.spark

ORDERS = TableName("shop", "orders")


@pytest.fixture
def compiling(spark: SparkSession) -> SparkSession:
    """As users have it: the tests' own session interprets everything."""
    session = spark.newSession()
    for name in TINY_TABLES:
        session.conf.unset(name)
    session.conf.set("spark.sql.codegen.wholeStage", "true")
    return session


def _part(rows: int, chunks: ChunkFacts | None = None) -> Touched:
    return Touched(ORDERS, (1,), Facts(rows=rows, span=(1, 2), chunks=chunks))


def test_few_rows_are_interpreted(compiling: SparkSession, lake: LakeLayout) -> None:
    session = Sessions(compiling, lake).of_epoch(_part(1_000), rows_of_all=1_000, target=None)
    assert {name: session.conf.get(name) for name in SMALL_TABLES} == SMALL_TABLES
    assert compiling.conf.get("spark.sql.codegen.wholeStage") == "true"


@pytest.mark.parametrize(("rows", "rows_of_all"), [(10_001, 10_001), (10, 100_001)])
def test_many_rows_are_compiled_and_few_among_many(
    compiling: SparkSession, lake: LakeLayout, rows: int, rows_of_all: int
) -> None:
    assert Sessions(compiling, lake).of_epoch(_part(rows), rows_of_all=rows_of_all, target=None) is compiling


def test_rows_of_chunks_are_compiled_since_all_changes_of_before_are_looked_at(
    compiling: SparkSession, lake: LakeLayout
) -> None:
    part = _part(10, ChunkFacts(1, 1, 1))
    assert Sessions(compiling, lake).of_epoch(part, rows_of_all=10, target=None) is compiling


@pytest.mark.slow
def test_the_file_of_a_tiny_table_is_written_anew_and_rows_of_a_larger_one_are_marked(
    compiling: SparkSession, lake: LakeLayout
) -> None:
    target, sessions = lake.gold(ORDERS), Sessions(compiling, lake)
    columns = StructType([StructField("id", IntegerType()), StructField("note", StringType())])
    create_table(compiling, lake, target, columns, comment="", properties=MERGE_PROPERTIES)
    done = []
    for rows in (100, 8_000):
        new = compiling.range(rows).selectExpr("CAST(id AS INT) id", "sha2(CAST(id AS STRING), 256) note")
        new.coalesce(1).write.format("delta").mode("overwrite").saveAsTable(str(target))
        session = sessions.of_epoch(_part(10), rows_of_all=10, target=target)
        session.sql(f"MERGE INTO {target} t USING (SELECT 7 AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE")
        merged = compiling.sql(f"DESCRIBE HISTORY {target} LIMIT 1").select("operationMetrics").head(1)[0][0]
        done.append((merged["numTargetDeletionVectorsAdded"], merged["numTargetRowsCopied"]))
        assert compiling.table(str(target)).count() == rows - 1
    assert done == [("0", "99"), ("1", "0")]


def test_few_changes_of_a_large_table_are_compiled(compiling: SparkSession, lake: LakeLayout) -> None:
    file = lake.folder(lake.gold(ORDERS)) / "x7" / "part-0.parquet"
    file.parent.mkdir(parents=True)
    with file.open("wb") as large:
        large.truncate(17 * 2**20)
    sessions = Sessions(compiling, lake)
    assert sessions.of_epoch(_part(10), rows_of_all=10, target=lake.gold(ORDERS)) is compiling
    assert sessions.of_epoch(_part(10), rows_of_all=10, target=None) is not compiling


def test_a_session_of_somebody_else_is_used_as_it_is(compiling: SparkSession) -> None:
    compiling.conf.unset("spark.walhouse.startedHere")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("walhouse.lakehouse.session._STARTED_HERE", "spark.walhouse.notHere")
        assert beside(compiling, SMALL_TABLES) is compiling


def test_a_session_that_interprets_needs_none_beside_it(spark: SparkSession) -> None:
    assert beside(spark, SMALL_TABLES) is spark


def test_what_one_session_writes_and_widens_the_other_reads(compiling: SparkSession, lake: LakeLayout) -> None:
    other = beside(compiling, SMALL_TABLES)
    schema, table = lake.gold_schema, lake.gold(ORDERS)
    other.sql(f"CREATE SCHEMA `{schema}`")
    other.sql(f"CREATE TABLE {table} (id INT) USING delta")
    compiling.range(1).selectExpr("CAST(id AS INT) id").write.format("delta").mode("append").saveAsTable(str(table))
    assert compiling.table(str(table)).columns == ["id"]
    other.sql(f"ALTER TABLE {table} ADD COLUMN name STRING")
    other.sql(f"INSERT INTO {table} VALUES (1, 'a')")
    assert [tuple(row) for row in compiling.table(str(table)).orderBy("id").collect()] == [(0, None), (1, "a")]
