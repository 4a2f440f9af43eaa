"""Snapshot modes on a real server: what each does with an empty lake, a second start, and a slot that was lost."""

from __future__ import annotations

import sys
import types
from typing import TYPE_CHECKING

import pytest

from tests.bronze.snapshots.test_whole import SMALL, KilledError, T, killed_after, proven, read, told
from tests.variants import further
from walhouse.bronze.snapshots.modes import MODES, FixedPolicy
from walhouse.errors import (
    ConfigurationError,
    NotStreamingError,
    SlotGapError,
    SlotMissingError,
    SnapshotUnfinishedError,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.fixtures_house import MakeHouse
    from tests.fixtures_server import Database
    from walhouse.lakehouse.layout import LakeLayout

BASED = "snapshot.mode.configuration.based"


def slots(database: Database) -> list[str]:
    query = "SELECT slot_name FROM pg_replication_slots WHERE database = current_database()"
    return [name for (name,) in database.execute(query)]


@pytest.fixture
def rows(table: Database) -> Database:
    table.execute("INSERT INTO t SELECT n, 'x' FROM generate_series(1, 10) AS n")
    return table


def test_each_mode_says_when_tables_are_read() -> None:
    situations = [
        {"begun": False, "unfinished": False},
        {"begun": True, "unfinished": True},
        {"begun": True, "unfinished": False},
    ]
    answers = {
        name: [*(mode.reads_data(**each) for each in situations), mode.streams(), mode.reads_after_loss()]
        for name, mode in MODES.items()
    }
    assert answers == {
        "always": [True, True, True, True, False],
        "initial": [True, True, False, True, False],
        "initial_only": [True, True, False, False, False],
        "no_data": [False, False, False, True, False],
        "when_needed": [True, True, False, True, True],
    }


pytestmark = [pytest.mark.server, pytest.mark.spark]


@pytest.mark.slow
def test_always_reads_the_tables_at_each_start_and_streams_in_between(
    spark: SparkSession, rows: Database, lake: LakeLayout, make_house: MakeHouse
) -> None:
    house = make_house(snapshot_mode="always")
    house.run()
    rows.execute("DELETE FROM t WHERE id = 1", "INSERT INTO t VALUES (11, 'y')")
    house.run()
    assert sorted(read(spark, lake)) == [1] * 2 + [2] * 9  # 1 and 11 were there once
    events = spark.table(str(lake.silver(T))).where("op <> 'r'").orderBy("commit_lsn").select("op").collect()
    assert [row[0] for row in events] == ["d", "c"]
    assert proven(house)
    assert sorted(read(spark, lake)) == [1] * 2 + [2] * 9, "verify is no start"


@pytest.mark.slow
def test_initial_only_reads_once_and_leaves_neither_slot_nor_stream(
    spark: SparkSession, rows: Database, lake: LakeLayout, make_house: MakeHouse
) -> None:
    house = make_house(snapshot_mode="initial_only")
    house.run()
    assert slots(rows) == []
    assert house.status().slot.endswith("_once")
    rows.execute("INSERT INTO t VALUES (11, 'y')")
    house.run()
    assert spark.table(str(lake.gold(T))).count() == 10
    with pytest.raises(NotStreamingError):
        house.verify()
    with pytest.raises(SlotMissingError, match="when_needed"):
        make_house(snapshot_mode="initial").run()
    make_house(snapshot_mode="when_needed").run()
    assert proven(make_house())


@pytest.mark.slow
def test_initial_only_that_was_killed_goes_on_and_its_tables_are_of_one_moment(
    spark: SparkSession, rows: Database, lake: LakeLayout, make_house: MakeHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows.execute(
        "INSERT INTO t SELECT n, repeat('x', 1500) FROM generate_series(11, 100) AS n",
        "CREATE TABLE u (id int PRIMARY KEY)",
    )
    with monkeypatch.context() as patch:
        killed_after(1, patch)
        with pytest.raises(KilledError):
            make_house(snapshot_mode="initial_only", **SMALL).run()
    rows.execute("BEGIN; DELETE FROM t WHERE id = 1; INSERT INTO u VALUES (1); COMMIT")
    make_house(snapshot_mode="initial_only", **SMALL).run()
    assert spark.table(str(lake.gold(T))).where("id = 1").isEmpty()
    assert spark.table("" + str(lake.gold(T._replace(table="u")))).count() == 1
    assert slots(rows) == []


def test_a_mode_that_forbids_snapshots_does_not_go_on_with_one(
    rows: Database, make_house: MakeHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows.execute("INSERT INTO t SELECT n, repeat('x', 1500) FROM generate_series(11, 100) AS n")
    with monkeypatch.context() as patch:
        killed_after(1, patch)
        with pytest.raises(KilledError):
            make_house(**SMALL).run()
    with pytest.raises(SnapshotUnfinishedError):
        make_house(snapshot_mode="no_data").run()
    house = make_house()
    house.run()
    assert proven(house)


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["dropped", further("ahead"), further("published anew"), "not published"])
def test_when_needed_reads_all_tables_anew_if_changes_were_lost_and_says_so(
    spark: SparkSession, rows: Database, lake: LakeLayout, make_house: MakeHouse, loss: str
) -> None:
    make_house().run()
    [slot] = slots(rows)
    rows.execute("DELETE FROM t WHERE id = 1", "UPDATE t SET v = 'lost' WHERE id = 2", "INSERT INTO t VALUES (11, 'y')")
    rows.execute(
        *{
            "dropped": [f"SELECT pg_drop_replication_slot('{slot}')"],
            "ahead": [f"SELECT pg_replication_slot_advance('{slot}', pg_current_wal_flush_lsn())"],
            "published anew": ["DROP PUBLICATION walhouse_test", "CREATE PUBLICATION walhouse_test FOR TABLE t"],
            "not published": ["DROP PUBLICATION walhouse_test"],
        }[loss]
    )
    if "published" not in loss:
        with pytest.raises((SlotMissingError, SlotGapError), match="when_needed"):
            make_house().run()
    house = make_house(snapshot_mode="when_needed")
    house.run()
    assert proven(house)
    assert [event for event, _, _ in told(spark, lake)][-5:] == [
        "CHANGES_LOST",
        "STARTED",
        "IN_PROGRESS",
        "TABLE_SCAN_COMPLETED",
        "COMPLETED",
    ]
    rows.execute("INSERT INTO t VALUES (12, 'streamed')")
    house.run()
    assert proven(house)
    assert len(told(spark, lake)) == 9, "nothing is read once more"


@pytest.mark.slow
def test_switches_say_whether_to_read_and_whether_to_stream(
    spark: SparkSession, rows: Database, lake: LakeLayout, make_house: MakeHouse
) -> None:
    mode = {"snapshot_mode": "configuration_based", f"{BASED}.snapshot.data": True}
    house = make_house(**mode)
    house.run()
    rows.execute("DELETE FROM t WHERE id = 1")
    house.run()
    assert (spark.table(str(lake.gold(T))).count(), slots(rows)) == (9, [])
    make_house(**mode, **{f"{BASED}.start.stream": True, f"{BASED}.snapshot.on.data.error": True}).run()
    assert len(slots(rows)) == 1


class Sundays(FixedPolicy):
    """A mode of one's own."""


def test_a_mode_of_ones_own_is_a_python_object(
    spark: SparkSession, rows: Database, lake: LakeLayout, make_house: MakeHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = types.ModuleType("my_modes")
    module.never = lambda: Sundays(first=False)  # type: ignore[attr-defined]  # a module made here
    module.nothing = object()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "my_modes", module)
    make_house(snapshot_mode="custom", snapshot_mode_custom_name="my_modes:never").run()
    assert read(spark, lake) == []
    for name, reason in {"my_modes:nothing": "it lacks", "my_modes:other": "neither", "none": "neither"}.items():
        with pytest.raises(ConfigurationError, match=reason):
            make_house(snapshot_mode="custom", snapshot_mode_custom_name=name).run()
