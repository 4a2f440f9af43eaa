"""Capture against the real server: every commit once, whatever the range, the restart, or the fault."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from walhouse.errors import (
    AppendSkippedError,
    PublicationChangedError,
    PublicationMissingError,
    SlotGapError,
    SlotInUseError,
    SlotMissingError,
    UnsupportedServerError,
)
from walhouse.lsn import Lsn
from walhouse.names import TableName
from walhouse.pgoutput.image import pack_row, unpack_row
from walhouse.postgres.slot import advance

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.fixtures_house import MakeHouse
    from tests.fixtures_server import Database
    from walhouse.api import Walhouse
    from walhouse.bronze.capture import Capture
    from walhouse.lakehouse.layout import LakeLayout

ADVANCE = "walhouse.bronze.capture.advance"

pytestmark = [pytest.mark.server, pytest.mark.spark]


def nothing(_: object) -> None:
    """A report that nobody reads."""


def begun(house: Walhouse) -> Capture:
    capture = house._capture()
    capture.begin()
    return capture


def rows(spark: SparkSession, lake: LakeLayout, kind: str = "change") -> list[Any]:
    """Bronze's rows of a kind, in order."""
    frame = spark.table(str(lake.bronze)).where(F.col("kind") == kind).orderBy("commit_lsn", "seq")
    return list(frame.toLocalIterator())


def ids(spark: SparkSession, lake: LakeLayout) -> list[str]:
    return [str(unpack_row(row["after"])[0]) for row in rows(spark, lake)]


def position(database: Database, function: str) -> Lsn:
    return Lsn.parse(database.execute(f"SELECT {function}()::text")[0][0])


def test_a_commit_that_starts_exactly_at_the_end_of_a_range_belongs_to_the_next_one(
    spark: SparkSession, table: Database, lake: LakeLayout, make_house: MakeHouse
) -> None:
    capture = begun(make_house())
    with table.connect(autocommit=False) as writer:
        writer.execute("INSERT INTO t VALUES (1, 'open')")
        table.flush_wal()
        end = position(table, "pg_current_wal_insert_lsn")
        writer.commit()
    capture.run(end, nothing)
    assert ids(spark, lake) == []
    capture.run(capture.target(), nothing)
    [row] = rows(spark, lake)
    assert row["commit_lsn"] == end
    assert unpack_row(row["after"]) == ["1", "open"]


def test_commits_around_a_switched_segment_are_captured_once(
    spark: SparkSession, table: Database, lake: LakeLayout, make_house: MakeHouse
) -> None:
    """Right after a page header the insert LSN is ahead of the flushed one, though no record lies between."""
    capture = begun(make_house())
    for round_number in range(3):
        with table.connect(autocommit=False) as writer:
            writer.execute("INSERT INTO t VALUES (%s, 'before')", [2 * round_number])
            table.execute("SELECT pg_switch_wal()")
            capture.run(position(table, "pg_current_wal_insert_lsn"), nothing)
            writer.commit()
        capture.run(capture.target(), nothing)
        table.execute(f"INSERT INTO t VALUES ({2 * round_number + 1}, 'after')")
        table.execute("SELECT pg_switch_wal()")
        capture.run(position(table, "pg_current_wal_insert_lsn"), nothing)
    assert ids(spark, lake) == [str(number) for number in range(6)]


def test_a_range_is_cut_by_bytes_of_wal_and_nothing_is_lost_or_doubled_at_the_cuts(
    spark: SparkSession, table: Database, lake: LakeLayout, make_house: MakeHouse
) -> None:
    capture = begun(make_house(lake_max_pass_bytes=3000))
    for number in range(40):
        table.execute(f"INSERT INTO t VALUES ({number}, repeat('x', {number * 7}))")
    steps: list[Any] = []
    capture.run(capture.target(), steps.append)
    assert len(steps) > 3
    assert ids(spark, lake) == [str(number) for number in range(40)]


def test_lone_messages_are_captured_once_even_if_the_slot_did_not_move(
    spark: SparkSession,
    table: Database,
    lake: LakeLayout,
    make_house: MakeHouse,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    capture = begun(make_house())
    for number in range(4):
        table.execute(f"SELECT pg_logical_emit_message(false, 'lone', 'm{number}')")
        table.flush_wal()  # and the message is the last of its range
        kept = number % 2 == 0
        monkeypatch.setattr(ADVANCE, (lambda *_: None) if kept else advance)
        capture.run(position(table, "pg_current_wal_flush_lsn"), nothing)
    monkeypatch.setattr(ADVANCE, advance)
    begun(make_house()).run(position(table, "pg_current_wal_flush_lsn"), nothing)
    contents = sorted(bytes(row["message"]["content"]).decode() for row in rows(spark, lake, "message"))
    assert contents == ["m0", "m1", "m2", "m3"]


class Killed(BaseException):
    """Stands for the end of the process at that moment."""


@pytest.mark.parametrize("where", ["stream.append", "capture.advance"])
def test_a_pass_that_ended_before_or_after_its_commit_is_neither_lost_nor_doubled(
    where: str,
    spark: SparkSession,
    table: Database,
    lake: LakeLayout,
    make_house: MakeHouse,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    capture = begun(make_house())
    table.execute("INSERT INTO t VALUES (1, 'a'), (2, 'b')")

    def killed(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(f"walhouse.bronze.{where}", killed)
        with pytest.raises(Killed):
            capture.run(capture.target(), nothing)
    table.execute("INSERT INTO t VALUES (3, 'c')")
    again = begun(make_house())
    again.run(again.target(), nothing)
    assert ids(spark, lake) == ["1", "2", "3"]


def test_an_initial_snapshot_that_ended_before_its_commit_is_taken_again_and_the_stream_begins_where_it_ends(
    spark: SparkSession,
    table: Database,
    lake: LakeLayout,
    make_house: MakeHouse,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table.execute("INSERT INTO t VALUES (1, 'old')")

    def killed(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr("walhouse.bronze.snapshots.whole.append", killed)
        with pytest.raises(Killed):
            make_house().capture()
    table.execute("INSERT INTO t VALUES (2, 'between')")
    house = make_house()
    house.capture()
    table.execute("INSERT INTO t VALUES (3, 'new')")
    house.capture()
    assert [unpack_row(row["after"]) for row in rows(spark, lake, "snapshot")] == [["1", "old"], ["2", "between"]]
    assert ids(spark, lake) == ["3"]


def test_the_slot_stands_where_bronze_ends_and_never_later(table: Database, make_house: MakeHouse) -> None:
    house = make_house()
    for number in range(3):
        table.execute(f"INSERT INTO t VALUES ({number}, 'x')")
        progress = house.capture()
        [(confirmed,)] = table.execute(
            f"SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE database = '{table.name}'"
        )
        assert Lsn.parse(confirmed) == progress.captured_to


def test_an_append_that_delta_skips_without_a_word_is_an_error_and_the_slot_stays(
    spark: SparkSession, table: Database, lake: LakeLayout, make_house: MakeHouse
) -> None:
    """After a RESTORE the log still knows the later versions, and Delta takes the next append for a repeated one."""
    house = make_house()
    house.capture()
    version = spark.sql(f"DESCRIBE HISTORY {lake.bronze} LIMIT 1").first()
    for number in (1, 2):
        table.execute(f"INSERT INTO t VALUES ({number}, 'x')")
        house.capture()
    [(before,)] = table.execute("SELECT confirmed_flush_lsn::text FROM pg_replication_slots")
    table.execute("SELECT pg_create_logical_replication_slot('witness', 'pgoutput')")
    assert version is not None
    spark.sql(f"RESTORE TABLE {lake.bronze} TO VERSION AS OF {version['version']}")
    table.execute("INSERT INTO t VALUES (3, 'x')")
    with pytest.raises(SlotGapError) as gap:
        make_house().capture()
    assert gap.value.fields["slot_lsn"] == before
    # With a slot that still has everything the pass itself meets Delta's silence.
    [(slot,)] = table.execute("SELECT slot_name FROM pg_replication_slots WHERE slot_name <> 'witness'")
    table.execute(f"SELECT pg_drop_replication_slot('{slot}')")
    table.execute(f"SELECT pg_copy_logical_replication_slot('witness', '{slot}')")
    restored = begun_at_witness(make_house, spark, lake, table)
    with pytest.raises(AppendSkippedError):
        restored.run(restored.target(), nothing)
    house = make_house()
    with house._writing():
        from walhouse.bronze.table import new_generation

        new_generation(spark, lake)
    capture = begun_at_witness(make_house, spark, lake, table)
    capture.run(capture.target(), nothing)
    assert ids(spark, lake)[-1] == "3"


def begun_at_witness(make_house: MakeHouse, spark: SparkSession, lake: LakeLayout, table: Database) -> Capture:
    """A capture whose progress says the witness slot's position: what a slot kept by an operator would give."""
    from dataclasses import replace

    capture = make_house()._capture()
    [(confirmed,)] = table.execute(
        "SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = 'witness'"
    )
    capture._durable.hold(replace(capture.progress, captured_to=Lsn.parse(confirmed)))
    capture.begin()
    return capture


def test_a_repeated_pass_writes_nothing_and_one_over_other_wal_only_its_progress(
    spark: SparkSession, table: Database, lake: LakeLayout, make_house: MakeHouse
) -> None:
    house = make_house()
    house.capture()
    table.execute("INSERT INTO t VALUES (1, 'x')")
    captured_to = house.capture().captured_to
    before = kinds(spark, lake)
    capture = begun(make_house())
    capture.run(captured_to, nothing)
    assert kinds(spark, lake) == before
    table.execute("CREATE TABLE other (id int)")  # WAL of which nothing is captured
    capture.run(capture.target(), nothing)
    assert capture.progress.captured_to > captured_to
    assert kinds(spark, lake) == before + Counter(progress=1)


def kinds(spark: SparkSession, lake: LakeLayout) -> Counter[str]:
    return Counter(row["kind"] for row in spark.table(str(lake.bronze)).select("kind").collect())


def test_a_new_column_shows_in_bronze_before_any_change_has_it(
    spark: SparkSession, table: Database, lake: LakeLayout, make_house: MakeHouse
) -> None:
    house = make_house()
    house.capture()
    table.execute("ALTER TABLE t ADD COLUMN extra int")
    house.capture()
    described = [json.loads(row["relation"]) for row in rows(spark, lake, "relation")]
    assert [[column["name"] for column in each["columns"]] for each in described] == [["id", "v"], ["id", "v", "extra"]]


def test_a_progress_row_tells_how_many_relations_its_pass_describes(
    spark: SparkSession, table: Database, lake: LakeLayout, make_house: MakeHouse
) -> None:
    """What has none is not looked through for some."""
    house = make_house()
    house.capture()
    for statement in ("INSERT INTO t VALUES (1, 'x')", "ALTER TABLE t ADD COLUMN extra int", "UPDATE t SET extra = 2"):
        table.execute(statement)
        house.capture()
    house.snapshot([TableName("public", "t")])
    house.capture()
    described = spark.table(str(lake.bronze)).where("kind IN ('relation', 'progress')").groupBy("pass")
    of_kind = [F.count_if(F.col("kind") == kind).alias(kind) for kind in ("relation", "progress")]
    told = F.max(F.get_json_object("progress", "$.counts.relations").cast("int")).alias("told")
    passes = described.agg(*of_kind, told).orderBy("pass").collect()
    assert [row["relation"] for row in passes if row["told"] is not None] == [
        row["told"] for row in passes if row["told"] is not None
    ]
    assert sum(row["relation"] for row in passes) == 2
    assert {row["told"] for row in passes} == {0, 1}


def test_a_publication_that_was_made_again_is_a_gap_with_a_name(table: Database, make_house: MakeHouse) -> None:
    house = make_house()
    progress = house.capture()
    table.execute("DROP PUBLICATION walhouse_test")
    table.execute("INSERT INTO t VALUES (1, 'lost')")
    with pytest.raises(PublicationMissingError):
        house.capture()
    table.execute("CREATE PUBLICATION walhouse_test FOR TABLE t")
    with pytest.raises(PublicationChangedError):
        house.capture()
    [(confirmed,)] = table.execute("SELECT confirmed_flush_lsn::text FROM pg_replication_slots")
    assert Lsn.parse(confirmed) == progress.captured_to


def test_a_slot_that_is_gone_ahead_or_taken_is_told_apart(table: Database, make_house: MakeHouse) -> None:
    house = make_house()
    house.capture()
    [(slot,)] = table.execute("SELECT slot_name FROM pg_replication_slots")
    table.execute("INSERT INTO t VALUES (1, 'x')")
    with closing(table.connect(replication="database")) as reader:
        reader.pgconn.send_query(
            f"START_REPLICATION SLOT {slot} LOGICAL 0/0 (proto_version '1', publication_names 'walhouse_test')".encode()
        )
        reader.pgconn.get_result()
        with pytest.raises(SlotInUseError) as in_use:
            house.capture()
        assert in_use.value.fields["pid"] == reader.info.backend_pid
    table.execute(f"SELECT pg_replication_slot_advance('{slot}', pg_current_wal_flush_lsn())")
    with pytest.raises(SlotGapError):
        house.capture()
    with pytest.raises(SlotMissingError, match=f"is there, {slot}: set slot.name back"):
        make_house(slot_name="another").capture()
    table.execute(f"SELECT pg_drop_replication_slot('{slot}')")
    with pytest.raises(SlotMissingError):
        house.capture()


def test_identities_are_set_before_tables_are_published_and_again_whenever_capture_begins(
    spark: SparkSession, database: Database, lake: LakeLayout, make_house: MakeHouse
) -> None:
    database.execute("CREATE TABLE t (id int, v text)")
    house = make_house(replica_identity_autoset_values=r"public\..:FULL")
    house.capture()
    database.execute("INSERT INTO t VALUES (1, 'x')", "UPDATE t SET v = 'y'", "ALTER TABLE t REPLICA IDENTITY NOTHING")
    house.capture()
    assert [row["before"] for row in rows(spark, lake)] == [None, pack_row(["1", "x"])]
    database.execute("DELETE FROM t")


def test_without_data_a_slot_and_a_publication_that_exist_are_gone_on_with(
    spark: SparkSession, table: Database, lake: LakeLayout, make_house: MakeHouse
) -> None:
    table.execute("INSERT INTO t VALUES (1, 'before the slot')")
    table.execute("CREATE PUBLICATION walhouse_test FOR TABLE t")
    table.execute(f"SELECT pg_create_logical_replication_slot('s_{table.name}', 'pgoutput')")
    table.execute("INSERT INTO t VALUES (2, 'after the slot')")
    make_house(snapshot_mode="no_data", publication_autocreate_mode="disabled").capture()
    assert rows(spark, lake, "snapshot") == []
    assert ids(spark, lake) == ["2"]


def test_an_initial_snapshot_on_a_slot_that_exists_is_exact_at_one_point(
    spark: SparkSession, table: Database, lake: LakeLayout, make_house: MakeHouse
) -> None:
    table.execute("CREATE PUBLICATION walhouse_test FOR TABLE t")
    table.execute(f"SELECT pg_create_logical_replication_slot('s_{table.name}', 'pgoutput')")
    table.execute("INSERT INTO t VALUES (1, 'in the slot and in the snapshot')")
    house = make_house()
    house.capture()
    table.execute("INSERT INTO t VALUES (2, 'in the stream')")
    house.capture()
    assert [unpack_row(row["after"])[0] for row in rows(spark, lake, "snapshot")] == ["1"]
    assert ids(spark, lake) == ["2"]
    assert [name for (name,) in table.execute("SELECT slot_name FROM pg_replication_slots")] == [f"s_{table.name}"]


def test_a_database_whose_text_has_no_encoding_is_refused_before_anything_is_read(
    spark: SparkSession, database: Database, lake: LakeLayout, make_house: MakeHouse
) -> None:
    name = f"{database.name}_ascii"
    database.execute(f"CREATE DATABASE {name} ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0")
    try:
        with pytest.raises(UnsupportedServerError, match="SQL_ASCII"):
            make_house(database_dbname=name).capture()
    finally:
        database.execute(f"DROP DATABASE {name} WITH (FORCE)")
