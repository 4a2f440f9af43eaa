"""Epochs: what dies between two durable steps is applied again, and the outcome is the same."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from tests.changes.killing import Killed, killed_at, killed_in_gold_of
from tests.e2e.witness import gold_rows, source_rows
from walhouse.changes.epochs import EpochLedger, Layer
from walhouse.errors import GoldKeyError, LakeError, TypeConflictError
from walhouse.gold.apply import apply_gold
from walhouse.lakehouse.tables import current_version
from walhouse.names import TableName

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from tests.fixtures_house import MakeHouse
    from tests.fixtures_server import Database
    from walhouse.lakehouse.layout import LakeLayout

pytestmark = [pytest.mark.server, pytest.mark.spark]

DOCS, BAG = TableName("public", "docs"), TableName("public", "bag")


@pytest.fixture
def tables(database: Database) -> Database:
    database.execute(
        "CREATE TABLE docs (id int PRIMARY KEY, title text, body text)",
        "ALTER TABLE docs ALTER body SET STORAGE EXTERNAL",
        "CREATE TABLE bag (word text)",
        "ALTER TABLE bag REPLICA IDENTITY FULL",
        "INSERT INTO docs SELECT g, 'first', repeat(g::text, 3000) FROM generate_series(1, 5) g",
        "INSERT INTO bag VALUES ('a'), ('a'), ('b')",
    )
    return database


def change(database: Database) -> None:
    """Moves whose out-of-line value is not sent: only the lake has it, under the old key."""
    database.execute(
        "UPDATE docs SET id = 10 WHERE id = 1",
        "UPDATE docs SET title = 'second' WHERE id = 2",
        "DELETE FROM docs WHERE id = 3",
        "DELETE FROM bag WHERE ctid = (SELECT min(ctid) FROM bag WHERE word = 'a')",
        "INSERT INTO bag VALUES ('c'), ('c')",
    )


@pytest.mark.slow
@pytest.mark.parametrize("step", ["plan", "finish"])
def test_an_epoch_that_died_before_or_after_its_tables_were_changed_ends_up_the_same(
    step: str,
    spark: SparkSession,
    tables: Database,
    lake: LakeLayout,
    make_house: MakeHouse,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make_house().run()
    change(tables)
    with killed_at(step, monkeypatch):
        make_house().run()
    tables.execute("UPDATE docs SET id = 11 WHERE id = 10", "INSERT INTO docs VALUES (1, 'again', 'short')")
    make_house().run()
    for table in (DOCS, BAG):
        assert gold_rows(spark, lake, table) == source_rows(tables, table)
    for table, events in ((DOCS, 5 + 2 + 1 + 1 + 2 + 1), (BAG, 3 + 1 + 2)):
        silver = spark.table(str(lake.silver(table)))
        assert silver.count() == events
        assert silver.select("commit_lsn", "seq", "op").distinct().count() == events


def test_a_table_that_fails_leaves_the_epoch_to_be_applied_again(
    spark: SparkSession,
    tables: Database,
    lake: LakeLayout,
    make_house: MakeHouse,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    house = make_house()
    house.capture()
    with killed_in_gold_of(DOCS, monkeypatch), pytest.raises(Killed):
        make_house().gold()
    make_house().gold()
    for table in (DOCS, BAG):
        assert gold_rows(spark, lake, table) == source_rows(tables, table)


@pytest.mark.slow
def test_a_layer_that_fails_does_not_keep_the_other_from_going_on(
    spark: SparkSession,
    tables: Database,
    lake: LakeLayout,
    make_house: MakeHouse,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ledger = EpochLedger(spark, lake)
    with killed_in_gold_of(DOCS, monkeypatch):
        for epochs in (1, 2):
            with pytest.raises(Killed):
                make_house().run()
            done = {layer: (last[0].range.number, last[1]) for layer in Layer if (last := ledger.last(layer))}
            assert done == {Layer.SILVER: (epochs, True), Layer.GOLD: (1, False)}
            change(tables)
    house = make_house()
    house.run()
    commits = current_version(spark, lake, lake.ops("epochs"))
    tables.execute("DELETE FROM docs")
    monkeypatch.setattr("walhouse.changes.layers.TOGETHER_SECONDS", 60.0)  # however slow one is against the other
    house.run()
    # both are written down at once, and recorded at once: each commit has its price
    assert current_version(spark, lake, lake.ops("epochs")) == commits + 2
    for table in (DOCS, BAG):
        assert gold_rows(spark, lake, table) == source_rows(tables, table)


@pytest.mark.slow
def test_every_table_and_layer_that_fails_is_named_at_once(
    spark: SparkSession,
    tables: Database,
    lake: LakeLayout,
    make_house: MakeHouse,
    caplog: pytest.LogCaptureFixture,
) -> None:
    house = make_house(lake_parallel_tables=1)
    house.run()
    tables.execute(
        "CREATE TABLE late (id int PRIMARY KEY)",
        "ALTER PUBLICATION walhouse_test ADD TABLE late",
        "ALTER TABLE bag ALTER word TYPE int USING 1",
        "ALTER TABLE docs ALTER title TYPE int USING 1",
        "INSERT INTO docs VALUES (20, 2, 'y')",
        "INSERT INTO bag VALUES (2)",
        "INSERT INTO late VALUES (1)",
    )
    with caplog.at_level(logging.ERROR, "walhouse"), pytest.raises(TypeConflictError) as raised:
        house.run()
    assert raised.value.fields["table"] == str(BAG)
    [other] = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert other.startswith(f"gold of {DOCS} failed, too: ")
    assert "title" in other
    # a table that can be applied is, whatever came before it
    assert gold_rows(spark, lake, TableName("public", "late")).total() == 1


@pytest.mark.slow
def test_a_house_that_stays_open_looks_again_at_what_the_lake_holds(
    spark: SparkSession, tables: Database, lake: LakeLayout, make_house: MakeHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process may have worked in between, and what this one did may have failed half-way."""
    house, other = make_house(), make_house()
    house.capture()
    house.silver()
    tables.execute("INSERT INTO docs VALUES (20, 'x', 'y')")
    other.capture()
    other.silver()
    tables.execute("INSERT INTO docs VALUES (21, 'x', 'y')")
    house.capture()
    with killed_at("finish", monkeypatch):
        house.silver()
    house.silver()
    other.silver()
    silver = spark.table(str(lake.silver(DOCS)))
    assert silver.count() == 5 + 2
    assert silver.select("commit_lsn", "seq", "op").distinct().count() == 5 + 2


@pytest.mark.slow
def test_a_table_counts_as_ready_only_for_the_writer_and_the_relation_that_it_was_last_applied_with(
    spark: SparkSession, tables: Database, lake: LakeLayout, make_house: MakeHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready: list[bool] = []

    def tell(*arguments: Any, **options: Any) -> Any:
        ready.append(arguments[-1].ready)
        return apply_gold(*arguments, **options)

    def insert_docs(key: int) -> None:
        tables.execute(f"INSERT INTO docs (id, title, body) VALUES ({key}, 'x', 'y')")

    monkeypatch.setattr("walhouse.wiring.apply_gold", tell)
    tables.execute("DROP TABLE bag")
    house, other = make_house(), make_house()
    house.run()
    insert_docs(20)
    house.run()
    tables.execute("ALTER TABLE docs ADD COLUMN note text")
    insert_docs(21)
    house.run()
    insert_docs(22)
    house.run()
    assert ready == [False, True, False, True]
    insert_docs(23)
    other.run()
    insert_docs(24)
    house.run()
    assert ready[4:] == [False, False]
    assert gold_rows(spark, lake, DOCS) == source_rows(tables, DOCS)


def test_another_key_is_refused_by_a_house_that_knows_the_table_too(
    tables: Database, lake: LakeLayout, make_house: MakeHouse
) -> None:
    """Under FULL no Relation message tells the key: its version stays what it was."""
    tables.execute("ALTER TABLE docs REPLICA IDENTITY FULL")
    house = make_house()
    house.run()
    tables.execute(
        "ALTER TABLE docs DROP CONSTRAINT docs_pkey",
        "ALTER TABLE docs ADD PRIMARY KEY (title, id)",
        "INSERT INTO docs VALUES (30, 'x', 'y')",
    )
    with pytest.raises(GoldKeyError):
        house.run()


@pytest.mark.slow
def test_a_table_that_was_altered_and_dropped_between_two_runs_holds_up_no_other(
    tables: Database, lake: LakeLayout, make_house: MakeHouse
) -> None:
    """What the catalog alone tells, as the order of its key, is not known any more of the version that it had last."""
    tables.execute("CREATE TABLE pairs (a int, b int, PRIMARY KEY (b, a))", "INSERT INTO pairs VALUES (1, 2)")
    make_house().run()
    tables.execute("ALTER TABLE pairs ADD COLUMN c int", "INSERT INTO pairs VALUES (3, 4, 5)", "DROP TABLE pairs")
    tables.execute("INSERT INTO docs VALUES (40, 'x', 'y')")
    house = make_house()
    house.run()
    assert gold_rows(house.spark, lake, DOCS) == source_rows(tables, DOCS)
    rows = house.sql("SELECT a, b, c FROM {public_pairs} ORDER BY a", cut=house.cut()).collect()
    assert [tuple(row) for row in rows] == [(1, 2, None), (3, 4, 5)]


@pytest.mark.slow
def test_gold_that_was_compacted_and_vacuumed_under_a_house_that_stays_open_is_gone_on_with(
    spark: SparkSession, tables: Database, lake: LakeLayout, make_house: MakeHouse
) -> None:
    """The files of the version that the house itself has left are gone."""
    house = make_house()
    house.run()
    change(tables)
    house.run()
    for table in (DOCS, BAG):
        spark.sql(f"OPTIMIZE {lake.gold(table)}")
        spark.sql(f"REORG TABLE {lake.gold(table)} APPLY (PURGE)")
        spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
        try:
            spark.sql(f"VACUUM {lake.gold(table)} RETAIN 0 HOURS")
        finally:
            spark.conf.unset("spark.databricks.delta.retentionDurationCheck.enabled")
    tables.execute(
        "UPDATE docs SET id = id + 1000 WHERE id = (SELECT max(id) FROM docs)",  # its long value is in gold alone
        "DELETE FROM bag WHERE ctid = (SELECT min(ctid) FROM bag)",
    )
    house.run()
    for table in (DOCS, BAG):
        assert gold_rows(spark, lake, table) == source_rows(tables, table)


@pytest.mark.slow
def test_an_epoch_whose_base_is_gone_names_the_table_that_is_to_be_made_anew(
    spark: SparkSession,
    tables: Database,
    lake: LakeLayout,
    make_house: MakeHouse,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    house = make_house()
    house.run()
    change(tables)
    with killed_at("finish", monkeypatch):
        house.run()
    spark.sql(f"OPTIMIZE {lake.gold(BAG)}")
    with unchecked_retention(spark):
        spark.sql(f"VACUUM {lake.gold(BAG)} RETAIN 0 HOURS")
    with pytest.raises(LakeError, match="walhouse rebuild gold") as caught:
        make_house().run()
    assert caught.value.fields["table"] == str(BAG)
    make_house().rebuild("gold", [BAG])
    make_house().run()
    for table in (DOCS, BAG):
        assert gold_rows(spark, lake, table) == source_rows(tables, table)


@contextmanager
def unchecked_retention(spark: SparkSession) -> Iterator[None]:
    """VACUUM removes also what somebody may still read."""
    name = "spark.databricks.delta.retentionDurationCheck.enabled"
    spark.conf.set(name, "false")
    try:
        yield
    finally:
        spark.conf.unset(name)
