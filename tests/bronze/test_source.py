"""What the tasks hand on: of rows that are large, no more than one at a time is kept."""

from __future__ import annotations

import io
import subprocess
import sys
import weakref
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.pandas.serializers import ArrowStreamSerializer

from walhouse.bronze import source
from walhouse.bronze.source import letting_go
from walhouse.pgoutput.row import batch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fixtures_house import MakeHouse
    from tests.fixtures_server import Database


def a_row(octets: np.ndarray[tuple[int], np.dtype[np.uint8]]) -> pa.RecordBatch:
    """A row whose long text is in these very bytes, whatever they are wrapped in."""
    offsets = pa.py_buffer(np.array([0, len(octets)], np.int32))
    text = pa.StringArray.from_buffers(1, offsets, pa.py_buffer(octets))
    return batch(1, {"pass": pa.array([1], pa.int64()), "after": text})


def rows_kept(monkeypatch: pytest.MonkeyPatch, large: int) -> tuple[list[int], int]:
    """How many of the earlier rows are there still when each is made, and how many PySpark's worker hands on."""
    from pyspark.sql.conversion import ArrowBatchTransformer  # older ones have it elsewhere

    monkeypatch.setattr(source, "LARGE", large)
    made: list[weakref.ref[Any]] = []
    kept: list[int] = []

    def row(_: int) -> pa.RecordBatch:
        kept.append(sum(each() is not None for each in made))
        octets = np.full(10_000, ord("x"), np.uint8)
        made.append(weakref.ref(octets))
        return a_row(octets)

    handed_on = io.BytesIO()
    batches = map(ArrowBatchTransformer.wrap_struct, letting_go(map(row, range(4))))
    ArrowStreamSerializer(write_start_stream=True).dump_stream(batches, handed_on)
    rows = pa.ipc.open_stream(handed_on.getvalue()[4:]).read_all().num_rows  # a number tells that Arrow begins
    return kept, rows


@pytest.mark.locked
def test_pysparks_worker_lets_a_large_row_go_before_the_next_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    assert rows_kept(monkeypatch, large=10_000) == ([0, 0, 0, 0], 4)
    kept, _ = rows_kept(monkeypatch, large=1_000_000)
    assert kept == [0, 1, 2, 2]  # small ones are handed on as they are: the first is kept, and the one before


@pytest.mark.server
@pytest.mark.spark
def test_capture_starts_no_python_processes_but_those_of_its_tasks(database: Database, make_house: MakeHouse) -> None:
    """A Python data source is made and planned in others: they cost more than reading a small range does."""
    database.execute("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    make_house().capture()
    daemons = {line[-1] for line in command_lines() if line[:3] == [sys.executable, "-m", "pyspark.daemon"]}
    # it looks for sources in Python once a session, whatever source is named first
    assert daemons - {"pyspark.sql.worker.lookup_data_sources"} == {"pyspark.worker"}


def command_lines() -> Iterator[list[str]]:
    """Of all processes; Debian's smallest installations have no program that lists them."""
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(FileNotFoundError, ProcessLookupError):  # it may have ended
            yield file.read_bytes().decode(errors="replace").rstrip("\0").split("\0")
    if sys.platform != "linux":
        listed = subprocess.run(["ps", "-axo", "args="], capture_output=True, encoding="utf-8", check=True).stdout
        yield from map(str.split, listed.splitlines())
