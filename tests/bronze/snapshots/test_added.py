"""Tables that are added to a publication on a real server: what they held before was never sent, and is read."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.bronze.snapshots.conftest import T
from walhouse.bronze.stream import Stream
from walhouse.names import TableName
from walhouse.ops.reporting import Silent
from walhouse.rounds import capture_report

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.fixtures_house import MakeHouse
    from tests.fixtures_server import Database
    from walhouse.api import Walhouse
    from walhouse.lakehouse.layout import LakeLayout
    from walhouse.postgres.publication import PublicationState

pytestmark = [pytest.mark.server, pytest.mark.spark]


@pytest.mark.slow
def test_tables_of_a_schema_that_is_added_are_read(database: Database, make_house: MakeHouse) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY)", "CREATE PUBLICATION own FOR TABLE t")
    settings = {"publication_name": "own", "publication_autocreate_mode": "disabled"}
    house = make_house(**settings, table_include_list="public.t,other.*")
    house.run()
    database.execute(
        "CREATE SCHEMA other",
        "CREATE TABLE other.late (id int PRIMARY KEY)",
        "INSERT INTO other.late SELECT generate_series(1, 10)",
        "ALTER PUBLICATION own ADD TABLES IN SCHEMA other",
    )
    house.run()
    (proof,) = house.verify([TableName("other", "late")])
    assert (proof.equal, proof.gold_rows) == (True, 10)


@pytest.mark.slow
def test_rows_that_a_row_filter_left_out_are_read_once_the_tables_schema_is_published(
    database: Database, make_house: MakeHouse
) -> None:
    """A table that is published by its schema, too, has no filter, whatever its own entry says still."""
    database.execute(
        "CREATE TABLE t (id int PRIMARY KEY, v text)",
        "INSERT INTO t SELECT n, 'x' FROM generate_series(1, 5) AS n",
        "CREATE PUBLICATION walhouse_test FOR TABLE t WHERE (id > 2)",
    )
    house = make_house(publication_autocreate_mode="disabled")
    house.run()
    database.execute("UPDATE t SET v = 'y' WHERE id < 4", "ALTER PUBLICATION walhouse_test ADD TABLES IN SCHEMA public")
    house.run()
    (proof,) = house.verify()
    assert (proof.equal, proof.gold_rows) == (True, 5)


@pytest.mark.slow
def test_a_table_that_is_added_while_a_pass_looks_at_the_publication_is_read(
    database: Database, make_house: MakeHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look at the publication and the one at its tables: known, it would not count as added later."""
    database.execute("CREATE TABLE t (id int PRIMARY KEY)", "CREATE PUBLICATION walhouse_test FOR TABLE t")
    house = make_house(publication_autocreate_mode="disabled")
    house.run()
    database.execute("CREATE TABLE late (id int PRIMARY KEY)", "INSERT INTO late SELECT generate_series(1, 10)")
    look = Stream._publication
    added: list[object] = []

    def added_after_a_look(stream: Stream, *arguments: Any) -> PublicationState:
        found = look(stream, *arguments)
        if not added:
            added.append(database.execute("ALTER PUBLICATION walhouse_test ADD TABLE late"))
        return found

    monkeypatch.setattr(Stream, "_publication", added_after_a_look)
    database.execute("INSERT INTO t VALUES (1)")
    house.run()
    house.run()
    (proof,) = house.verify([TableName("public", "late")])
    assert (proof.equal, proof.gold_rows) == (True, 10)


@pytest.mark.slow
def test_a_row_that_moved_without_its_value_is_read_again_where_a_table_without_a_key_was_added_meanwhile(
    spark: SparkSession, database: Database, lake: LakeLayout, long_rows: Walhouse
) -> None:
    """Gold waits for that table: it cannot tell yet which rows lack something."""
    house = long_rows
    with house._writing():
        rounds = house._rounds(Silent())
        capture = rounds.open_capture()
        capture.begin(capture_report(rounds.reporter), starts=True)
        rounds._catch_up(capture)
        house.snapshot([T])
        at_the_last_chunks = False
        for _ in range(12):
            capture.requests._channels._polled = float("-inf")
            after = next((int(each.after[0]) for each in capture.progress.queue.tables if each.after), 0)
            if after == 400 and not at_the_last_chunks:
                at_the_last_chunks = True
                database.execute("UPDATE t SET id = -5 WHERE id = 450")
                database.execute("CREATE TABLE bag (v text)", "ALTER TABLE bag REPLICA IDENTITY FULL")
                database.execute("INSERT INTO bag VALUES ('a')", "ALTER PUBLICATION walhouse_test ADD TABLE bag")
            rounds._round(capture, time.monotonic())
        assert at_the_last_chunks
    house.run()
    assert spark.table(str(lake.gold(T))).where("_unavailable IS NOT NULL").isEmpty()
    assert all(proof.equal for proof in house.verify())
