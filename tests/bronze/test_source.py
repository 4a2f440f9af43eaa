"""What the tasks hand on: of rows that are large, no more than one at a time is kept."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.worker.plan_data_source_read import records_to_arrow_batches

from walhouse.bronze import source
from walhouse.bronze.source import letting_go
from walhouse.bronze.table import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

SCHEMA = to_arrow_schema(COLUMNS, timezone="UTC")


def a_row() -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"pass": 1, "after": "x" * 10_000}], SCHEMA)


def rows_kept(monkeypatch: pytest.MonkeyPatch, large: int) -> tuple[list[int], int]:
    """How many of the earlier rows are there still when each is made, and how many PySpark's worker gets."""
    monkeypatch.setattr(source, "LARGE", large)
    made: list[weakref.ref[pa.RecordBatch]] = []
    kept: list[int] = []

    def row(_: int) -> pa.RecordBatch:
        kept.append(sum(each() is not None for each in made))
        batch = a_row()
        made.append(weakref.ref(batch))
        return batch

    def worker() -> Iterator[int]:
        for batch in records_to_arrow_batches(letting_go(map(row, range(4))), 1_000, COLUMNS, None):  # type: ignore[arg-type]  # it is asked only if rows do not fit
            yield batch.num_rows

    return kept, sum(worker())


def test_pysparks_worker_lets_a_large_row_go_before_the_next_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    assert rows_kept(monkeypatch, large=10_000) == ([0, 0, 0, 0], 4)
    kept, _ = rows_kept(monkeypatch, large=1_000_000)
    assert kept == [0, 1, 2, 2]  # small ones are handed on as they are: the first is kept, and the one before
