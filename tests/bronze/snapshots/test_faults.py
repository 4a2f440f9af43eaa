"""What a reading by chunks does when a table, a column or a condition is not what was asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.bronze.snapshots.conftest import T
from tests.fixtures_house import logged_in_as
from tests.variants import further
from walhouse.bronze.requests.notifications import notifications_of
from walhouse.bronze.snapshots.incremental import IncrementalSnapshots
from walhouse.errors import TableNotReadError
from walhouse.names import TableName
from walhouse.postgres.key_chunks import chunk_ends

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from tests.fixtures_house import MakeHouse
    from tests.fixtures_server import Database
    from walhouse.api import Walhouse
    from walhouse.bronze.snapshots.incremental import ChunksRead
    from walhouse.config.connection import ConnectionSettings
    from walhouse.lakehouse.layout import LakeLayout
    from walhouse.postgres.keyed_table import Key

pytestmark = [pytest.mark.server, pytest.mark.spark]

WRONG_CONDITIONS = {
    "id = 1; DELETE FROM t": "no SQL expression",
    "id = ": "no SQL expression",
    "nobody = 1": "no SQL expression",
    "true) OR (true": "no SQL expression",
    "true) UNION SELECT 1, (pg_sleep(0)::text": "no SQL expression",
    "public.writes()": "that writes was refused",
}


def test_a_condition_that_is_none_is_answered_and_changes_nothing(
    spark: SparkSession, table: Database, lake: LakeLayout, house: Walhouse
) -> None:
    table.execute(
        "CREATE FUNCTION writes() RETURNS boolean LANGUAGE sql VOLATILE AS 'DELETE FROM public.t RETURNING true'"
    )
    requests = {house.snapshot([T], where=condition): reason for condition, reason in WRONG_CONDITIONS.items()}
    data = {"data-collections": [r"public\.t"], "surrogate-key": "nobody"}
    requests[house.signal("execute-snapshot", data)] = "is no captured column"
    table.execute("UPDATE t SET v = 'after' WHERE id = 1")
    house.run()
    assert table.execute("SELECT count(*) FROM t") == [(500,)]
    for request, reason in requests.items():
        last, _ = notifications_of(spark, lake, request)[-2:]
        assert last.data["status"] == "SQL_EXCEPTION"
        assert reason in last.data["reason"]
    assert spark.table(str(lake.gold(T))).count() == 1, "the stream goes on"


@pytest.mark.slow
def test_tables_that_cannot_be_read_are_passed_over_and_the_others_are_read(
    spark: SparkSession,
    table: Database,
    lake: LakeLayout,
    make_house: MakeHouse,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table.execute(
        "INSERT INTO t VALUES (1, 'x')",
        "CREATE TABLE bag (v text)",
        "INSERT INTO bag VALUES ('twice'), ('twice')",
        "CREATE TABLE empty (id int PRIMARY KEY)",
        "CREATE TABLE gone (id int PRIMARY KEY)",
    )
    house = make_house(snapshot_mode="no_data")
    house.run()
    request = house.snapshot([TableName("public", name) for name in ("gone", "bag", "empty", "t")])
    step = IncrementalSnapshots.step

    def after_a_table_is_gone(snapshots: IncrementalSnapshots, *how: Any) -> ChunksRead:
        table.execute("DROP TABLE IF EXISTS gone")
        return step(snapshots, *how)

    monkeypatch.setattr(IncrementalSnapshots, "step", after_a_table_is_gone)
    house.run()
    told = [note.data for note in notifications_of(spark, lake, request) if "status" in note.data]
    assert {each["scanned_collection"]: each["status"] for each in told} == {
        "public.gone": "UNKNOWN_SCHEMA",
        "public.bag": "SUCCEEDED",  # whole, in one snapshot: nothing tells its rows apart
        "public.empty": "EMPTY",
        "public.t": "SUCCEEDED",
    }
    with pytest.raises(TableNotReadError, match="gone was not read"):
        house.follow(request)
    assert all(proof.equal for proof in house.verify([T, TableName("public", "bag")]))
    part = house.snapshot([TableName("public", "bag")], where="v = 'twice'")
    house.run()
    assert [note.data["status"] for note in notifications_of(spark, lake, part) if "status" in note.data] == [
        "NO_PRIMARY_KEY"
    ]


@pytest.mark.slow
def test_a_column_that_comes_between_planning_and_reading_a_chunk_is_read_with_it(
    spark: SparkSession, table: Database, lake: LakeLayout, house: Walhouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = chunk_ends

    def then_the_table_changes(*planned: Any, **how: Any) -> list[Key]:
        ends = plan(*planned, **how)
        table.execute("ALTER TABLE t ADD COLUMN IF NOT EXISTS more int", "UPDATE t SET more = id WHERE id % 100 = 0")
        return ends

    monkeypatch.setattr("walhouse.bronze.snapshots.incremental.chunk_ends", then_the_table_changes)
    house.snapshot([T])
    house.run()
    assert spark.table(str(lake.gold(T))).where("more = id").count() == 5
    assert all(proof.equal for proof in house.verify())


AWAY = 'relation "public.t" does not exist'


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "said"),
    [
        further("DROP TABLE t", AWAY),
        ("ALTER TABLE t RENAME TO other", AWAY),
        further("REVOKE SELECT ON t FROM {reader}", "permission denied"),
    ],
)
def test_a_table_that_is_lost_between_planning_and_reading_a_chunk_is_answered_and_the_others_are_read(
    fault: str,
    said: str,
    spark: SparkSession,
    table: Database,
    role: Callable[[str], ConnectionSettings],
    lake: LakeLayout,
    make_house: MakeHouse,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reader = role("REPLICATION")
    table.execute(
        "CREATE TABLE u (id int PRIMARY KEY)",
        "INSERT INTO u SELECT generate_series(1, 10)",
        "INSERT INTO t SELECT n, 'x' FROM generate_series(1, 10) AS n",
        "CREATE PUBLICATION walhouse_test FOR TABLE t, u",
        f"GRANT SELECT ON t, u TO {reader.user}",
    )
    plan = chunk_ends

    def then_it_is_lost(*planned: Any, **how: Any) -> list[Key]:
        ends = plan(*planned, **how)
        monkeypatch.undo()
        table.execute(fault.format(reader=reader.user))
        return ends

    house = make_house(snapshot_mode="no_data", incremental_snapshot_chunk_size=5, **logged_in_as(reader))
    house.run()
    monkeypatch.setattr("walhouse.bronze.snapshots.incremental.chunk_ends", then_it_is_lost)
    request = house.snapshot([T, TableName("public", "u")])
    table.execute("INSERT INTO u VALUES (11)")
    house.run()
    told = [note.data for note in notifications_of(spark, lake, request) if "status" in note.data]
    assert [(each["scanned_collection"], each["status"]) for each in told] == [
        ("public.t", "SQL_EXCEPTION"),
        ("public.u", "SUCCEEDED"),
    ]
    assert said in told[0]["reason"]
    assert [proof.equal for proof in house.verify([TableName("public", "u")])] == [True]
