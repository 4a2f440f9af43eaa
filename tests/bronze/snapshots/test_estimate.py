"""How far a snapshot is, told to people."""

from __future__ import annotations

from dataclasses import replace

import pytest

from walhouse.bronze.snapshots.estimate import duration, of_chunks, of_reading
from walhouse.bronze.snapshots.queue import QueuedTable
from walhouse.bronze.snapshots.reading import WholeKind, WholeReading, WholeTable
from walhouse.names import TableName

T, U = TableName("s", "t"), TableName("s", "u")


def test_what_is_left_is_told_by_the_pages_of_all_tables_those_that_are_done_among_them() -> None:
    reading = WholeReading(
        "r",
        WholeKind.INITIAL,
        (WholeTable(T, pages=100, pages_read=50), WholeTable(U, pages=50)),
        1000.0,
        pages_done=50,
    )
    estimate = of_reading(reading, now=1010.0)
    assert (estimate.fraction, estimate.seconds_left) == (0.5, 10.0)
    assert str(estimate) == "50%, about 10 s left"


def test_what_is_left_of_a_table_is_told_by_its_estimated_rows() -> None:
    table = QueuedTable("r", T, chunks=3, began=1000.0)
    assert of_chunks(table, 10, 40, now=1003.0).seconds_left == pytest.approx(1.0)
    assert of_chunks(table, 10, 20, now=1003.0).fraction == 1.0, "there were more rows than the statistics knew of"


def test_what_grew_meanwhile_or_has_not_begun_or_began_by_another_clock_is_told_all_the_same() -> None:
    table = WholeTable(T, pages=100, pages_read=150)
    reading = WholeReading("r", WholeKind.INITIAL, (table,), 1000.0)
    assert str(of_reading(reading, now=1010.0)) == "100%"
    assert of_reading(reading, now=990.0).seconds == 0.0
    assert str(of_reading(reading.with_table(replace(table, pages_read=0)), now=1010.0)) == "0%"


def test_what_nobody_knows_is_not_told() -> None:
    assert str(of_chunks(QueuedTable("r", T), 10, None, now=0.0)) == ""
    assert of_reading(WholeReading("r", WholeKind.INITIAL, ()), now=0.0).fraction is None


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0 s"), (59, "59 s"), (185, "3:05 min"), (9000, "2:30 h")])
def test_a_duration_is_written_for_people(seconds: float, text: str) -> None:
    assert duration(seconds) == text
