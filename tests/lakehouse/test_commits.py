"""Commits of files that are written already: Spark finds them as its own, once, whoever else commits."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from walhouse.errors import ForeignCommitError, LakeError
from walhouse.lakehouse.appends import append_rows
from walhouse.lakehouse.commits import LocalTable
from walhouse.lakehouse.files import FileWriter, NewFile, Once
from walhouse.lakehouse.layout import Writer
from walhouse.lakehouse.tables import MERGE_PROPERTIES, at_version, create_table, current_version

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pyspark.sql import SparkSession

    from walhouse.lakehouse.layout import LakeLayout

pytestmark = pytest.mark.spark

COLUMNS: Final = StructType(
    [StructField("number", LongType()), StructField("name", StringType()), StructField("seldom", LongType())]
)
SCHEMA: Final = pa.schema({"number": pa.int64(), "name": pa.string(), "seldom": pa.int64()})


@pytest.fixture
def folder(spark: SparkSession, lake: LakeLayout) -> Path:
    return new_table(spark, lake, {"delta.appendOnly": "true"})


def new_table(spark: SparkSession, lake: LakeLayout, properties: Mapping[str, str]) -> Path:
    create_table(spark, lake, lake.ops("things"), COLUMNS, comment="what's in it", properties=properties)
    return lake.folder(lake.ops("things"))


def a_file(folder: Path, numbers: range, seldom: int | None = None) -> NewFile:
    writer = FileWriter(folder, SCHEMA, ("number", "name", "seldom"))
    rows = [{"number": number, "name": f"n{number:04}", "seldom": seldom} for number in numbers]
    writer.write(pa.Table.from_pylist(rows, SCHEMA))
    return writer.close()


def numbers(spark: SparkSession, lake: LakeLayout) -> list[int]:
    return sorted(row["number"] for row in spark.table(str(lake.ops("things"))).collect())


def test_files_of_a_commit_are_rows_of_the_table_at_once_and_each_version_stays_readable(
    spark: SparkSession, lake: LakeLayout, folder: Path
) -> None:
    LocalTable(folder).append([a_file(folder, range(3)), a_file(folder, range(3, 5))], None)
    assert numbers(spark, lake) == [0, 1, 2, 3, 4]
    first = current_version(spark, lake, lake.ops("things"))
    spark.sql(f"INSERT INTO {lake.ops('things')} VALUES (5, 'by Spark', NULL)")
    LocalTable(folder).append([a_file(folder, range(6, 8))], None)
    assert numbers(spark, lake) == list(range(8))
    assert at_version(spark, lake.ops("things"), first).count() == 5
    assert LocalTable(folder).properties()["delta.appendOnly"] == "true"


def test_what_comes_again_under_a_name_and_a_number_or_a_smaller_one_is_not_added(
    spark: SparkSession, lake: LakeLayout, folder: Path
) -> None:
    for number, once in enumerate([Once("a", 5), Once("a", 5), Once("a", 4), Once("b", 4), Once("a", 6)]):
        LocalTable(folder).append([a_file(folder, range(number, number + 1))], once)
    assert numbers(spark, lake) == [0, 3, 4]


def test_a_name_and_number_that_spark_has_written_under_is_known_and_the_other_way_round(
    spark: SparkSession, lake: LakeLayout, folder: Path
) -> None:
    for number, writer in enumerate([Writer.SPARK, Writer.ARROW, Writer.SPARK]):
        layout = type(lake)(**{name: getattr(lake, name) for name in lake.__slots__} | {"writer": writer})
        row = (number, "n", None)
        append_rows(spark, layout, lake.ops("things"), COLUMNS, [row], once=Once("same", 1 + number // 2))
    assert numbers(spark, lake) == [0, 2]


def test_files_are_on_the_disk_before_their_commit_is_and_that_before_anybody_is_told(
    spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loss of power cannot be made here; that the disk is waited for, and in which order, can be seen."""
    log, synced = folder / "_delta_log", list[tuple[int, int]]()

    def fsync(descriptor: int) -> None:
        synced.append((os.fstat(descriptor).st_ino, len(list(log.glob("0*.json")))))

    monkeypatch.setattr(os, "fsync", fsync)
    file = a_file(folder, range(3))
    LocalTable(folder).append([file], None)
    expected = [(folder / file.path, 1), (log / f"{1:020}.json", 2), (log, 2), (folder, 2)]
    assert synced == [(path.stat().st_ino, commits) for path, commits in expected]


def test_small_files_are_put_together_by_who_writes_and_nothing_else_changes(
    spark: SparkSession, lake: LakeLayout, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of them is Spark's, and one older than a column; a version of before is read as it was."""
    monkeypatch.setattr("walhouse.lakehouse.commits._TIDY_EVERY", 8)
    table = lake.ops("things")
    older = pa.schema({"number": pa.int64(), "name": pa.string()})
    writer = FileWriter(folder, older, ("number", "name"))
    writer.write(pa.Table.from_pylist([{"number": 0, "name": "n0000"}], older))
    LocalTable(folder).append([writer.close()], None, tidies=True)
    spark.sql(f"INSERT INTO {table} VALUES (1, 'by Spark', NULL)")
    for number in range(2, 7):
        LocalTable(folder).append([a_file(folder, range(number, number + 1), 7)], Once("a", number), tidies=True)
    before = current_version(spark, lake, table)
    assert len(spark.table(str(table)).inputFiles()) == 7
    LocalTable(folder).append([a_file(folder, range(7, 8))], Once("a", 7), tidies=True)
    assert len(spark.table(str(table)).inputFiles()) <= 3
    assert numbers(spark, lake) == list(range(8))
    assert at_version(spark, table, before).count() == 7
    LocalTable(folder).append([a_file(folder, range(9, 10))], Once("a", 7), tidies=True)
    assert LocalTable(folder).greatest(["number"]) == (7,)
    assert LocalTable(folder).find_rows(["name"], {"number": (1, 2)}, "name") == [
        {"name": "by Spark"},
        {"name": "n0002"},
    ]


def test_a_folder_that_is_gone_is_told_as_that(spark: SparkSession, folder: Path) -> None:
    """As where a disk is not mounted: what helps is to bring it back, not another writer."""
    file = a_file(folder, range(1))
    folder.rename(folder.with_name("elsewhere"))
    with pytest.raises(LakeError, match="is not there: it was removed or moved") as gone:
        LocalTable(folder).append([file], None)
    assert not isinstance(gone.value, ForeignCommitError)


def test_files_with_other_numbers_of_rows_than_the_table_says_are_left_as_they_are(
    spark: SparkSession, lake: LakeLayout, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("walhouse.lakehouse.commits._TIDY_EVERY", 2)
    told = json.loads((first := a_file(folder, range(3))).stats) | {"numRecords": 4}
    LocalTable(folder).append([replace(first, stats=json.dumps(told))], None, tidies=True)
    LocalTable(folder).append([a_file(folder, range(3, 4))], None, tidies=True)
    assert current_version(spark, lake, lake.ops("things")) == 2
    assert len(spark.table(str(lake.ops("things"))).inputFiles()) == len(list(folder.glob("*.parquet"))) == 2


def test_a_file_that_cannot_be_put_together_with_others_keeps_nobody_from_appending(
    spark: SparkSession, lake: LakeLayout, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("walhouse.lakehouse.commits._TIDY_EVERY", 2)
    first = a_file(folder, range(1))
    LocalTable(folder).append([first], None, tidies=True)
    (folder / first.path).write_bytes(b"damaged")
    LocalTable(folder).append([a_file(folder, range(1, 2))], None, tidies=True)
    assert current_version(spark, lake, lake.ops("things")) == 2
    assert [path.name for path in folder.glob("*.parquet")].count(first.path) == 1
    assert len(list(folder.glob("*.parquet"))) == 2


def test_what_a_killed_commit_leaves_is_passed_over(spark: SparkSession, lake: LakeLayout, folder: Path) -> None:
    """Files that no commit names, and the commit itself under its name of before."""
    a_file(folder, range(7, 9))
    (folder / "_delta_log" / "_commit_b1c9.json.tmp").write_text('{"add": {"path"')
    LocalTable(folder).append([a_file(folder, range(3))], Once("a", 1))
    assert numbers(spark, lake) == [0, 1, 2]
    assert current_version(spark, lake, lake.ops("things")) == 1
    assert LocalTable(folder).greatest(("number",)) == (2,)


def test_commits_of_several_threads_all_arrive(spark: SparkSession, lake: LakeLayout, folder: Path) -> None:
    def commits(writer: int) -> None:
        for number in range(writer, 40, 4):  # each in its order, all at once
            LocalTable(folder).append([a_file(folder, range(number, number + 1))], Once(f"writer {writer}", number))

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(commits, range(4)))
    assert numbers(spark, lake) == list(range(40))


def test_a_checkpoint_that_delta_rs_makes_is_one_that_spark_reads_from(spark: SparkSession, lake: LakeLayout) -> None:
    folder = new_table(spark, lake, {"delta.checkpointInterval": "3"})
    for number in range(8):
        LocalTable(folder).append([a_file(folder, range(number, number + 1))], Once("c", number))
    assert list((folder / "_delta_log").glob("*.checkpoint*.parquet"))
    for old in sorted((folder / "_delta_log").glob("0*.json"))[:4]:
        old.unlink()  # so that nothing but a checkpoint can tell of what they added
    fresh = spark.newSession()
    assert sorted(row["number"] for row in fresh.read.format("delta").load(str(folder)).collect()) == list(range(8))
    LocalTable(folder).append([a_file(folder, range(9, 10))], Once("c", 7))
    assert numbers(spark, lake) == list(range(8)), "the checkpoint also has which numbers were seen"


def test_rows_are_found_in_the_files_of_both_writers(spark: SparkSession, lake: LakeLayout, folder: Path) -> None:
    LocalTable(folder).append([a_file(folder, range(10)), a_file(folder, range(10, 20), seldom=7)], None)
    spark.sql(f"INSERT INTO {lake.ops('things')} VALUES (12, 'by Spark', 8), (13, 'by Spark', NULL)")
    found = LocalTable(folder).find_rows(["number", "seldom"], {"number": (5, 13)}, present="seldom")
    assert found is not None
    assert sorted((row["number"], row["seldom"]) for row in found) == [(10, 7), (11, 7), (12, 7), (12, 8), (13, 7)]
    named = LocalTable(folder).find_rows(["number"], {"number": (0, 99), "name": ("n0009", "n0010")}, present="number")
    assert named is not None
    assert sorted(row["number"] for row in named) == [9, 10]
    assert LocalTable(folder).find_rows(["number"], {"number": (50, 60)}, present="number") == []


def test_where_many_files_are_in_question_nothing_is_read(spark: SparkSession, folder: Path) -> None:
    LocalTable(folder).append([a_file(folder, range(number, number + 1)) for number in range(40)], None)
    assert LocalTable(folder).find_rows(["number"], {"number": (0, 39)}, present="number") is None
    assert LocalTable(folder).find_rows(["number"], {"number": (3, 3)}, present="number") == [{"number": 3}]


def test_the_greatest_values_are_the_logs_and_not_told_where_a_file_has_no_statistics(
    spark: SparkSession, lake: LakeLayout, folder: Path
) -> None:
    assert LocalTable(folder).greatest(("number", "seldom")) == (None, None)
    LocalTable(folder).append([a_file(folder, range(10)), a_file(folder, range(3))], None)
    assert LocalTable(folder).greatest(("number", "seldom")) == (9, None)
    LocalTable(folder).append([a_file(folder, range(2), seldom=70)], None)
    assert LocalTable(folder).greatest(("number", "seldom")) == (9, 70)
    silent = a_file(folder, range(1), seldom=80)
    stats = {"numRecords": 1, "minValues": {"number": 0}, "maxValues": {"number": 0}, "nullCount": {"number": 0}}
    LocalTable(folder).append([NewFile(silent.path, silent.size, silent.rows, json.dumps(stats))], None)
    assert LocalTable(folder).greatest(("number",)) == (9,)
    assert LocalTable(folder).greatest(("number", "seldom")) is None, "one file does not tell of its own"
    without = a_file(folder, range(100, 101))
    untold = NewFile(without.path, without.size, without.rows, json.dumps({"numRecords": 1}))
    LocalTable(folder).append([untold], None)
    assert LocalTable(folder).greatest(("number", "seldom")) is None


@pytest.mark.parametrize(
    "feature",
    ["'delta.columnMapping.mode' = 'name'", "'delta.enableDeletionVectors' = 'true'"],
    ids=["column mapping", "deletion vectors"],
)
def test_a_table_whose_files_mean_more_than_their_rows_is_refused(
    spark: SparkSession, lake: LakeLayout, folder: Path, feature: str
) -> None:
    """A column that is mapped has another name in files: what is written under its own would be NULL."""
    spark.sql(f"ALTER TABLE {lake.ops('things')} SET TBLPROPERTIES ({feature})")
    for attempt in (
        lambda: LocalTable(folder).append([a_file(folder, range(1))], None),
        lambda: LocalTable(folder).greatest(("number",)),
        lambda: LocalTable(folder).find_rows(["number"], {"number": (0, 1)}, present="number"),
    ):
        with pytest.raises(ForeignCommitError, match=r"lake\.writer"):
            attempt()
    assert numbers(spark, lake) == []


@pytest.mark.parametrize("properties", [{}, MERGE_PROPERTIES])
def test_the_log_tells_which_columns_no_row_has_a_value_in(
    spark: SparkSession, lake: LakeLayout, properties: Mapping[str, str]
) -> None:
    table = LocalTable(new_table(spark, lake, properties))
    assert table.lacks(["name", "seldom"]), "it has no rows"
    spark.sql(f"INSERT INTO {lake.ops('things')} VALUES (1, 'a', NULL), (2, 'b', NULL)")
    assert table.lacks(["seldom"])
    assert not table.lacks(["seldom", "name"])
    spark.sql(f"INSERT INTO {lake.ops('things')} VALUES (3, 'c', NULL), (4, 'd', 7)")
    assert not table.lacks(["seldom"])
    spark.sql(f"DELETE FROM {lake.ops('things')} WHERE number > 2")
    assert table.lacks(["seldom"])


def test_a_column_that_came_later_is_not_known_to_be_without_values(spark: SparkSession, lake: LakeLayout) -> None:
    table = LocalTable(new_table(spark, lake, MERGE_PROPERTIES))
    spark.sql(f"INSERT INTO {lake.ops('things')} VALUES (1, 'a', NULL)")
    spark.sql(f"ALTER TABLE {lake.ops('things')} ADD COLUMN more STRING")
    assert not table.lacks(["more"])
