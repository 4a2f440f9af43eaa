"""What befalls a table between two parts of its reading: no row is passed over, and nobody else is kept waiting."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from tests.bronze.snapshots.conftest import T
from tests.bronze.snapshots.test_whole import SMALL, KilledError, killed_after
from tests.fixtures_house import logged_in_as
from tests.fixtures_server import login_role
from walhouse.bronze.append import append
from walhouse.bronze.requests.notifications import notifications_of
from walhouse.changes.images import text_at
from walhouse.errors import LockTimeoutError
from walhouse.names import TableName
from walhouse.ops.reporting import Silent
from walhouse.ops.retry import POLICY, Retry
from walhouse.postgres.slot import created_slot

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from pyspark.sql import SparkSession

    from tests.fixtures_house import MakeHouse
    from tests.fixtures_server import Database
    from walhouse.api import Walhouse
    from walhouse.lakehouse.layout import LakeLayout
    from walhouse.postgres.slot import ExportedSnapshot

pytestmark = [pytest.mark.server, pytest.mark.spark]

ALL = {"publication_autocreate_mode": "all_tables"}
ONE, BOTH = "public.one", "public.one,public.late"
LATE = TableName("public", "late")


def _ids(spark: SparkSession, lake: LakeLayout, first_chunk: int) -> set[str]:
    """What was read of the column ``id`` by chunks from this one on."""
    read = spark.table(str(lake.bronze)).where((F.col("kind") == "snapshot") & (F.col("snapshot.chunk") >= first_chunk))
    return {row[0] for row in read.select(text_at(F.col("after"), 0)).collect()}


def _proven(house: Walhouse) -> dict[str, bool]:
    return {proof.table.table: proof.equal for proof in house.verify()}


@pytest.mark.parametrize(
    "statements",
    [
        ["ALTER TABLE t DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (id, k)"],
        ["ALTER TABLE t DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (k)"],
        ["ALTER TABLE t ALTER id TYPE text"],
        ["CREATE TABLE other (LIKE t INCLUDING ALL)", "INSERT INTO other SELECT 501 - id, k FROM t", "DROP TABLE t",
         "ALTER TABLE other RENAME TO t"],
    ],
)  # fmt: skip
def test_a_table_is_read_from_its_beginning_if_its_key_has_become_another(
    statements: list[str], spark: SparkSession, database: Database, lake: LakeLayout, make_house: MakeHouse
) -> None:
    """What came before a key in the old order need not come before it in the new one."""
    database.execute("CREATE TABLE t (id int PRIMARY KEY, k int NOT NULL)", "ALTER TABLE t REPLICA IDENTITY FULL")
    database.execute("INSERT INTO t SELECT n, 1000 - n FROM generate_series(1, 500) AS n")
    house = make_house(snapshot_mode="no_data", incremental_snapshot_chunk_size=100, lake_snapshot_pass_rows=200)
    house.capture()
    house.snapshot([T])
    with house._writing():
        capture = house._rounds(Silent()).open_capture()
        capture.begin(starts=True)
        capture.requests.take_signals()
        capture.requests.read(lambda _: None)
        (queued,) = capture.progress.queue.tables
        assert queued.chunks == 2
        begun = capture.progress.queue.next_chunk
    database.execute(*statements)
    house.capture()
    assert _ids(spark, lake, begun) == {str(number) for number in range(1, 501)}


@pytest.fixture
def widened(database: Database, make_house: MakeHouse) -> Walhouse:
    """A house whose list has got the table ``late`` with nine rows, which it left out before."""
    database.execute("CREATE TABLE one (id int PRIMARY KEY)", "INSERT INTO one VALUES (1)")
    database.execute("CREATE TABLE late (id int PRIMARY KEY)", "INSERT INTO late SELECT generate_series(1, 9)")
    make_house(**ALL, table_include_list=ONE).run()
    return make_house(**ALL, table_include_list=BOTH, snapshot_lock_timeout_ms=1000)


@pytest.mark.slow
def test_a_table_that_is_away_when_it_is_to_be_read_is_read_when_it_is_back(
    widened: Walhouse, database: Database, make_house: MakeHouse
) -> None:
    with widened._writing():
        capture = widened._rounds(Silent()).open_capture()
        capture.begin(starts=True)
        assert [each.table for each in capture.progress.queue.tables] == [LATE]
        database.execute("ALTER TABLE late RENAME TO parked")
        capture.requests.read(lambda _: None)
        assert capture.progress.queue.tables == ()
        database.execute("ALTER TABLE parked RENAME TO late")
    house = make_house(**ALL, table_include_list=BOTH)
    house.run()
    assert _proven(house) == {"one": True, "late": True}


@pytest.mark.slow
def test_who_stops_all_snapshots_stops_none_that_nobody_asked_for(widened: Walhouse, database: Database) -> None:
    with database.connect(autocommit=False) as running:
        running.execute("CREATE TABLE unrelated ()")
        widened.snapshot([TableName("public", "one")], "id > 0")
        widened.signal("stop-snapshot", {})
        widened.run()
    widened.run()
    assert _proven(widened) == {"one": True, "late": True}


@pytest.mark.slow
def test_a_reading_that_nobody_asked_for_keeps_no_other_table_waiting_for_a_transaction(
    widened: Walhouse,
    spark: SparkSession,
    lake: LakeLayout,
    database: Database,
    make_house: MakeHouse,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It was left out for a while, and is to be read whole, in a snapshot that transactions have to end for."""
    widened.run()
    database.execute("CREATE TABLE unrelated (id int)", "DELETE FROM late WHERE id = 3")
    make_house(**ALL, table_include_list=ONE).run()
    house = make_house(**ALL, table_include_list=BOTH, snapshot_lock_timeout_ms=1000)
    with database.connect(autocommit=False) as running, caplog.at_level(logging.WARNING, "walhouse"):
        running.execute("INSERT INTO unrelated VALUES (1)")
        database.execute("INSERT INTO one VALUES (2)")
        house.run()
        assert spark.table(str(lake.gold(TableName("public", "one")))).count() == 2
    assert "Not read yet: public.late. " in caplog.text
    house = make_house(**ALL, table_include_list=BOTH)
    house.run()
    assert _proven(house) == {"one": True, "late": True}


@pytest.mark.parametrize("begun", [False, True])
def test_a_reading_that_the_mode_wants_is_refused_and_not_put_off_where_a_transaction_keeps_it_waiting(
    begun: bool, database: Database, make_house: MakeHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first of a lake, and one of each start, also where a reading that nobody asked for waits behind it."""
    monkeypatch.setitem(POLICY, LockTimeoutError, Retry(delay_seconds=0.001, times=1))
    waited = []

    def create(*arguments: Any, **options: Any) -> AbstractContextManager[ExportedSnapshot]:
        waited.append(options.get("lock_timeout_seconds"))
        return created_slot(*arguments, **options)

    monkeypatch.setattr("walhouse.bronze.snapshots.whole.created_slot", create)
    settings = {**ALL, "snapshot_lock_timeout_ms": 500}
    database.execute("CREATE TABLE one (id int PRIMARY KEY)", "CREATE TABLE late (id int PRIMARY KEY)")
    if begun:
        make_house(**settings, table_include_list=BOTH).capture()
        database.execute("INSERT INTO late VALUES (1)")
        make_house(**settings, table_include_list=ONE).capture()
    waited.clear()
    with database.connect(autocommit=False) as running:
        running.execute("CREATE TABLE unrelated (id int)")
        house = make_house(**settings, table_include_list=BOTH, snapshot_mode="always" if begun else "initial")
        with pytest.raises(LockTimeoutError):
            house.capture()
    assert waited == [0.5, 0.5], "snapshot.lock.timeout.ms holds for the slot, too"


@pytest.mark.slow
def test_a_table_that_was_swapped_back_and_could_not_be_read_is_read_when_it_can(
    database: Database, make_house: MakeHouse
) -> None:
    """It is owed by its OID: the name has been another's meanwhile."""
    swap = "BEGIN; ALTER TABLE {} RENAME TO {}; ALTER TABLE {} RENAME TO {}; COMMIT"
    with login_role(database, "REPLICATION") as reader:
        for table in ("t", "fresh"):
            database.execute(f"CREATE TABLE {table} (id int PRIMARY KEY)", f"GRANT SELECT ON {table} TO {reader.user}")
        database.execute(
            "INSERT INTO t SELECT generate_series(1, 9)", "CREATE PUBLICATION walhouse_test FOR ALL TABLES"
        )
        settings = {**ALL, "table_include_list": "public.t", **logged_in_as(reader)}
        house = make_house(**settings)
        house.run()
        database.execute(swap.format("t", "old", "fresh", "t"))
        house.run()
        database.execute("DELETE FROM old WHERE id = 2", f"REVOKE SELECT ON old FROM {reader.user}")
        database.execute(swap.format("t", "fresh", "old", "t"))
        house.run()
        database.execute(f"GRANT SELECT ON t TO {reader.user}")
        house = make_house(**settings)
        house.run()
        assert _proven(house) == {"t": True}


@pytest.mark.slow
def test_a_table_whose_lake_table_was_anothers_is_read_in_place(database: Database, make_house: MakeHouse) -> None:
    database.execute('CREATE TABLE "Two" (id int PRIMARY KEY)', 'INSERT INTO "Two" SELECT generate_series(1, 9)')
    house = make_house(**ALL)
    house.run()
    database.execute('DROP TABLE "Two"', "CREATE TABLE two (id int PRIMARY KEY)", "INSERT INTO two VALUES (5)")
    house.run()
    assert _proven(house) == {"two": True}


@pytest.mark.slow
def test_a_partition_that_was_filled_before_it_was_attached_is_read_and_one_that_was_born_as_one_is_not(
    spark: SparkSession, database: Database, lake: LakeLayout, make_house: MakeHouse
) -> None:
    database.execute("CREATE TABLE root (id int PRIMARY KEY) PARTITION BY RANGE (id)")
    database.execute("CREATE PUBLICATION walhouse_test FOR TABLE root")
    house = make_house(publication_autocreate_mode="disabled")
    house.run()
    database.execute(
        "CREATE TABLE filled (LIKE root INCLUDING ALL)",
        "INSERT INTO filled SELECT generate_series(1, 9)",
        "ALTER TABLE root ATTACH PARTITION filled FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE born PARTITION OF root FOR VALUES FROM (10) TO (20)",
        "INSERT INTO root SELECT generate_series(8, 19) ON CONFLICT DO NOTHING",
    )
    house.run()
    assert _proven(house) == {"born": True, "filled": True}
    events = spark.table(str(lake.silver(TableName("public", "born")))).select("op").distinct()
    assert [row["op"] for row in events.collect()] == ["c"]


@pytest.mark.slow
def test_a_table_that_may_not_be_read_further_is_whole_once_it_may(
    spark: SparkSession,
    database: Database,
    lake: LakeLayout,
    make_house: MakeHouse,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What was known of it is without effect from the first part on: it is not left at that part."""
    with login_role(database, "REPLICATION") as reader:
        database.execute(
            "CREATE TABLE t (id int PRIMARY KEY, v text)",
            "INSERT INTO t SELECT n, repeat('x', 1500) FROM generate_series(1, 160) AS n",
            "CREATE PUBLICATION walhouse_test FOR TABLE t",
            f"GRANT SELECT ON t TO {reader.user}",
        )
        house = make_house(**SMALL, **logged_in_as(reader))
        house.run()

        def then_revoked(*arguments: Any) -> Any:
            done = append(*arguments)
            monkeypatch.undo()
            database.execute(f"REVOKE SELECT ON t FROM {reader.user}")
            return done

        monkeypatch.setattr("walhouse.bronze.snapshots.whole.append", then_revoked)
        request = house.signal("execute-snapshot", {"data-collections": [r"public\.t"], "type": "blocking"})
        house.run()
        assert notifications_of(spark, lake, request)[-2].data["status"] == "SQL_EXCEPTION"
        database.execute(f"GRANT SELECT ON t TO {reader.user}")
        house = make_house(**SMALL, **logged_in_as(reader))
        house.run()
        assert _proven(house) == {"t": True}


@pytest.mark.slow
def test_a_table_whose_key_is_gone_when_its_reading_goes_on_is_read_from_its_first_page(
    database: Database, make_house: MakeHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row that moved to an unread page would be there twice, and its description is the same as before."""
    database.execute(
        "CREATE TABLE t (id int PRIMARY KEY, v text)",
        "ALTER TABLE t REPLICA IDENTITY FULL",
        "INSERT INTO t SELECT n, repeat('x', 1500) FROM generate_series(1, 160) AS n",
    )
    with monkeypatch.context() as patch:
        killed_after(2, patch)
        with pytest.raises(KilledError):
            make_house(**SMALL).run()
    database.execute("ALTER TABLE t DROP CONSTRAINT t_pkey", "UPDATE t SET v = repeat('y', 1500) WHERE id < 10")
    house = make_house(**SMALL)
    house.run()
    assert _proven(house) == {"t": True}


@pytest.mark.slow
def test_a_reading_that_nobody_asked_for_keeps_no_other_table_waiting_for_a_free_slot(
    widened: Walhouse, spark: SparkSession, lake: LakeLayout, database: Database, make_house: MakeHouse
) -> None:
    widened.run()
    database.execute("DELETE FROM late WHERE id = 3")
    make_house(**ALL, table_include_list=ONE).run()
    with ExitStack() as taken:
        for number in range(_free_slots(database)):
            name = f"{database.name}_{number}"
            database.execute(f"SELECT pg_create_physical_replication_slot('{name}')")
            taken.callback(database.execute, f"SELECT pg_drop_replication_slot('{name}')")
        database.execute("INSERT INTO one VALUES (2)")
        make_house(**ALL, table_include_list=BOTH).run()
        assert spark.table(str(lake.gold(TableName("public", "one")))).count() == 2
    house = make_house(**ALL, table_include_list=BOTH)
    house.run()
    assert _proven(house) == {"one": True, "late": True}


def _free_slots(database: Database) -> int:
    limit = "SELECT current_setting('max_replication_slots')::int - count(*)::int FROM pg_replication_slots"
    [(free,)] = database.execute(limit)
    return int(free)
