"""Rows that moved behind a snapshot without sending their long value: all of them are read again, and none for ever."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.bronze.snapshots.conftest import T
from tests.variants import further
from walhouse import api
from walhouse.gold.unresolved import Unresolved, unresolved_keys
from walhouse.ops.reporting import Silent
from walhouse.rounds import capture_report

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.fixtures_house import MakeHouse
    from tests.fixtures_server import Database
    from walhouse.api import Walhouse
    from walhouse.lakehouse.layout import LakeLayout

pytestmark = [pytest.mark.server, pytest.mark.spark]


def _move_while_chunks_are_read(house: Walhouse, database: Database, moving: str) -> None:
    """Do it once the first 400 rows are read."""
    with house._writing():
        rounds = house._rounds(Silent())
        capture = rounds.open_capture()
        capture.begin(capture_report(rounds.reporter), starts=True)
        house.snapshot([T])
        while True:
            capture.requests._channels._polled = float("-inf")
            rounds._round(capture, time.monotonic())
            if any(each.after == ("400",) for each in capture.progress.queue.tables):
                break
        database.execute(moving)


@pytest.mark.slow
def test_all_rows_that_moved_are_read_again_a_few_at_a_time(
    spark: SparkSession, database: Database, lake: LakeLayout, long_rows: Walhouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("walhouse.gold.unresolved.AT_ONCE", 10)
    _move_while_chunks_are_read(long_rows, database, "UPDATE t SET id = -id WHERE id > 400")
    long_rows.run()
    assert spark.table(str(lake.gold(T))).where("_unavailable IS NOT NULL").isEmpty()
    assert all(proof.equal for proof in long_rows.verify())


@pytest.mark.slow
@pytest.mark.parametrize("by_single_commands", [further(False), True])
def test_a_row_that_comes_past_a_row_filter_without_its_long_value_is_read_again(
    by_single_commands: bool, spark: SparkSession, database: Database, lake: LakeLayout, make_house: MakeHouse
) -> None:
    """The server makes an insert of the update, and does not send what did not change."""
    database.execute(
        "CREATE TABLE t (id int PRIMARY KEY, v text)",
        "ALTER TABLE t ALTER v SET STORAGE EXTERNAL",
        "INSERT INTO t SELECT n, repeat(n::text, 3000) FROM generate_series(1, 4) n",
        "CREATE PUBLICATION walhouse_test FOR TABLE t WHERE (id > 2)",
    )
    house = make_house(publication_autocreate_mode="disabled")
    house.run()
    database.execute("UPDATE t SET id = 10 WHERE id = 1", "UPDATE t SET id = 11 WHERE id = 2")
    if by_single_commands:
        for _ in range(2):
            house.capture()
            house.gold()
    else:
        house.run()
    assert spark.table(str(lake.gold(T))).where("_unavailable IS NOT NULL").isEmpty()
    assert [(proof.equal, proof.gold_rows) for proof in house.verify()] == [(True, 4)]


@pytest.mark.slow
def test_rows_that_are_gone_do_not_keep_those_after_them_from_being_read(
    spark: SparkSession, database: Database, lake: LakeLayout, long_rows: Walhouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are deleted after gold was looked at, and before they are read: that chunk has no row."""
    monkeypatch.setattr("walhouse.gold.unresolved.AT_ONCE", 10)
    _move_while_chunks_are_read(long_rows, database, "UPDATE t SET id = -id WHERE id > 400 AND id <= 430")
    gone: list[object] = []

    def looked(*arguments: object) -> Unresolved:
        found = unresolved_keys(*arguments)  # type: ignore[arg-type]  # passed on as they came
        if found.keys and not gone:
            keys = ", ".join(key for (key,) in found.keys)
            gone.append(database.execute(f"DELETE FROM t WHERE id IN ({keys})"))
        return found

    monkeypatch.setattr(api, "unresolved_keys", looked)
    long_rows.run()
    assert gone
    assert spark.table(str(lake.gold(T))).where("_unavailable IS NOT NULL").isEmpty()
    assert [(proof.equal, proof.gold_rows) for proof in long_rows.verify()] == [(True, 490)]


@pytest.mark.slow
def test_rows_that_lack_their_value_still_are_not_read_for_ever(
    long_rows: Walhouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[tuple[int, int] | None] = []

    def never_there(*arguments: object) -> Unresolved:
        after = arguments[-1]
        assert after is None or after == (8, 1)
        looks.append(after)
        return Unresolved([("1",)], (8, 1)) if after is None else Unresolved([], None)

    long_rows.snapshot([T], "id < 3")
    monkeypatch.setattr(api, "unresolved_keys", never_there)
    long_rows.run()
    assert looks == [None, *[(8, 1), None] * 4, (8, 1)]
