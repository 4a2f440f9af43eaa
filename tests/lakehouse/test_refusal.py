"""A full disk has a name of its own, wherever it is met."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from walhouse.bronze.failure import on_driver
from walhouse.bronze.source import by_part
from walhouse.errors import ForeignCommitError, LakeNotWritableError, SourceError
from walhouse.lakehouse.refusal import on_lake

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


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


def test_what_is_said_of_the_servers_disk_is_left_as_it_is() -> None:
    with pytest.raises(SourceError) as raised, on_lake():
        raise SourceError("could not write to file: No space left on device")
    assert type(raised.value) is SourceError


def test_a_commit_that_fails_for_another_reason_is_left_as_it_is() -> None:
    with pytest.raises(ForeignCommitError), on_lake():
        raise ForeignCommitError("the table needs more of Delta's protocol")
