"""A primary is lost, its standby takes its place, and capture goes on there from the slot that the standby kept."""

from __future__ import annotations

import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.e2e.witness import gold_rows, source_rows
from tests.fixtures_house import houses
from tests.fixtures_standby import database_on_both, setting_on, standby_of
from tests.switch import switch_to
from walhouse.bronze.progress import read_progress
from walhouse.errors import SourceUnreachableError
from walhouse.names import TableName
from walhouse.postgres.wal import readable_lsn

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from fixtures.server import EmbeddedServer
    from tests.fixtures_house import MakeHouse
    from tests.fixtures_server import Database
    from tests.fixtures_standby import Followed
    from walhouse.lakehouse.layout import LakeLayout
    from walhouse.lsn import Lsn
    from walhouse.postgres.connection import Connection

pytestmark = [pytest.mark.server, pytest.mark.spark]

T = TableName("public", "t")


def has_copy(both: Followed, seconds: float = 5) -> bool:
    """Whether the standby gets a copy of the slot that it would keep, in so many seconds."""
    deadline = time.monotonic() + seconds
    copies = "SELECT failover, synced, temporary FROM pg_replication_slots WHERE plugin IS NOT NULL"
    while (found := both.standby.execute(copies)) != [(True, True, False)] and time.monotonic() < deadline:
        time.sleep(0.1)
    return found == [(True, True, False)]


@contextmanager
def captured_with_a_failover_slot(
    spark: SparkSession, followed_server: EmbeddedServer, lake: LakeLayout, folder: Path
) -> Iterator[tuple[Followed, MakeHouse]]:
    """A primary and its standby, which has a copy of the slot, and houses on the primary; ten rows are captured."""
    with ExitStack() as open_here:
        standby = open_here.enter_context(standby_of(followed_server))
        both = open_here.enter_context(database_on_both(followed_server, standby))
        [(version,)] = both.primary.execute("SELECT current_setting('server_version_num')::int")
        if version < 170000:
            pytest.skip("no slot survives its server before PostgreSQL 17")
        open_here.enter_context(both.keeping_slots())
        both.primary.execute(
            "CREATE TABLE t (id int PRIMARY KEY, v text)",
            "INSERT INTO t SELECT n, 'before' FROM generate_series(1, 10) AS n",
        )
        make = open_here.enter_context(houses(spark, both.primary, lake, folder, slot_failover=True))
        make().run()
        with setting_on(both.standby, sync_replication_slots="on"):
            attempts = 0
            while not has_copy(both):  # PostgreSQL 17 takes one only once the slot has moved on
                assert (attempts := attempts + 1) < 5
                both.primary.execute("SELECT pg_log_standby_snapshot()")
                make().run()
        yield both, make


def test_after_a_failover_capture_goes_on_from_the_slot_that_the_standby_kept_and_nothing_is_lost_or_doubled(
    spark: SparkSession, followed_server: EmbeddedServer, lake: LakeLayout, tmp_path: Path
) -> None:
    with captured_with_a_failover_slot(spark, followed_server, lake, tmp_path) as (both, make):
        both.primary.execute("UPDATE t SET v = 'captured' WHERE id = 1")
        make().run()  # the standby's copy of the slot stays behind
        both.primary.execute("UPDATE t SET v = 'not captured' WHERE id = 2")
        both.catch_up()
        before = read_progress(spark, lake)

        both.server.promote()
        both.standby.execute("UPDATE t SET v = 'promoted' WHERE id = 3", "DELETE FROM t WHERE id = 4")
        both.primary.execute("UPDATE t SET v = 'of another timeline'")
        house = make(**address_of(both.standby))
        house.run()

        assert [proof.equal for proof in house.verify()] == [True]
        assert gold_rows(spark, lake, T) == source_rows(both.standby, T)
        ops = spark.table(str(lake.silver(T))).groupBy("op").count()
        assert {row["op"]: row["count"] for row in ops.collect()} == {"r": 10, "u": 3, "d": 1}
        now = read_progress(spark, lake)
        assert before is not None
        assert now is not None
        assert (before.source.timeline, now.source.timeline) == (1, 2)


@pytest.mark.slow
def test_a_run_whose_address_leads_to_the_promoted_standby_all_at_once_takes_nothing_of_two_servers_for_one(
    spark: SparkSession,
    followed_server: EmbeddedServer,
    lake: LakeLayout,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The old primary still answers who is connected: how far its WAL is says nothing of the new one's."""
    with (
        captured_with_a_failover_slot(spark, followed_server, lake, tmp_path) as (both, make),
        switch_to(both.primary.settings.port) as switch,
    ):
        both.catch_up()
        before = read_progress(spark, lake)
        house = make(database_port=switch.port)

        def after_the_switch(connection: Connection) -> Lsn:
            both.server.promote()
            both.standby.execute("UPDATE t SET v = 'promoted' WHERE id = 3")
            switch.to_port = both.standby.settings.port
            for _ in range(3):
                both.primary.execute("UPDATE t SET v = 'of another timeline'")
            monkeypatch.undo()
            return readable_lsn(connection)

        monkeypatch.setattr("walhouse.bronze.capture.readable_lsn", after_the_switch)
        with pytest.raises(SourceUnreachableError, match="not the one that this command began with"):
            house.run()
        assert read_progress(spark, lake) == before, "nothing of a server whose WAL nobody looked at"
        house = make(database_port=switch.port)
        house.run()
        assert [proof.equal for proof in house.verify()] == [True]
        assert gold_rows(spark, lake, T) == source_rows(both.standby, T)


def address_of(database: Database) -> dict[str, object]:
    """Settings of a house that reads the same database elsewhere."""
    return {"database_hostname": database.settings.host, "database_port": database.settings.port}
