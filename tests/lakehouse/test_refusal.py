"""A full disk has a name of its own, wherever it is met."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from walhouse.bronze.failure import on_driver
from walhouse.bronze.source import by_part
from walhouse.errors import ForeignCommitError, ForeignWriteError, LakeNotWritableError, SourceError
from walhouse.lakehouse.refusal import on_lake
from walhouse.ops.retry import retry_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from walhouse.lakehouse.layout import LakeLayout


FULL = Path("/dev/full")

needs_a_full_device = pytest.mark.skipif(not FULL.exists(), reason="this system has no device that is always full")


@needs_a_full_device
def test_a_file_that_does_not_fit_says_so() -> None:
    with pytest.raises(LakeNotWritableError, match="No space left on device") as refused, on_lake():
        FULL.write_bytes(b"row")
    assert refused.value.exit_code == 5


@needs_a_full_device
@pytest.mark.spark
def test_a_task_whose_file_does_not_fit_says_so(spark: SparkSession) -> None:
    def write(part: int) -> Iterator[pa.RecordBatch]:
        rows = pa.RecordBatch.from_pydict({"n": [part]})
        with pa.OSFile(str(FULL), "wb") as file, pq.ParquetWriter(file, rows.schema) as writer:
            writer.write_batch(rows)
        yield rows

    with pytest.raises(LakeNotWritableError, match="No space left on device"), on_lake(), on_driver():
        by_part(spark, 1, write, "n long").count()


@pytest.mark.spark
def test_a_table_that_somebody_else_writes_to_at_the_same_moment_says_so(
    spark: SparkSession, lake: LakeLayout, tmp_path: Path
) -> None:
    table, begun, done = lake.ops("t"), tmp_path / "begun", tmp_path / "done"
    spark.sql(f"CREATE SCHEMA IF NOT EXISTS {lake.ops_schema}")
    spark.sql(f"CREATE TABLE {table} USING delta LOCATION '{tmp_path / 't'}' AS SELECT 1 AS id")

    def waited_for(file: Path) -> None:
        deadline = time.monotonic() + 60
        while not file.exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def slowly(number: int) -> int:
        begun.touch()
        waited_for(done)
        return number

    def somebody_else() -> None:
        waited_for(begun)
        spark.sql(f"UPDATE {table} SET id = 3")
        done.touch()

    spark.udf.register("slowly", slowly, "int")
    with ThreadPoolExecutor(1) as other:
        wrote = other.submit(somebody_else)
        with pytest.raises(ForeignWriteError) as refused, on_lake():
            spark.sql(f"UPDATE {table} SET id = slowly(id)")
    wrote.result()
    assert str(refused.value.fields["condition"]).startswith("DELTA_CONCURRENT")
    assert retry_for(refused.value) is not None


def test_what_is_said_of_the_servers_disk_is_left_as_it_is() -> None:
    with pytest.raises(SourceError) as raised, on_lake():
        raise SourceError("could not write to file: No space left on device")
    assert type(raised.value) is SourceError


def test_a_commit_that_fails_for_another_reason_is_left_as_it_is() -> None:
    with pytest.raises(ForeignCommitError), on_lake():
        raise ForeignCommitError("the table needs more of Delta's protocol")
