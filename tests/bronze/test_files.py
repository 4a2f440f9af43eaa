"""Files that tasks write: the same bronze as Spark makes, sorted where it helps, and nothing is left of failures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from chispa import assert_df_equality
from pyspark.sql import functions as F

from tests.e2e.witness import gold_rows, source_rows
from walhouse.bronze.files import _SORTED, ROWS_PER_FILE, _gathered, write_files
from walhouse.bronze.table import ensure_bronze
from walhouse.errors import TableChangedError
from walhouse.names import TableName
from walhouse.pgoutput.row import ROW

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from tests.fixtures_house import MakeHouse
    from tests.fixtures_server import Database
    from walhouse.lakehouse.layout import LakeLayout

pytestmark = [pytest.mark.server, pytest.mark.spark]

OF_THE_READER = ("pass", "captured_to", "captured_at", "previous_end", "progress")
"""What two captures of one source tell each of itself."""


def files_of(lake: LakeLayout) -> list[Path]:
    return sorted(lake.folder(lake.bronze).glob("*.parquet"))


@pytest.fixture
def other_schemas(spark: SparkSession, lake: LakeLayout) -> Iterator[dict[str, str]]:
    """A second lake's names, in the same folder."""
    names = {f"lake_{layer}": f"{getattr(lake, f'{layer}_schema')}_2" for layer in ("bronze", "silver", "gold", "ops")}
    yield names
    for schema in names.values():
        spark.sql(f"DROP SCHEMA IF EXISTS `{schema}` CASCADE")


def test_both_writers_make_the_same_bronze(
    spark: SparkSession, database: Database, lake: LakeLayout, make_house: MakeHouse, other_schemas: dict[str, str]
) -> None:
    database.execute(
        "CREATE TABLE a (id int PRIMARY KEY, v text, w numeric[])",
        "CREATE TABLE b (v text)",
        "ALTER TABLE a REPLICA IDENTITY FULL",
        "INSERT INTO a SELECT n, nullif('é ' || n, 'é 3'), ARRAY[n, NULL] FROM generate_series(1, 50) AS n",
        "INSERT INTO b VALUES ('x'), (NULL), ('')",
    )
    houses = (
        make_house(provide_transaction_metadata=True, lake_writer="arrow"),
        make_house(provide_transaction_metadata=True, lake_writer="spark", slot_name="second", **other_schemas),
    )
    for house in houses:
        house.capture()
    database.execute(
        "UPDATE a SET v = 'changed' WHERE id < 20",
        "INSERT INTO b VALUES ('streamed')",
        "DELETE FROM a WHERE id > 40",
        "SELECT pg_logical_emit_message(true, 'note', 'said')",
        "TRUNCATE b",
    )
    for house in houses:
        house.capture()

    def bronze(name: str) -> tuple[DataFrame, DataFrame]:
        rows = spark.table(name)
        streamed = rows.where("kind IN ('change', 'message', 'transaction')").drop(*OF_THE_READER)
        read = rows.where("kind = 'snapshot'").select("op", "schema_name", "table_name", "relation_version", "after")
        return streamed.orderBy("commit_lsn", "seq", "kind", "op"), read.orderBy("table_name", "after")

    by_tasks, by_spark = bronze(str(lake.bronze)), bronze(f"{other_schemas['lake_bronze']}.wal")
    assert by_tasks[0].where("kind = 'change'").count() == 19 + 1 + 10 + 1
    assert by_tasks[1].count() == 53
    for ours, sparks in zip(by_tasks, by_spark, strict=True):
        assert_df_equality(ours, sparks)
    writers = spark.sql(f"DESCRIBE HISTORY {lake.bronze}").where("operation = 'WRITE'").select("engineInfo")
    assert all(row["engineInfo"].startswith("delta-rs") for row in writers.collect())


@pytest.mark.slow
def test_a_lake_that_one_writer_began_is_gone_on_with_by_the_other_and_back(
    spark: SparkSession, database: Database, lake: LakeLayout, make_house: MakeHouse
) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, v text)", "INSERT INTO t VALUES (0, 'read')")
    for number, writer in enumerate(["spark", "arrow", "spark"], 1):
        house = make_house(lake_writer=writer)
        house.run()
        database.execute(f"INSERT INTO t VALUES ({number}, '{writer}')", "UPDATE t SET v = v || '!' WHERE id = 0")
        house.run()
        house.close()
    table = TableName("public", "t")
    assert gold_rows(spark, lake, table) == source_rows(database, table)
    events = spark.table(str(lake.silver(table))).groupBy("op").count().collect()
    assert {row["op"]: row["count"] for row in events} == {"r": 1, "c": 3, "u": 3}


def test_the_rows_of_a_file_are_sorted_by_table_where_there_are_several(
    database: Database, lake: LakeLayout, make_house: MakeHouse
) -> None:
    database.execute("CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE b (id int PRIMARY KEY)")
    house = make_house()
    house.capture()
    before = files_of(lake)
    for number in range(5):
        database.execute(f"INSERT INTO b VALUES ({number})", f"INSERT INTO a VALUES ({number})")
    house.capture()
    [file] = set(files_of(lake)) - set(before)
    rows = pq.read_table(file, columns=["kind", "table_name", "commit_lsn"]).to_pylist()
    changes = [(row["table_name"], row["commit_lsn"]) for row in rows if row["kind"] == "change"]
    assert changes == sorted(changes)
    assert len(changes) == 10


def test_rows_too_long_for_a_task_to_write_are_spark_s_to_write_and_leave_no_file_of_the_task(
    spark: SparkSession, database: Database, lake: LakeLayout, make_house: MakeHouse
) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, v text)", "INSERT INTO t VALUES (1, 'short')")
    house = make_house()
    house.run()
    database.execute("INSERT INTO t VALUES (2, 'before')", "INSERT INTO t SELECT 3, repeat('long ', 8000000)")
    house.run()
    last = spark.sql(f"DESCRIBE HISTORY {lake.bronze} LIMIT 1").first()
    assert last is not None
    assert not last["engineInfo"].startswith("delta-rs")
    used = spark.table(str(lake.bronze)).select(F.element_at(F.split(F.input_file_name(), "/"), -1)).distinct()
    assert {row[0] for row in used.collect()} == {file.name for file in files_of(lake)}
    lengths = spark.table(str(lake.gold(TableName("public", "t")))).selectExpr("id", "length(v)").collect()
    assert sorted(map(tuple, lengths)) == [(1, 5), (2, 6), (3, 40_000_000)]


def test_a_pass_that_fails_leaves_nothing_in_bronze_and_no_file(
    spark: SparkSession, database: Database, lake: LakeLayout
) -> None:
    ensure_bronze(spark, lake)
    plan = FailsLate(lake.folder(lake.bronze))
    with pytest.raises(TableChangedError, match="after two files: 3"):
        write_files(spark, plan, lake.folder(lake.bronze), by_table=False)
    assert files_of(lake) == []


@pytest.mark.parametrize(
    ("row_bytes", "of_a_batch", "gathered"),
    [
        (100, [1_000] * 450, [200_000, 200_000, 50_000]),
        (1_000, [4_000] * 20, [32_000, 32_000, 16_000]),
        (100_000, [100] * 4, [100, 100, 100, 100]),
        (9_000_000, [1] * 5, [1, 1, 1, 1, 1]),
        (31_000_000, [1] * 2, [1, 1]),
    ],
)
def test_rows_are_gathered_by_number_and_bytes_and_of_long_ones_few(
    row_bytes: int, of_a_batch: list[int], gathered: list[int]
) -> None:
    text = pa.array(["x" * row_bytes])
    batches = (pa.record_batch([text.take(pa.array([0] * rows))], ["after"]) for rows in of_a_batch)
    tables = [rows for rows in _gathered(batches, *_SORTED) if rows is not None]
    assert [rows.num_rows for rows in tables] == gathered


class FailsLate:
    """A plan whose only part has more rows than two files take, and then fails."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def parts(self) -> int:
        return 1

    def batches(self, part: int) -> Iterator[pa.RecordBatch]:
        del part
        for _ in range(2 * ROWS_PER_FILE // 100_000 + 2):
            yield pa.RecordBatch.from_pylist([{"pass": 1}], ROW).take(pa.array([0] * 100_000))
        raise TableChangedError(f"after two files: {len(list(self._folder.glob('*.parquet')))}")
