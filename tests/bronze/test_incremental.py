"""Incremental snapshots on a real server: each chunk in a snapshot of its own, while the stream goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from walhouse.bronze.incremental import IncrementalSnapshots
from walhouse.bronze.notifications import notifications_of
from walhouse.errors import TableNotReadError
from walhouse.names import TableName

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.fixtures_house import MakeHouse
    from tests.fixtures_server import Database
    from walhouse.api import Walhouse
    from walhouse.bronze.incremental import ChunksRead
    from walhouse.bronze.progress import Progress
    from walhouse.lakehouse.layout import LakeLayout

pytestmark = [pytest.mark.server, pytest.mark.spark]

T = TableName("public", "t")


@pytest.fixture
def house(table: Database, make_house: MakeHouse) -> Walhouse:
    """Captures a table of 500 rows from now on, without an initial snapshot, in chunks of 100 rows."""
    table.execute("INSERT INTO t SELECT n, 'row ' || n FROM generate_series(1, 500) AS n")
    house = make_house(snapshot_mode="no_data", incremental_snapshot_chunk_size=100, lake_snapshot_pass_rows=200)
    house.run()
    return house


def notes(spark: SparkSession, lake: LakeLayout) -> list[tuple[str, ...]]:
    rows = spark.table(str(lake.ops("notifications"))).orderBy("timestamp").collect()
    return [(row["id"], row["type"], row["additional_data"].get("status", "")) for row in rows]


def test_a_table_is_read_by_chunks_and_gold_is_the_source(
    spark: SparkSession, table: Database, lake: LakeLayout, house: Walhouse
) -> None:
    table.execute("UPDATE t SET v = 'new' WHERE id = 7")
    house.snapshot([T], signal_id="mine")
    house.run()
    (proof,) = house.verify()
    assert (proof.equal, proof.source_rows) == (True, 500)
    read = spark.table(str(lake.bronze)).where("kind = 'snapshot'")
    assert read.select("snapshot.chunk").distinct().count() == 5
    assert read.select("pass").distinct().count() == 3
    events = spark.table(str(lake.silver(T))).where("op = 'r'")
    assert events.count() == 500
    assert [
        tuple(row) for row in events.select("source.snapshot", "source.lsn", "source.txId").distinct().collect()
    ] == [("incremental", None, None)]
    assert notes(spark, lake) == [
        ("mine", "STARTED", ""),
        *[("mine", "IN_PROGRESS", "")] * 3,
        ("mine", "TABLE_SCAN_COMPLETED", "SUCCEEDED"),
        ("mine", "COMPLETED", ""),
    ]


def test_a_part_of_a_table_is_read_by_a_condition_and_the_last_chunk_ends_where_the_table_did(
    spark: SparkSession, table: Database, lake: LakeLayout, house: Walhouse
) -> None:
    house.snapshot([T], where="id % 10 = 0 -- every tenth")
    house.capture()
    read = spark.table(str(lake.bronze)).where("kind = 'snapshot'")
    assert sorted(int(row[0]) for row in read.selectExpr("after[0]").collect()) == list(range(10, 501, 10))


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        ("id = 1; DELETE FROM t", "no SQL expression"),
        ("id = ", "no SQL expression"),
        ("nobody = 1", "no SQL expression"),
        ("true) UNION SELECT 1, (pg_sleep(0)::text", "no SQL expression"),
        ("public.writes()", "refused a statement"),
    ],
)
def test_a_condition_that_is_none_is_answered_and_changes_nothing(
    condition: str, reason: str, spark: SparkSession, table: Database, lake: LakeLayout, house: Walhouse
) -> None:
    table.execute(
        "CREATE FUNCTION writes() RETURNS boolean LANGUAGE sql VOLATILE AS 'DELETE FROM public.t RETURNING true'"
    )
    request = house.snapshot([T], where=condition)
    house.run()
    assert table.execute("SELECT count(*) FROM t") == [(500,)]
    last, _ = notifications_of(spark, lake, request)[-2:]
    assert last.data["status"] == "SQL_EXCEPTION"
    assert reason in last.data["reason"]
    table.execute("UPDATE t SET v = 'after' WHERE id = 1")
    house.run()
    assert spark.table(str(lake.gold(T))).count() == 1, "the stream goes on"


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
        "CREATE TABLE empty (id int PRIMARY KEY)",
        "CREATE TABLE gone (id int PRIMARY KEY)",
    )
    house = make_house(snapshot_mode="no_data")
    house.run()
    request = house.snapshot([TableName("public", name) for name in ("gone", "bag", "empty", "t")])
    step = IncrementalSnapshots.step

    def after_a_table_is_gone(snapshots: IncrementalSnapshots, progress: Progress) -> ChunksRead:
        table.execute("DROP TABLE IF EXISTS gone")
        return step(snapshots, progress)

    monkeypatch.setattr(IncrementalSnapshots, "step", after_a_table_is_gone)
    house.run()
    told = [note.data for note in notifications_of(spark, lake, request) if "status" in note.data]
    assert {each["scanned_collection"]: each["status"] for each in told} == {
        "public.gone": "UNKNOWN_SCHEMA",
        "public.bag": "NO_PRIMARY_KEY",
        "public.empty": "EMPTY",
        "public.t": "SUCCEEDED",
    }
    with pytest.raises(TableNotReadError, match="gone was not read"):
        house.follow(request)
