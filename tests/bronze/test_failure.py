"""What ends a task reaches the caller as an error of ours, the death of its process too."""

from __future__ import annotations

import logging
import os
import signal
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from walhouse.bronze.failure import lost_worker, on_driver
from walhouse.bronze.source import by_part
from walhouse.errors import SlotGapError, WorkerLostError
from walhouse.ops.retry import POLICY, Retry, despite_passing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    ReadPart = Callable[[int], Iterator[pa.RecordBatch]]


def rows_of(spark: SparkSession, read: ReadPart) -> int:
    with on_driver():
        return by_part(spark, 2, read, "n long").count()


def dying(died: Path, signal_number: int, times: int) -> ReadPart:
    """Reads one row, in a process that is ended by this signal the first times."""

    def read(part: int) -> Iterator[pa.RecordBatch]:
        if part == 1 and len(died.read_bytes()) < times:
            with died.open("ab") as file:
                file.write(b"+")
            os.kill(os.getpid(), signal_number)
        yield pa.RecordBatch.from_pydict({"n": [part]})

    return read


@pytest.fixture
def died(tmp_path: Path) -> Path:
    """A file with a byte for each process that died."""
    file = tmp_path / "died"
    file.touch()
    return file


@pytest.fixture
def no_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(POLICY, WorkerLostError, Retry(delay_seconds=0.001, times=2))


@pytest.mark.spark
def test_an_error_of_ours_in_a_task_is_the_same_error_on_the_driver(spark: SparkSession) -> None:
    def read(part: int) -> Iterator[pa.RecordBatch]:
        if part >= 0:
            raise SlotGapError("It begins too late.", slot="s", lsn=7)
        yield pa.RecordBatch.from_pydict({"n": [part]})

    with pytest.raises(SlotGapError, match="It begins too late") as raised:
        rows_of(spark, read)
    assert raised.value.fields == {"slot": "s", "lsn": 7}


@pytest.mark.spark
def test_a_process_that_dies_says_where(spark: SparkSession, died: Path) -> None:
    with pytest.raises(WorkerLostError, match="Segmentation fault, in read ") as raised:
        rows_of(spark, dying(died, signal.SIGSEGV, times=1))
    assert raised.value.fields["fault"] == "Fatal Python error: Segmentation fault"
    assert "test_failure.py" in str(raised.value.fields["where"]).split(", ")[0]


@pytest.mark.spark
@pytest.mark.usefixtures("no_delay")
def test_what_a_killed_process_read_is_read_again_and_told_of(
    spark: SparkSession, died: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "walhouse"):
        assert despite_passing(lambda: rows_of(spark, dying(died, signal.SIGKILL, times=1))) == 2
    assert [record.getMessage() for record in caplog.records] == [
        "A Python process of Spark's died in the midst of a task: it was killed, or ended by itself. It is tried again."
    ]


@pytest.mark.spark
@pytest.mark.usefixtures("no_delay")
def test_a_process_that_dies_again_and_again_ends_the_work(spark: SparkSession, died: Path) -> None:
    with pytest.raises(WorkerLostError):
        despite_passing(lambda: rows_of(spark, dying(died, signal.SIGKILL, times=9)))
    assert died.read_bytes() == b"+++", "the first time, and two times more"


def test_any_other_failure_of_a_task_is_no_death() -> None:
    assert lost_worker("Job aborted: ZeroDivisionError: division by zero") is None
