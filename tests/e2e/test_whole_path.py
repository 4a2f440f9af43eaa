"""From the real server to gold: what gold holds is what PostgreSQL holds, by a witness that is not walhouse's own."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

from tests.e2e.hammer import SCHEMA, TABLES, Hammer
from tests.e2e.witness import gold_rows, source_rows
from walhouse.errors import GoldKeyError, WalhouseError
from walhouse.names import TableName

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from tests.fixtures_house import MakeHouse
    from tests.fixtures_server import Database
    from walhouse.lakehouse.layout import LakeLayout

pytestmark = [pytest.mark.server, pytest.mark.spark]


FEW = tuple(table for table in TABLES if table.table in {"docs", "bag", "full_key"})
"""Tables that between them have all that is hard: moves, values that are not sent, both kinds of identity, no key."""

INCLUDE_FEW = ",".join(map(str, FEW))


def assert_gold_is_the_source(
    spark: SparkSession, lake: LakeLayout, database: Database, tables: Sequence[TableName] = TABLES
) -> None:
    for table in tables:
        source, gold = source_rows(database, table), gold_rows(spark, lake, table)
        assert gold == source, f"{table}: {(gold - source).total()} too many, {(source - gold).total()} missing"


@pytest.mark.slow
@pytest.mark.usefixtures("deletion_vectors")
def test_gold_is_the_source_after_random_work_of_several_writers_in_many_epochs(
    spark: SparkSession, database: Database, lake: LakeLayout, make_house: MakeHouse
) -> None:
    """The snapshot is taken while they write, and each epoch ends somewhere in the middle of their work."""
    database.execute(*SCHEMA)
    with Hammer(database, 100, 30) as first:
        first.join()
    house = make_house(publish_via_partition_root=True)
    with ExitStack() as stack:
        writers = [stack.enter_context(Hammer(database, seed, 10_000)) for seed in range(3)]
        for _ in range(2):
            house.run()
    assert all(writer.committed > 10 for writer in writers)
    house.run()
    assert_gold_is_the_source(spark, lake, database)
    before = {table: spark.table(str(lake.silver(table))).count() for table in TABLES}
    make_house(publish_via_partition_root=True).run()
    assert {table: spark.table(str(lake.silver(table))).count() for table in TABLES} == before
    assert_gold_is_the_source(spark, lake, database)


def test_silver_has_one_event_for_every_change_and_snapshot_row(
    spark: SparkSession, database: Database, lake: LakeLayout, make_house: MakeHouse
) -> None:
    database.execute(*SCHEMA)
    with Hammer(database, 7, 40) as first:
        first.join()
    house = make_house(table_include_list=INCLUDE_FEW)
    house.run()
    with Hammer(database, 8, 60) as second:
        second.join()
    house.run()
    for table in FEW:
        bronze = spark.table(str(lake.bronze)).where(
            (F.col("schema_name") == table.schema)
            & (F.col("table_name") == table.table)
            & F.col("kind").isin("change", "snapshot")
        )
        silver = spark.table(str(lake.silver(table)))
        positions = silver.select("commit_lsn", "seq").distinct()
        assert bronze.select("commit_lsn", "seq").exceptAll(positions).count() == 0
        key_changes = silver.where("map_contains_key(headers, '__debezium.newkey')").count()
        assert silver.count() == bronze.count() + key_changes


def test_verify_is_equal_while_eight_writers_keep_committing(database: Database, make_house: MakeHouse) -> None:
    """Most snapshots of a busy server miss commits whose record is already in the WAL."""
    database.execute(*SCHEMA)
    house = make_house(table_include_list=INCLUDE_FEW)
    house.run()
    with ExitStack() as stack:
        for seed in range(8):
            stack.enter_context(Hammer(database, seed, 100_000))
        for _ in range(2):
            proofs = house.verify()
            assert {str(proof.table): proof.equal for proof in proofs} == {str(table): True for table in FEW}
            assert all(proof.lsn > 0 for proof in proofs)


def test_verify_finds_one_value_that_is_wrong_one_row_that_is_missing_and_one_too_many(
    spark: SparkSession, database: Database, lake: LakeLayout, make_house: MakeHouse
) -> None:
    database.execute(*SCHEMA)
    database.execute(
        "INSERT INTO docs SELECT g, 't', 'b', g, 'epoch' FROM generate_series(1, 20) g",
        "INSERT INTO bag SELECT 'w', 1, 1.5 FROM generate_series(1, 3)",
        "INSERT INTO small VALUES (1, '2024-01-01')",
    )
    house = make_house(table_include_list="public.docs,public.small,public.bag,public.full_key")
    house.run()
    docs, bag, small = (lake.gold(TABLES[index]) for index in (0, 3, 5))
    spark.sql(f"UPDATE {docs} SET score = 7.000000000000001 WHERE id = 7")
    spark.sql(
        f"INSERT INTO {bag} SELECT word, n, x, _commit_lsn, _seq - 1000, _rescued, _unavailable, _digest FROM {bag} "
        "LIMIT 1"
    )
    spark.sql(f"DELETE FROM {small}")
    proofs = {proof.table: proof for proof in house.verify()}
    assert {proof.table.table for proof in proofs.values() if not proof.equal} == {"docs", "bag", "small"}
    assert proofs[TABLES[0]].comparison.differing == 1
    recorded = spark.table(str(lake.ops("proofs"))).where("NOT equal")
    assert recorded.count() == 3


def test_a_nullable_column_that_was_added_arrives_in_silver_and_gold(
    spark: SparkSession, database: Database, lake: LakeLayout, make_house: MakeHouse
) -> None:
    database.execute(*SCHEMA)
    database.execute("INSERT INTO small VALUES (1, '2024-01-01'), (2, NULL)", "INSERT INTO bag VALUES ('w', 1, 2)")
    house = make_house(table_include_list="public.small,public.bag")
    house.run()
    database.execute(
        "INSERT INTO small VALUES (3, NULL)",
        "ALTER TABLE small ADD COLUMN note text",
        "ALTER TABLE bag ADD COLUMN note text",
        "UPDATE small SET note = 'seen' WHERE id = 2",
        "DELETE FROM bag",
        "INSERT INTO bag VALUES ('w', 1, 2, 'n')",
    )
    house.run()
    assert_gold_is_the_source(spark, lake, database, (TABLES[5], TABLES[3]))
    silver = spark.table(str(lake.silver(TABLES[5])))
    assert [row["note"] for row in silver.where("op = 'u'").select("after.note").toLocalIterator()] == ["seen"]
    assert all(proof.equal for proof in house.verify())


@pytest.mark.slow
def test_rows_of_a_deferrable_key_that_move_onto_each_other_stay_rows_of_their_own(
    spark: SparkSession, database: Database, lake: LakeLayout, make_house: MakeHouse
) -> None:
    """An update of all keys comes row by row: 1 becomes 2 before 2 becomes 3, and both are there in between."""
    database.execute(
        "CREATE TABLE shifted (id int PRIMARY KEY DEFERRABLE, v text)",
        "ALTER TABLE shifted REPLICA IDENTITY FULL",
        "INSERT INTO shifted SELECT n, 'row ' || n FROM generate_series(1, 5) n",
    )
    house = make_house()
    house.run()
    database.execute("UPDATE shifted SET id = id + 1")
    house.run()
    database.execute(
        "BEGIN; SET CONSTRAINTS ALL DEFERRED; INSERT INTO shifted VALUES (2, 'new');"
        "DELETE FROM shifted WHERE v = 'row 1'; COMMIT"
    )
    house.run()
    assert_gold_is_the_source(spark, lake, database, (TableName("public", "shifted"),))
    (proof,) = house.verify()
    assert proof.equal
    assert proof.gold_rows == 5


@pytest.mark.parametrize("identity", ["DEFAULT", "FULL"])
def test_a_long_key_that_an_update_does_not_send_is_the_key_all_the_same(
    identity: str, spark: SparkSession, database: Database, lake: LakeLayout, make_house: MakeHouse
) -> None:
    database.execute(
        "CREATE TABLE links (url text PRIMARY KEY, n int)",
        "ALTER TABLE links ALTER url SET STORAGE EXTERNAL",
        f"ALTER TABLE links REPLICA IDENTITY {identity}",
        "INSERT INTO links SELECT repeat(md5(n::text), 80), n FROM generate_series(1, 5) n",
    )
    house = make_house()
    house.run()
    database.execute("UPDATE links SET n = n + 100 WHERE n < 3", "DELETE FROM links WHERE n = 4")
    database.execute("INSERT INTO links VALUES (repeat(md5('6'), 80), 6)", "UPDATE links SET n = 7 WHERE n = 6")
    house.run()
    assert_gold_is_the_source(spark, lake, database, (TableName("public", "links"),))
    assert all(proof.equal for proof in house.verify())


@pytest.mark.parametrize("left_out", ["by a column list", "as a generated column"])
def test_rows_of_a_table_whose_key_is_published_in_part_are_all_there(
    left_out: str, database: Database, make_house: MakeHouse
) -> None:
    """Only inserts may be published then; many rows have the same values in the rest of the key."""
    column, listed = (
        ("int", "(a, b)") if left_out == "by a column list" else ("int GENERATED ALWAYS AS (b * 2) STORED", "")
    )
    database.execute(
        f"CREATE TABLE t (a varchar(9), b int, g {column}, PRIMARY KEY (a, g))",
        f"CREATE PUBLICATION walhouse_test FOR TABLE t {listed} WITH (publish = 'insert')",
    )
    rows = "INSERT INTO t SELECT 1, n, n FROM generate_series({}, {}) AS n"
    described_anew = []  # the server alters no column of a list
    if not listed:
        rows = "INSERT INTO t (a, b) SELECT 1, n FROM generate_series({}, {}) AS n"
        described_anew = ["ALTER TABLE t ALTER a TYPE varchar(12)"]
    database.execute(rows.format(1, 5))
    house = make_house(publication_autocreate_mode="disabled")
    house.run()
    database.execute(rows.format(6, 8), *described_anew, rows.format(9, 10))
    house.run()
    assert [(proof.equal, proof.gold_rows) for proof in house.verify()] == [(True, 10)]


def test_two_tables_that_would_share_a_lake_table_are_refused_before_anything_is_written(
    database: Database, make_house: MakeHouse
) -> None:
    database.execute('CREATE TABLE "A b" (id int PRIMARY KEY)', 'CREATE TABLE "a_B" (id int PRIMARY KEY)')
    with pytest.raises(WalhouseError, match="would both become"):
        make_house().run()
    assert database.execute("SELECT count(*) FROM pg_replication_slots WHERE slot_name LIKE 's_%'") == [(0,)]


@pytest.mark.slow
def test_deletes_in_a_partition_that_do_not_tell_the_tables_key_stop_gold_until_the_table_is_read_whole(
    spark: SparkSession, database: Database, lake: LakeLayout, make_house: MakeHouse
) -> None:
    """PostgreSQL writes an old row as its partition's identity has it; that row would stay in gold, untold."""
    t = TableName("public", "t")
    database.execute(
        "CREATE TABLE t (id int PRIMARY KEY, code int NOT NULL) PARTITION BY RANGE (id)",
        "CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE t2 PARTITION OF t FOR VALUES FROM (10) TO (20)",
        "CREATE UNIQUE INDEX by_code ON t1 (code)",
        "ALTER TABLE t1 REPLICA IDENTITY USING INDEX by_code",
        "INSERT INTO t SELECT n, n FROM generate_series(1, 15) n",
    )
    house = make_house(publish_via_partition_root=True, signal_poll_interval_ms=1)
    house.run()
    database.execute("UPDATE t SET code = -code WHERE id IN (3, 12)", "DELETE FROM t WHERE id IN (11, 12)")
    house.run()
    assert gold_rows(spark, lake, t) == source_rows(database, t)
    database.execute("DELETE FROM t WHERE id IN (1, 2)")
    with pytest.raises(GoldKeyError, match=r"^2 deletes in public\.t do not tell the key"):
        house.run()
    database.execute("ALTER TABLE t1 REPLICA IDENTITY DEFAULT", "DELETE FROM t WHERE id = 4")
    house.signal("execute-snapshot", {"data-collections": [r"public\.t"], "type": "blocking"})
    house.capture()
    house.rebuild("gold", [t])
    house.run()
    assert gold_rows(spark, lake, t) == source_rows(database, t)
    assert all(proof.equal for proof in house.verify())
