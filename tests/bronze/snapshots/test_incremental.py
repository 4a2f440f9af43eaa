"""Incremental snapshots on a real server: each chunk in a snapshot of its own, while the stream goes on."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

from tests.bronze.snapshots.conftest import T
from tests.fixtures_house import logged_in_as
from tests.variants import further
from walhouse.bronze.requests.notifications import Event, notifications_of
from walhouse.bronze.snapshots import incremental
from walhouse.changes.images import text_at
from walhouse.errors import NotStreamingError, SourceUnreachableError, TableNotReadError
from walhouse.lakehouse.tables import table_exists
from walhouse.names import TableName

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

    from tests.fixtures_house import MakeHouse
    from tests.fixtures_server import Database
    from walhouse.api import Walhouse
    from walhouse.config.connection import ConnectionSettings
    from walhouse.lakehouse.layout import LakeLayout
    from walhouse.lsn import Lsn

pytestmark = [pytest.mark.server, pytest.mark.spark]


def notes(spark: SparkSession, lake: LakeLayout) -> list[tuple[str, ...]]:
    rows = spark.table(str(lake.ops("notifications"))).orderBy("timestamp").collect()
    return [(row["id"], row["type"], row["additional_data"].get("status", "")) for row in rows]


@pytest.mark.parametrize("planned_at_once", [1, further(128)])
def test_a_table_is_read_by_chunks_and_gold_is_the_source(
    spark: SparkSession,
    table: Database,
    lake: LakeLayout,
    house: Walhouse,
    monkeypatch: pytest.MonkeyPatch,
    planned_at_once: int,
) -> None:
    monkeypatch.setattr(incremental, "_PLANNED_AT_ONCE", planned_at_once)
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
    told = events.selectExpr(
        "source.snapshot",
        "source.lsn",
        "source.txId",
        """source.sequence = concat('["', commit_lsn, '","', commit_lsn, '"]')""",
    )
    assert [tuple(row) for row in told.distinct().collect()] == [("incremental", None, None, True)]  # as the engine's
    assert notes(spark, lake) == [
        ("mine", "STARTED", ""),
        *[("mine", "IN_PROGRESS", "")] * 3,
        ("mine", "TABLE_SCAN_COMPLETED", "SUCCEEDED"),
        ("mine", "COMPLETED", ""),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("pass_rows", [200, further(1000)])
def test_it_is_told_how_many_rows_were_read_in_one_pass_and_in_many(
    spark: SparkSession, table: Database, lake: LakeLayout, make_house: MakeHouse, pass_rows: int
) -> None:
    """What one pass has read is counted while it is written; of many, bronze is asked. Each reading by itself."""
    table.execute("INSERT INTO t SELECT n, 'row ' || n FROM generate_series(1, 500) AS n")
    house = make_house(snapshot_mode="no_data", incremental_snapshot_chunk_size=100, lake_snapshot_pass_rows=pass_rows)
    house.run()
    for _ in range(2):
        house.snapshot([T])
        house.capture()
    ended = spark.table(str(lake.ops("notifications"))).where("type = 'TABLE_SCAN_COMPLETED'")
    assert [row[0] for row in ended.select("additional_data.total_rows_scanned").collect()] == ["500", "500"]


@pytest.mark.slow
def test_rows_are_told_of_a_table_between_whose_chunks_another_was_read_whole(
    spark: SparkSession, table: Database, lake: LakeLayout, house: Walhouse
) -> None:
    table.execute("CREATE TABLE u (id int PRIMARY KEY)", "INSERT INTO u VALUES (1)")
    request = house.snapshot([T])
    with house._writing():
        capture = house._capture()
        capture.begin(starts=True)
        capture.requests.take_signals()
        capture.requests.read(lambda _: None)
        assert [each.chunks for each in capture.progress.queue.tables] == [2]
    house.signal("execute-snapshot", {"data-collections": [r"public\.u"], "type": "blocking"})
    house.capture()
    told = [note.data for note in notifications_of(spark, lake, request) if "status" in note.data]
    assert [(each["status"], each["total_rows_scanned"]) for each in told] == [("SUCCEEDED", "500")]


def test_a_part_of_a_table_is_read_by_a_condition_and_the_last_chunk_ends_where_the_table_did(
    spark: SparkSession, table: Database, lake: LakeLayout, house: Walhouse
) -> None:
    house.snapshot([T], where="id % 10 = 0 -- every tenth")
    house.capture()
    read = spark.table(str(lake.bronze)).where("kind = 'snapshot'")
    assert sorted(int(row[0]) for row in read.select(text_at(F.col("after"), 0)).collect()) == list(range(10, 501, 10))


@pytest.mark.slow
def test_a_table_is_read_by_another_key_if_that_is_asked_for(
    spark: SparkSession, table: Database, lake: LakeLayout, house: Walhouse
) -> None:
    table.execute("ALTER TABLE t ADD serial int", "UPDATE t SET serial = 1000 - id")
    table.execute("ALTER TABLE t ALTER serial SET NOT NULL", "ALTER TABLE t ADD UNIQUE (serial)")
    house.signal("execute-snapshot", {"data-collections": [r"public\.t"], "surrogate-key": "serial"})
    house.run()
    (proof,) = house.verify()
    assert (proof.equal, proof.source_rows) == (True, 500)
    first = spark.table(str(lake.bronze)).where("kind = 'snapshot'").orderBy("snapshot.chunk").limit(100)
    assert sorted(int(row[0]) for row in first.select(text_at(F.col("after"), 0)).collect()) == list(range(401, 501))


def test_a_key_that_was_asked_for_is_refused_if_its_values_are_to_be_hidden(
    spark: SparkSession, table: Database, lake: LakeLayout, make_house: MakeHouse
) -> None:
    """The greatest key and the last one that was read stand in bronze's progress and in notifications."""
    table.execute("INSERT INTO t SELECT n, 'SECRET' || n FROM generate_series(1, 9) AS n")
    house = make_house(snapshot_mode="no_data", column_mask_with_10_chars=r"public\.t\.v")
    house.run()
    data = {"data-collections": [r"public\.t"], "surrogate-key": "v"}
    request = house.signal("execute-snapshot", data)
    house.run()
    told = notifications_of(spark, lake, request)
    assert [note.data.get("reason", "") for note in told if "reason" in note.data] == [
        "The surrogate key v of public.t is masked: its values are not to show."
    ]
    assert "SECRET" not in str(told)
    assert spark.table(str(lake.bronze)).where("progress LIKE '%SECRET%'").isEmpty()


def test_a_request_whose_tables_were_all_stopped_has_ended(
    spark: SparkSession, lake: LakeLayout, house: Walhouse
) -> None:
    house.signal("pause-snapshot", {})
    request = house.snapshot([T])
    with house._writing():
        capture = house._capture()
        capture.begin()
        capture.requests.take_signals()
    house.signal("stop-snapshot", {"data-collections": [r"public\.t"]})
    assert house.follow(request, poll_seconds=0)[-1].type is Event.ABORTED
    assert spark.table(str(lake.bronze)).where("kind = 'snapshot'").isEmpty()


def test_a_snapshot_that_nobody_would_read_is_not_asked_for(table: Database, make_house: MakeHouse) -> None:
    house = make_house(snapshot_mode="initial_only")
    house.run()
    with pytest.raises(NotStreamingError):
        house.snapshot([T])


@pytest.mark.slow
@pytest.mark.parametrize(
    "made",
    [
        pytest.param(["ALTER TABLE t ADD serial int"], id="nothing"),
        further(
            ["CREATE DOMAIN numbered AS int NOT NULL", "ALTER TABLE t ADD serial numbered DEFAULT 1"], id="by its type"
        ),
        further(
            ["ALTER TABLE t ADD serial int", "ALTER TABLE t ADD CONSTRAINT promise NOT NULL serial NOT VALID"],
            id="of rows to come",
        ),
    ],
)
def test_rows_that_have_no_value_in_the_key_that_was_asked_for_are_a_chunk_of_their_own(
    made: list[str], spark: SparkSession, table: Database, lake: LakeLayout, house: Walhouse
) -> None:
    """Also where the table promises that there are none: a domain does not keep all of them out."""
    [(version,)] = table.execute("SELECT current_setting('server_version_num')::int")
    promised = [statement for statement in made if "NOT VALID" in statement]
    if promised and version < 180000:
        return
    nothing = "(SELECT serial FROM t WHERE id < 0)"
    table.execute(*(statement for statement in made if statement not in promised))
    table.execute("UPDATE t SET serial = id / 2", f"UPDATE t SET serial = {nothing} WHERE id <= 30", *promised)
    house.signal("execute-snapshot", {"data-collections": [r"public\.t"], "surrogate-key": "serial"})
    house.run()
    (proof,) = house.verify()
    assert (proof.equal, proof.source_rows) == (True, 500)
    chunks = spark.table(str(lake.bronze)).where("kind = 'snapshot'").groupBy("snapshot.chunk")
    found = chunks.agg(F.count("*").alias("rows"), F.count(text_at(F.col("after"), 2)).alias("with_serial")).orderBy(
        "chunk"
    )
    *ranges, rest = [(row["rows"], row["with_serial"]) for row in found.collect()]
    assert rest == (30, 0)
    assert sum(rows for rows, _ in ranges) == sum(serials for _, serials in ranges) == 470


@pytest.mark.slow
@pytest.mark.parametrize("running_is_newest", [further(False), True])
def test_a_table_added_to_the_publication_is_read_once_older_transactions_have_ended(
    spark: SparkSession, table: Database, lake: LakeLayout, make_house: MakeHouse, *, running_is_newest: bool
) -> None:
    """Older than the change, be its id smaller or greater than that of the transaction that made the change."""
    house = make_house()
    house.run()
    table.execute("CREATE TABLE late (id int PRIMARY KEY)", "INSERT INTO late SELECT generate_series(1, 10)")
    late = TableName("public", "late")
    with table.connect(autocommit=False) as changing, table.connect(autocommit=False) as running:
        changing.execute("SELECT pg_current_xact_id()")
        running.execute("INSERT INTO late VALUES (11)")
        changing.execute("ALTER PUBLICATION walhouse_test ADD TABLE late")
        changing.commit()
        if not running_is_newest:
            table.execute("INSERT INTO late VALUES (12)")
        request = house.snapshot([T])
        house.run()
        read = spark.table(str(lake.bronze)).where("kind = 'snapshot' AND table_name = 'late'")
        assert read.isEmpty(), "it is waited for"
        assert notifications_of(spark, lake, request)[-1].type is Event.COMPLETED, "no other table waits with it"
        assert [(each.table, each.state) for each in house.status().snapshots] == [(late, "waiting")]
    house.run()
    assert [proof.source_rows for proof in house.verify([late]) if proof.equal] == [11 if running_is_newest else 12]


@pytest.mark.slow
def test_layers_wait_for_the_rows_of_a_table_without_a_key_that_was_added_to_the_publication(
    spark: SparkSession, table: Database, lake: LakeLayout, make_house: MakeHouse
) -> None:
    """No change finds its row before: gold would take it for one that was lost."""
    house = make_house()
    house.run()
    bag = TableName("public", "bag")
    table.execute(
        "CREATE TABLE bag (v text)",
        "ALTER TABLE bag REPLICA IDENTITY FULL",
        "INSERT INTO bag VALUES ('a'), ('a'), ('b')",
        "ALTER PUBLICATION walhouse_test ADD TABLE bag",
        "UPDATE bag SET v = 'c' WHERE v = 'b'",
    )
    with pytest.raises(TableNotReadError, match=r"public\.bag is published, but not read yet"):
        house.verify()  # its pass over the WAL is the one that sees the table
    house.silver()
    house.gold()
    assert not table_exists(spark, lake, lake.gold(bag))
    house.run()
    assert [proof.source_rows for proof in house.verify([bag]) if proof.equal] == [3]


@contextmanager
def commits_that_wait(database: Database) -> Iterator[None]:
    """Commits are written, and wait to be confirmed by a standby that is not there: until then nobody sees them."""

    def wait_for(names: str) -> None:
        database.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{names}'", "SELECT pg_reload_conf()")
        while database.execute("SHOW synchronous_standby_names") != [(names,)]:
            time.sleep(0.05)

    wait_for("nobody")
    try:
        yield
    finally:
        wait_for("")


@pytest.mark.parametrize(
    "applied_before",
    [pytest.param(False, id="in the same epoch"), pytest.param(True, id="in an earlier epoch", marks=pytest.mark.slow)],
)
def test_a_row_read_while_a_later_commit_is_written_but_not_visible_does_not_overwrite_it(
    applied_before: bool,
    spark: SparkSession,
    table: Database,
    lake: LakeLayout,
    make_house: MakeHouse,
) -> None:
    """What Debezium's watermarks get wrong for good: they are WAL positions, and visibility comes later."""
    table.execute("INSERT INTO t VALUES (1, 'old'), (2, 'old')")
    house = make_house(snapshot_mode="no_data")
    house.run()
    with ExitStack() as unfinished:
        unfinished.enter_context(commits_that_wait(table))
        writer = threading.Thread(target=table.execute, args=("UPDATE t SET v = 'new' WHERE id = 1",))
        writer.start()
        waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
        while table.execute(waits) != [(1,)]:
            time.sleep(0.05)
        if applied_before:
            house.run()
        house.snapshot([T])
        house.run()
        assert table.execute("SELECT v FROM t WHERE id = 1") == [("old",)], "nobody sees it yet"
        read = (
            spark.table(str(lake.bronze))
            .where("kind = 'snapshot'")
            .select(*(text_at(F.col("after"), place) for place in (0, 1)))
        )
        assert sorted(map(tuple, read.collect())) == [("1", "old"), ("2", "old")]
    writer.join()
    events = spark.table(str(lake.silver(T))).orderBy("commit_lsn", "seq").selectExpr("key.id", "op")
    assert sorted(map(tuple, events.collect())) == [(1, "u"), (2, "r")]
    assert all(proof.equal for proof in house.verify())


def test_a_user_who_may_only_read_is_enough(
    spark: SparkSession,
    table: Database,
    role: Callable[[str], ConnectionSettings],
    lake: LakeLayout,
    make_house: MakeHouse,
) -> None:
    reader = role("REPLICATION")
    table.execute(
        f"ALTER ROLE {reader.user} SET default_transaction_read_only = on",
        f"GRANT SELECT ON t TO {reader.user}",
        "INSERT INTO t SELECT n, 'x' FROM generate_series(1, 50) AS n",
        "CREATE PUBLICATION walhouse_test FOR TABLE t",
    )
    house = make_house(snapshot_mode="no_data", incremental_snapshot_chunk_size=5, **logged_in_as(reader))
    house.run()
    table.execute("UPDATE t SET v = 'y' WHERE id < 3")
    house.snapshot([T])
    house.run()
    assert [proof.equal for proof in house.verify()] == [True]
    chunks = spark.table(str(lake.bronze)).where("kind = 'snapshot'").groupBy("snapshot.chunk").count()
    assert [tuple(row) for row in chunks.select("count").distinct().collect()] == [(5,)]


@pytest.mark.slow
def test_rows_ahead_of_the_stream_are_applied_only_when_the_stream_is_there(
    spark: SparkSession,
    table: Database,
    lake: LakeLayout,
    house: Walhouse,
    make_house: MakeHouse,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def end_of_the_process(connection: object) -> Lsn:
        del connection
        raise SourceUnreachableError("The process ended between the chunks and the stream.")

    house.snapshot([T], where="id <= 10")
    monkeypatch.setattr("walhouse.bronze.requests.serve.insert_lsn", end_of_the_process)
    with pytest.raises(SourceUnreachableError):
        house.capture()
    monkeypatch.undo()
    assert spark.table(str(lake.bronze)).where("kind = 'snapshot'").count() == 10
    later = make_house(snapshot_mode="no_data")
    table.execute("UPDATE t SET v = 'new' WHERE id = 1")
    later.silver()
    later.gold()
    assert spark.table(str(lake.silver(T))).isEmpty()
    assert spark.table(str(lake.gold(T))).isEmpty()
    later.run()
    assert spark.table(str(lake.silver(T))).groupBy("op").count().orderBy("op").collect() == [("r", 10), ("u", 1)]
    assert spark.table(str(lake.gold(T))).where("v = 'new'").count() == 1
