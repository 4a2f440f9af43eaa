"""Whole tables read in an exported snapshot, on a real server: interrupted, gone on with, asked for by a signal."""

from __future__ import annotations

import json
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from tests.variants import further
from walhouse.bronze.append import append
from walhouse.bronze.requests.notifications import notifications_of
from walhouse.changes.images import text_at
from walhouse.errors import ConditionError, TableNotReadError
from walhouse.names import TableName

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from tests.fixtures_house import MakeHouse
    from tests.fixtures_server import Database
    from walhouse.api import Walhouse
    from walhouse.lakehouse.layout import LakeLayout

pytestmark = [pytest.mark.server, pytest.mark.spark]

T, BAG = TableName("public", "t"), TableName("public", "bag")

SMALL = {"lake_snapshot_chunk_pages": 4, "lake_snapshot_pass_pages": 8}
"""Passes of two chunks: a table of 32 pages takes four."""


class KilledError(Exception):
    """Stands for a process that ends at once."""


@pytest.fixture
def wide(table: Database) -> Database:
    """``t`` with 32 pages and more, and after it a table without a key and a last one."""
    table.execute(
        "INSERT INTO t SELECT n, repeat('x', 1500) FROM generate_series(1, 160) AS n",
        "CREATE TABLE bag (v text)",
        "ALTER TABLE bag REPLICA IDENTITY FULL",
        "INSERT INTO bag SELECT n::text FROM generate_series(1, 50) AS n",
        "CREATE TABLE z (id int PRIMARY KEY)",
        "INSERT INTO z VALUES (1)",
    )
    return table


def killed_after(passes: int, monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], object] = lambda: None) -> None:
    """The process ends right after so many passes of the snapshot are durable."""
    done = [0]

    def counted(*arguments: Any) -> Any:
        if done[0] == passes:
            meanwhile()
            raise KilledError
        done[0] += 1
        return append(*arguments)

    monkeypatch.setattr("walhouse.bronze.snapshots.whole.append", counted)


def read(spark: SparkSession, lake: LakeLayout, table: TableName = T) -> list[int]:
    """How often each row of a table was read, by its first column."""
    rows = spark.table(str(lake.bronze)).where(f"kind = 'snapshot' AND table_name = '{table.table}'")
    return [row["count"] for row in rows.groupBy(text_at(F.col("after"), 0)).count().collect()]


def told(spark: SparkSession, lake: LakeLayout) -> list[tuple[str, ...]]:
    rows = spark.table(str(lake.ops("notifications"))).orderBy("timestamp", "number").collect()
    names = ("scanned_collection", "current_collection_in_progress")
    tables = (
        next((row["additional_data"][name] for name in names if name in row["additional_data"]), "") for row in rows
    )
    counts = (row["additional_data"].get("total_rows_scanned", "") for row in rows)
    return [(row["type"], table, count) for row, table, count in zip(rows, tables, counts, strict=True)]


def proven(house: Walhouse) -> bool:
    return all(proof.equal for proof in house.verify())


def test_an_initial_snapshot_is_told_as_debezium_tells_it_and_marks_its_first_and_last_row(
    spark: SparkSession, wide: Database, lake: LakeLayout, make_house: MakeHouse
) -> None:
    house = make_house(**SMALL)
    house.run()
    assert told(spark, lake) == [
        ("STARTED", "", ""),
        ("IN_PROGRESS", "public.bag", ""),
        ("TABLE_SCAN_COMPLETED", "public.bag", "50"),
        ("IN_PROGRESS", "public.t", ""),
        ("TABLE_SCAN_COMPLETED", "public.t", "160"),
        ("IN_PROGRESS", "public.z", ""),
        ("TABLE_SCAN_COMPLETED", "public.z", "1"),
        ("COMPLETED", "", ""),
    ]
    assert spark.table(str(lake.bronze)).where("kind = 'snapshot'").select("pass").distinct().count() > 3
    marks = {}
    for name in ("bag", "t", "z"):
        rows = spark.table(str(lake.silver(TableName("public", name)))).where("source.snapshot <> 'true'")
        marks[name] = [row[0] for row in rows.orderBy("seq").select("source.snapshot").collect()]
    assert marks == {
        "bag": ["first", "last_in_data_collection"],
        "t": ["first_in_data_collection", "last_in_data_collection"],
        "z": ["last"],
    }
    assert proven(house)


@pytest.mark.slow
def test_rows_of_a_snapshot_have_the_id_of_a_transaction_that_keeps_no_slot_from_being_made(
    spark: SparkSession, wide: Database, lake: LakeLayout, make_house: MakeHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []

    def beside(*arguments: Any) -> Any:
        with wide.connect(options="-c statement_timeout=20s") as connection:
            slot = f"{wide.name}_other"
            connection.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [slot])
            connection.execute("SELECT pg_drop_replication_slot(%s)", [slot])
        made.append(slot)
        return append(*arguments)

    [(first,)] = wide.execute("SELECT pg_current_xact_id()::text::bigint")
    house = make_house(**SMALL)
    with monkeypatch.context() as patch:
        patch.setattr("walhouse.bronze.snapshots.whole.append", beside)
        house.run()
    assert len(made) > 3, "between any two passes"
    [(last,)] = wide.execute("SELECT pg_current_xact_id()::text::bigint")
    events = spark.table(str(lake.silver(T))).select("source.txId", "xid", "transaction").distinct().collect()
    assert [(row["txId"] == row["xid"], row["transaction"]) for row in events] == [(True, None)]
    assert first < events[0]["txId"] < last


def test_rows_are_told_exactly_however_many_tables_one_pass_reads(
    spark: SparkSession, database: Database, lake: LakeLayout, make_house: MakeHouse
) -> None:
    """Some are counted while they are written, the others by a look at bronze; one schema's name is not enough."""
    tables = [f"t{number}" for number in range(1, 10)]
    for number, table in enumerate(tables):
        database.execute(
            f"CREATE TABLE {table} (id int PRIMARY KEY)",
            f"INSERT INTO {table} SELECT generate_series(1, {number})",
        )
    database.execute("CREATE SCHEMA other", "CREATE TABLE other.t2 (id int PRIMARY KEY)")
    database.execute("INSERT INTO other.t2 SELECT generate_series(1, 70)")
    make_house().capture()
    ended = {table: int(count) for kind, table, count in told(spark, lake) if kind == "TABLE_SCAN_COMPLETED"}
    assert ended == {"other.t2": 70} | {f"public.{table}": number for number, table in enumerate(tables)}


@pytest.mark.parametrize("passes", [further(1), 3])
def test_a_snapshot_that_was_killed_goes_on_where_it_was_and_reads_nothing_twice(
    spark: SparkSession,
    wide: Database,
    lake: LakeLayout,
    make_house: MakeHouse,
    monkeypatch: pytest.MonkeyPatch,
    passes: int,
) -> None:
    with monkeypatch.context() as patch:
        killed_after(passes, patch)
        with pytest.raises(KilledError):
            make_house(**SMALL).run()
    before = spark.table(str(lake.bronze)).where("kind = 'snapshot'").count()
    assert before > 0
    wide.execute(
        "DELETE FROM t WHERE id % 50 = 0",  # read or not, they are gone from gold
        "INSERT INTO t VALUES (1000, 'new')",
        "DELETE FROM bag WHERE v = '7'",
    )
    house = make_house(**SMALL)
    house.run()
    assert proven(house)
    assert set(read(spark, lake)) == {1}
    assert set(read(spark, lake, BAG)) == {1}
    notes = told(spark, lake)
    assert [note for note in notes if note[0] == "COMPLETED"] == [("COMPLETED", "", "")]
    assert len(notes) == len(set(notes)) == 8, "each is told once"
    assert wide.execute("SELECT count(*) FROM pg_replication_slots WHERE temporary") == [(0,)]


@pytest.mark.slow
def test_rows_that_moved_between_two_snapshots_of_one_reading_are_whole_again(
    spark: SparkSession, wide: Database, lake: LakeLayout, make_house: MakeHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row of the unread part moves to a page that was read: the stream sends it without its long value."""
    wide.execute(
        "ALTER TABLE t ADD big text",
        "ALTER TABLE t ALTER big SET STORAGE EXTERNAL",
        "UPDATE t SET big = repeat(id::text, 4000)",
        "VACUUM FULL t",
    )
    with monkeypatch.context() as patch:
        killed_after(2, patch)
        with pytest.raises(KilledError):
            make_house(**SMALL).run()
    wide.execute("DELETE FROM t WHERE id <= 20", "VACUUM t", "UPDATE t SET v = repeat('y', 1500) WHERE id > 155")
    [(moved,)] = wide.execute("SELECT count(*) FROM t WHERE v LIKE 'y%' AND ctid < '(8,0)'::tid")
    assert moved > 0, "some moved to pages that were read"
    house = make_house(**SMALL)
    house.run()
    assert proven(house)


@pytest.mark.slow
@pytest.mark.parametrize("change", ["VACUUM FULL t", "ALTER TABLE t ADD more int DEFAULT 7"])
def test_a_table_that_was_rewritten_or_altered_meanwhile_is_read_again_from_its_first_page(
    spark: SparkSession,
    wide: Database,
    lake: LakeLayout,
    make_house: MakeHouse,
    monkeypatch: pytest.MonkeyPatch,
    change: str,
) -> None:
    with monkeypatch.context() as patch:
        killed_after(2, patch)
        with pytest.raises(KilledError):
            make_house(**SMALL).run()
    wide.execute("DELETE FROM t WHERE id < 50", change)  # what was on unread pages is on read ones now
    house = make_house(**SMALL)
    house.run()
    assert proven(house)
    assert max(read(spark, lake)) == 2


@pytest.mark.slow
def test_tables_are_read_in_the_order_of_the_include_list_and_only_those_that_are_wanted(
    spark: SparkSession, wide: Database, lake: LakeLayout, make_house: MakeHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    sleep = time.sleep

    def noted(seconds: float) -> None:
        slept.append(seconds)
        sleep(seconds)

    with monkeypatch.context() as patch:
        patch.setattr(time, "sleep", noted)
        make_house(
            table_include_list=r"public\.z,public\..*",
            snapshot_include_collection_list=r"public\.[tz]",
            snapshot_delay_ms=123,
            streaming_delay_ms=321,
            **SMALL,
        ).run()
    assert [seconds for seconds in slept if seconds in {0.123, 0.321}] == [0.123, 0.321], "before and after"
    assert [table for event, table, _ in told(spark, lake) if event == "IN_PROGRESS"] == ["public.z", "public.t"]
    wide.execute("INSERT INTO bag VALUES ('streamed')")
    make_house(table_include_list=r"public\.z,public\..*", snapshot_include_collection_list=r"public\.[tz]").run()
    assert [row["v"] for row in spark.table(str(lake.gold(BAG))).collect()] == ["streamed"]


def overrides(**statements: str) -> dict[str, str]:
    name = "snapshot.select.statement.overrides"
    return {name: ",".join(f"public.{table}" for table in statements)} | {
        f"{name}.public.{table}": statement for table, statement in statements.items()
    }


def test_a_statement_of_ones_own_says_which_rows_and_columns_an_initial_snapshot_reads(
    spark: SparkSession, wide: Database, lake: LakeLayout, make_house: MakeHouse
) -> None:
    house = make_house(**overrides(t="SELECT id FROM public.t WHERE id <= 10 -- the first ten"), **SMALL)
    house.run()
    rows = spark.table(str(lake.gold(T)))
    assert (rows.count(), rows.where("v IS NULL").count()) == (10, 10)
    assert spark.table(str(lake.gold(BAG))).count() == 50


@pytest.mark.slow
def test_names_in_a_statement_are_those_of_the_users_sessions(
    spark: SparkSession, wide: Database, lake: LakeLayout, make_house: MakeHouse
) -> None:
    wide.execute(
        "CREATE EXTENSION citext",
        "CREATE TABLE people (id int PRIMARY KEY, email citext)",
        "INSERT INTO people VALUES (1, 'Ann'), (2, 'ANN'), (3, 'bob')",
    )
    house = make_house(**overrides(people="SELECT * FROM people WHERE email = 'ann'"), **SMALL)
    house.run()
    assert spark.table(str(lake.gold(TableName("public", "people")))).count() == 2
    select = "SELECT * FROM people WHERE email = 'BOB'"
    ask(house, ["people"], people=select)
    house.run()
    assert [proof.equal for proof in house.verify([TableName("public", "people")])] == [True]


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM public.t RETURNING *",
        "SELECT 1 AS other",
        "SELECT v FROM public.t",
        "SELECT 1) AS a; DROP TABLE t; SELECT (1",
        "SELECT",
        "",
    ],
)
def test_a_statement_that_is_no_select_stops_capture_and_changes_nothing(
    spark: SparkSession, wide: Database, lake: LakeLayout, make_house: MakeHouse, statement: str
) -> None:
    with pytest.raises(ConditionError, match=r"public\.t is no SELECT"):
        make_house(**overrides(t=statement)).capture()
    assert wide.execute("SELECT count(*) FROM t") == [(160,)]
    assert spark.table(str(lake.bronze)).isEmpty()


def ask(house: Walhouse, tables: list[str], **conditions: str) -> str:
    data: dict[str, object] = {
        "data-collections": [rf"public\.{table}" for table in tables],
        "type": "blocking",
        "additional-conditions": [
            {"data-collection": rf"public\.{table}", "filter": select} for table, select in conditions.items()
        ],
    }
    return house.signal("execute-snapshot", data)


@pytest.mark.slow
def test_a_blocking_snapshot_reads_tables_whole_or_by_a_select_while_the_source_is_written_to(
    spark: SparkSession, wide: Database, lake: LakeLayout, make_house: MakeHouse
) -> None:
    house = make_house(snapshot_mode="no_data", **SMALL)
    house.run()
    stop = threading.Event()

    def write() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            wide.execute(
                f"UPDATE t SET v = '{number}' WHERE id = {number % 160}", f"INSERT INTO bag VALUES ('more {number}')"
            )

    writer = threading.Thread(target=write)
    writer.start()
    try:
        request = ask(house, ["bag", "t"])
        house.run()
    finally:
        stop.set()
        writer.join()
    (*_, last) = house.follow(request)
    assert last.type == "COMPLETED"
    house.run()
    equal = {proof.table.table: proof.equal for proof in house.verify()}
    assert equal == {"bag": True, "t": True, "z": False}, "z was never read"
    before = spark.table(str(lake.silver(T))).where("op = 'r'").count()
    house.follow(ask(house, ["t"], t="SELECT * FROM public.t WHERE id BETWEEN 5 AND 9"))
    assert spark.table(str(lake.silver(T))).where("op = 'r'").count() == before + 5
    assert {proof.table.table: proof.equal for proof in house.verify()}["t"], "the others are still there"


@pytest.mark.slow
def test_a_table_that_a_blocking_snapshot_cannot_read_is_answered_and_the_others_are_read(
    spark: SparkSession, wide: Database, lake: LakeLayout, make_house: MakeHouse
) -> None:
    house = make_house(snapshot_mode="no_data", **SMALL)
    house.run()
    by_zero = "SELECT id, (1 / (id - 7))::text AS v FROM public.t"
    bad = ask(house, ["bag", "t", "z"], bag="SELECT * FROM public.bag", t=by_zero)
    with pytest.raises(TableNotReadError):
        house.follow(bad)
    notes = notifications_of(spark, lake, bad)
    assert notes[0].type == "STARTED"
    assert {note.data["scanned_collection"]: note.data["status"] for note in notes if "status" in note.data} == {
        "public.bag": "SQL_EXCEPTION",
        "public.t": "SQL_EXCEPTION",
        "public.z": "SUCCEEDED",
    }
    assert notes[-1].type == "COMPLETED"
    assert "id - 7" not in json.dumps([dict(note.data) for note in notes]), "a statement may hold values"
    assert spark.table(str(lake.gold(TableName("public", "z")))).count() == 1
