"""Tables that are made anew from bronze."""

from __future__ import annotations

import json
import shutil
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest

from tests.changes.killing import killed_at
from tests.e2e.witness import gold_rows, source_rows
from tests.variants import further
from walhouse.errors import BagMismatchError, GoldKeyError, LakeError, RequestRefusedError, TypeConflictError
from walhouse.lakehouse.tables import current_version, table_exists
from walhouse.names import MESSAGES, TableName

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.fixtures_house import MakeHouse
    from tests.fixtures_server import Database
    from walhouse.lakehouse.layout import LakeLayout

pytestmark = [pytest.mark.server, pytest.mark.spark]

PRICES, BAG = TableName("public", "prices"), TableName("public", "bag")


@pytest.fixture
def tables(database: Database) -> Database:
    database.execute(
        "CREATE TABLE prices (id int PRIMARY KEY, price numeric(10, 2), note text)",
        "ALTER TABLE prices ALTER note SET STORAGE EXTERNAL",
        "CREATE TABLE bag (word text)",
        "ALTER TABLE bag REPLICA IDENTITY FULL",
        "INSERT INTO prices SELECT n, n / 4.0, repeat(n::text, 3000) FROM generate_series(1, 5) AS n",
        "INSERT INTO bag VALUES ('a'), ('a'), ('b')",
    )
    return database


@pytest.mark.slow
@pytest.mark.parametrize("dies_at", [further(None), further("plan"), "finish"])
def test_gold_whose_column_became_another_type_is_made_anew_and_the_epoch_that_it_held_up_is_ended(
    dies_at: str | None,
    spark: SparkSession,
    tables: Database,
    lake: LakeLayout,
    make_house: MakeHouse,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make_house().run()
    tables.execute(
        "UPDATE prices SET id = 10 WHERE id = 1",  # its note is not sent: bronze has it under the old key
        "ALTER TABLE prices ALTER price TYPE text",
        "INSERT INTO prices VALUES (11, 'not for sale', '')",
        "DELETE FROM prices WHERE id = 2",
        "DELETE FROM bag WHERE ctid = (SELECT min(ctid) FROM bag WHERE word = 'a')",
        "INSERT INTO bag VALUES ('c')",
    )
    with pytest.raises(TypeConflictError, match="price"):
        make_house().run()
    with nullcontext() if dies_at is None else killed_at(dies_at, monkeypatch):
        make_house().rebuild("gold", [PRICES])
    house = make_house()
    house.run()
    assert all(proof.equal for proof in house.verify())
    for table in (PRICES, BAG):
        assert gold_rows(spark, lake, table) == source_rows(tables, table)
    tables.execute("UPDATE prices SET price = 'sold' WHERE id = 3")
    house.run()
    assert gold_rows(spark, lake, PRICES) == source_rows(tables, PRICES)
    counts = {each.table: each.counts for each in house.status().tables}
    assert counts[PRICES]["gold_upserted"] == 5 + 1, "what was there before is not counted twice"


@pytest.mark.slow
@pytest.mark.parametrize("identity", ["DEFAULT", "FULL"])
def test_gold_whose_table_got_another_key_is_made_anew_and_read_again_if_old_changes_lack_the_key(
    identity: str, spark: SparkSession, tables: Database, lake: LakeLayout, make_house: MakeHouse
) -> None:
    tables.execute(f"ALTER TABLE prices REPLICA IDENTITY {identity}", "ALTER TABLE prices ALTER price SET NOT NULL")
    house = make_house()
    house.run()
    tables.execute(
        "DELETE FROM prices WHERE id = 1",
        "ALTER TABLE prices DROP CONSTRAINT prices_pkey, ADD PRIMARY KEY (id, price)",
        "UPDATE prices SET price = 9 WHERE id = 2",
        "INSERT INTO prices VALUES (3, 8, 'another of this id')",
    )
    with pytest.raises(GoldKeyError):
        house.run()
    house.rebuild("gold", [PRICES])
    assert (tables_asked_for(spark, lake) == [PRICES]) is (identity == "DEFAULT")
    tables.execute("DELETE FROM prices WHERE id = 4")
    house.run()
    assert all(proof.equal for proof in house.verify())
    assert gold_rows(spark, lake, PRICES) == source_rows(tables, PRICES)
    keys = (
        spark.table(str(lake.silver(PRICES))).where("op = 'c'").selectExpr("key.id", "CAST(key.price IS NULL AS INT)")
    )
    assert (3, 0) in {tuple(row) for row in keys.collect()}, "events have the new key, too"


def tables_asked_for(spark: SparkSession, lake: LakeLayout) -> list[TableName]:
    if not table_exists(spark, lake, lake.ops("signals")):
        return []
    asked = [json.loads(row["data"])["data-collections"] for row in spark.table(str(lake.ops("signals"))).collect()]
    return [PRICES for names in asked if "prices" in str(names)]


def test_silver_is_made_anew_under_other_modes_and_has_the_same_events(
    spark: SparkSession, tables: Database, lake: LakeLayout, make_house: MakeHouse
) -> None:
    make_house().run()
    tables.execute("UPDATE prices SET price = 2.5 WHERE id = 2", "DELETE FROM prices WHERE id = 1")
    make_house().run()
    columns = ["commit_lsn", "seq", "op", "source.snapshot", "after.id", "before.id"]
    before = spark.table(str(lake.silver(PRICES))).selectExpr(*columns).collect()
    house = make_house(decimal_handling_mode="string")
    tables.execute("INSERT INTO prices VALUES (6, 6.25, '')")
    with pytest.raises(TypeConflictError, match="price"):
        house.run()
    house.rebuild("silver", [PRICES])
    house.run()
    after = spark.table(str(lake.silver(PRICES)))
    assert after.where("after.id = 6").select("after.price").collect() == [("6.25",)]
    assert set(before) <= set(after.selectExpr(*columns).collect())
    assert after.count() == len(before) + 1
    assert all(proof.equal for proof in house.verify())


@pytest.mark.slow
def test_a_table_that_somebody_else_changed_is_made_anew_and_no_other_is_touched(
    spark: SparkSession, tables: Database, lake: LakeLayout, make_house: MakeHouse
) -> None:
    house = make_house()
    house.run()
    tables.execute("INSERT INTO bag VALUES ('c')", "DELETE FROM bag WHERE word = 'b'")
    house.run()
    spark.sql(f"DELETE FROM {lake.gold(BAG)} WHERE word = 'a'")
    version = house.cut().versions[PRICES]
    house.rebuild("gold", [BAG])
    assert gold_rows(spark, lake, BAG) == source_rows(tables, BAG)
    assert house.cut().versions[PRICES] == version
    tables.execute("DELETE FROM bag")
    house.run()
    assert all(proof.equal for proof in house.verify())
    with pytest.raises(RequestRefusedError, match=r"public\.nobody"):
        house.rebuild("gold", [TableName("public", "nobody")])
    house.run()


@pytest.mark.slow
def test_a_table_without_a_key_whose_rows_changed_without_a_change_is_right_after_it_was_read_again(
    spark: SparkSession, tables: Database, lake: LakeLayout, make_house: MakeHouse
) -> None:
    """An old row comes with the new column's default, which gold never got; all of gold waits for the table."""
    house = make_house()
    house.run()
    tables.execute("ALTER TABLE bag ADD COLUMN n int DEFAULT 5", "DELETE FROM bag WHERE word = 'b'")
    tables.execute("INSERT INTO prices VALUES (20, 1, '')")
    with pytest.raises(BagMismatchError):
        house.run()
    with pytest.raises(BagMismatchError, match="walhouse snapshot"):
        house.rebuild("gold", [BAG])
    house.snapshot([BAG])
    house.capture()
    house.rebuild("gold", [BAG])
    assert gold_rows(spark, lake, PRICES) == source_rows(tables, PRICES)
    house.run()
    assert gold_rows(spark, lake, BAG) == source_rows(tables, BAG)
    assert all(proof.equal for proof in house.verify())


@pytest.mark.slow
@pytest.mark.parametrize("dies_at", [further(None), "finish"])
def test_a_table_without_a_key_that_lost_a_column_is_made_anew_from_bronze_by_itself(
    tables: Database,
    make_house: MakeHouse,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    dies_at: str | None,
) -> None:
    """What its rows had in the column is not told by their deletes any more: they are the rows of its other columns.

    Whoever dies after that has done it, and not recorded it: the next one does it again.
    """
    tables.execute(
        "ALTER TABLE bag ADD COLUMN n int",
        "INSERT INTO bag VALUES ('a', 1), ('a', 2), ('c', 3), ('c', 4)",
        "DELETE FROM bag WHERE n = 1",
    )
    house = make_house()
    house.run()
    tables.execute("DELETE FROM bag WHERE n = 4", "ALTER TABLE bag DROP COLUMN n", "DELETE FROM bag WHERE word = 'c'")
    if dies_at is not None:
        with killed_at(dies_at, monkeypatch):
            house.run()
        house = make_house()
    house.run()
    assert "public.bag" in caplog.text
    assert "made anew from bronze" in caplog.text
    tables.execute("DELETE FROM bag WHERE ctid = (SELECT min(ctid) FROM bag WHERE word = 'a')")
    house.run()
    assert [proof.equal for proof in house.verify([BAG])] == [True]


@pytest.mark.slow
@pytest.mark.parametrize("layer", ["silver", "gold"])
def test_a_table_that_was_restored_to_an_earlier_version_is_not_gone_on_with(
    layer: Literal["silver", "gold"],
    spark: SparkSession,
    tables: Database,
    lake: LakeLayout,
    make_house: MakeHouse,
) -> None:
    """What was applied since would be missing; of silver without a word. Set forth again, it lacks nothing."""
    house = make_house()
    house.run()
    name = lake.gold(PRICES) if layer == "gold" else lake.silver(PRICES)
    before = current_version(spark, lake, name)
    tables.execute("UPDATE prices SET note = repeat('z', 3000) WHERE id = 1")
    house.run()
    after = current_version(spark, lake, name)
    spark.sql(f"RESTORE TABLE {name} TO VERSION AS OF {before}")
    # the note is not sent: what was applied last has it, under the old key
    tables.execute("UPDATE prices SET id = 10 WHERE id = 1", "DELETE FROM bag WHERE word = 'b'")
    for each in (house, make_house()):
        with pytest.raises(LakeError, match=f"walhouse rebuild {layer} {PRICES}"):
            each.run()
    assert gold_rows(spark, lake, BAG) == source_rows(tables, BAG), "no other table waits"
    spark.sql(f"RESTORE TABLE {name} TO VERSION AS OF {after}")
    house.run()
    assert gold_rows(spark, lake, PRICES) == source_rows(tables, PRICES)
    spark.sql(f"RESTORE TABLE {name} TO VERSION AS OF {before}")
    house.rebuild(layer, [PRICES])
    tables.execute("UPDATE prices SET price = 10 WHERE id = 2")
    house.run()
    assert gold_rows(spark, lake, PRICES) == source_rows(tables, PRICES)
    events = [event for line in house.events([PRICES]) if (event := json.loads(line)["value"]) is not None]
    assert [event["after"]["id"] for event in events if event["op"] == "u"] == [1, 2]


@pytest.mark.slow
@pytest.mark.parametrize("layer", [further("silver"), "gold"])
def test_a_table_that_somebody_dropped_is_not_begun_in_its_midst_and_is_whole_once_it_is_made_anew(
    layer: Literal["silver", "gold"],
    spark: SparkSession,
    tables: Database,
    lake: LakeLayout,
    make_house: MakeHouse,
) -> None:
    house = make_house()
    house.run()
    name = lake.gold(PRICES) if layer == "gold" else lake.silver(PRICES)
    spark.sql(f"DROP TABLE {name}")
    shutil.rmtree(str(lake.location(name)))
    if layer == "silver":
        with pytest.raises(LakeError, match=f"walhouse rebuild silver {PRICES}"):
            list(house.events())
        assert len(list(house.events([BAG]))) == 3, "what is there is printed"
    tables.execute("UPDATE prices SET price = 9 WHERE id = 2", "DELETE FROM bag WHERE word = 'b'")
    for each in (house, make_house()):
        with pytest.raises(LakeError, match=f"walhouse rebuild {layer} {PRICES}"):
            each.run()
        assert not table_exists(spark, lake, name)
    assert gold_rows(spark, lake, BAG) == source_rows(tables, BAG), "no other table waits"
    house.rebuild(layer, [PRICES])
    house.run()
    assert gold_rows(spark, lake, PRICES) == source_rows(tables, PRICES)
    ops = spark.table(str(lake.silver(PRICES))).groupBy("op").count()
    assert {row["op"]: row["count"] for row in ops.collect()} == {"r": 5, "u": 1}


@pytest.mark.slow
def test_messages_that_somebody_dropped_are_not_begun_in_their_midst_and_are_whole_once_they_are_made_anew(
    spark: SparkSession, tables: Database, lake: LakeLayout, make_house: MakeHouse
) -> None:
    tables.execute("DROP TABLE prices")
    house = make_house(snapshot_mode="no_data", extended_headers_enabled=False)
    house.capture()
    tables.execute("SELECT pg_logical_emit_message(true, 'a', '1')")
    house.run()
    before = list(house.events())
    spark.sql(f"DROP TABLE {lake.silver_messages}")
    shutil.rmtree(str(lake.location(lake.silver_messages)))
    tables.execute("SELECT pg_logical_emit_message(true, 'a', '2')")
    for ask in (house.run, lambda: list(house.events())):
        with pytest.raises(LakeError, match=r"walhouse rebuild silver '\"\"\.message'"):
            ask()
    house.rebuild("silver", [MESSAGES])
    house.run()
    lines = list(house.events())
    assert (lines[:1], len(lines)) == (before, 2)


@pytest.mark.slow
def test_a_ledger_that_alone_was_set_back_is_named_and_has_no_event_twice(
    spark: SparkSession, tables: Database, lake: LakeLayout, make_house: MakeHouse
) -> None:
    make_house().run()
    ledger = Path(str(lake.location(lake.ops("epochs"))))
    earlier = ledger.with_name("earlier")
    shutil.copytree(ledger, earlier)
    tables.execute("UPDATE prices SET price = 9 WHERE id = 2", "INSERT INTO bag VALUES ('c')")
    make_house().run()
    newest = ledger.with_name("newest")
    ledger.rename(newest)
    earlier.rename(ledger)
    spark.catalog.refreshTable(str(lake.ops("epochs")))
    tables.execute("INSERT INTO bag VALUES ('d')")
    for house in (make_house(), make_house()):
        for _ in range(2):
            with pytest.raises(LakeError, match=r"ops\.epochs ends: that was set back"):
                house.run()
    assert {table: spark.table(str(lake.silver(table))).count() for table in (PRICES, BAG)} == {PRICES: 6, BAG: 4}
    for layer in ("silver", "gold"):
        house.rebuild(layer, [PRICES, BAG])
    house.run()
    for table, events in ((PRICES, 5 + 1), (BAG, 3 + 2)):
        assert gold_rows(spark, lake, table) == source_rows(tables, table)
        assert spark.table(str(lake.silver(table))).count() == events


@pytest.mark.slow
def test_a_lake_whose_ledger_is_gone_has_nothing_twice_and_is_whole_once_it_is_made_anew(
    spark: SparkSession, tables: Database, lake: LakeLayout, make_house: MakeHouse
) -> None:
    make_house().run()
    spark.sql(f"DROP TABLE {lake.ops('epochs')}")
    shutil.rmtree(str(lake.location(lake.ops("epochs"))))
    tables.execute("UPDATE prices SET price = 9 WHERE id = 2", "INSERT INTO bag VALUES ('d')")
    house = make_house()
    for _ in range(2):
        with pytest.raises(LakeError, match=r"ops\.epochs had nothing"):
            house.run()
    house.rebuild("gold", [PRICES, BAG])
    house.run()
    for table, events in ((PRICES, 5 + 1), (BAG, 3 + 1)):
        assert gold_rows(spark, lake, table) == source_rows(tables, table)
        assert spark.table(str(lake.silver(table))).count() == events
