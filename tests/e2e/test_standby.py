"""The whole path from a real standby, while writers do everything on its primary."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.e2e.hammer import SCHEMA, Hammer
from tests.e2e.test_snapshots_under_fire import rows_read_that_differ_from_what_came_before
from tests.e2e.witness import gold_rows, source_rows
from tests.fixtures_house import AfterPartOfSnapshot, houses, logged_in_as
from tests.fixtures_server import login_role
from tests.fixtures_standby import database_on_both, standby_of
from tests.variants import further
from walhouse.bronze.progress import read_progress
from walhouse.bronze.requests.notifications import Event, notifications_of
from walhouse.errors import PromotedError, SourceChangedError, SourceError
from walhouse.names import TableName
from walhouse.postgres.identity import require_continued
from walhouse.postgres.wal import readable_lsn

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from fixtures.server import EmbeddedServer
    from tests.fixtures_standby import Followed
    from walhouse.lakehouse.layout import LakeLayout
    from walhouse.lsn import Lsn
    from walhouse.postgres.connection import Connection

pytestmark = [pytest.mark.server, pytest.mark.spark]

DOCS, BAG = (TableName("public", name) for name in ("docs", "bag"))
TABLES = (DOCS, BAG)


@pytest.mark.slow
@pytest.mark.parametrize("source", ["standby", further("primary")])
def test_a_user_who_may_only_read_has_gold_equal_to_the_source_whatever_is_written_meanwhile(
    source: str, spark: SparkSession, followed: Followed, lake: LakeLayout, tmp_path: Path
) -> None:
    primary = followed.primary
    settings = {
        "read_only": True,
        "publication_autocreate_mode": "disabled",
        "table_include_list": ",".join(map(str, TABLES)),
        "incremental_snapshot_chunk_size": 2,
        "lake_snapshot_pass_rows": 40,
    }
    with ExitStack() as open_here:
        reader = open_here.enter_context(login_role(primary, "REPLICATION"))
        primary.execute(
            *SCHEMA,
            "CREATE PUBLICATION walhouse_test FOR TABLES IN SCHEMA public",
            f"ALTER ROLE {reader.user} SET default_transaction_read_only = on",
            f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {reader.user}",
        )
        with Hammer(primary, 1, 100) as writer:
            writer.join()
        followed.catch_up()
        asked = followed.standby if source == "standby" else primary
        make = open_here.enter_context(houses(spark, asked, lake, tmp_path, **settings, **logged_in_as(reader)))
        house = make()
        with ExitStack() as writers:
            for seed in (2, 3):
                writers.enter_context(Hammer(primary, seed, 1000))
            with followed.telling_what_runs():
                house.run()
            request = house.snapshot([DOCS])
            house.run()
            assert notifications_of(spark, lake, request)[-1].type is Event.COMPLETED
        followed.catch_up()
        proofs = house.verify()
        assert {proof.table: proof.equal for proof in proofs} == dict.fromkeys(TABLES, True)
        for table in TABLES:
            assert gold_rows(spark, lake, table) == source_rows(primary, table)
        read = spark.table(str(lake.silver(DOCS))).where("op = 'r' AND source.snapshot = 'incremental'")
        assert read.count() > 0
        assert rows_read_that_differ_from_what_came_before(spark, lake) == 0
        ids = spark.table(str(lake.silver(DOCS))).where("op = 'r'").select("source.txId").distinct().collect()
        assert [row["txId"] for row in ids] == [None]
        house.close()


def test_after_a_promotion_in_mid_run_the_next_run_goes_on_and_nothing_is_lost(
    spark: SparkSession,
    followed_server: EmbeddedServer,
    lake: LakeLayout,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with (
        standby_of(followed_server) as standby,
        database_on_both(followed_server, standby) as both,
        houses(spark, both.standby, lake, tmp_path, publication_autocreate_mode="disabled") as make,
    ):
        both.primary.execute(
            "CREATE TABLE t (id int PRIMARY KEY, v text)",
            "CREATE PUBLICATION walhouse_test FOR TABLE t",
            "INSERT INTO t SELECT n, 'before' FROM generate_series(1, 10) AS n",
        )
        both.catch_up()
        house = make()
        with both.telling_what_runs():
            house.run()
        both.primary.execute("UPDATE t SET v = 'replayed' WHERE id = 1")
        both.catch_up()

        def after_the_promotion(connection: Connection) -> Lsn:
            standby.promote()
            both.standby.execute("UPDATE t SET v = 'promoted' WHERE id = 2", "DELETE FROM t WHERE id = 3")
            monkeypatch.undo()
            return readable_lsn(connection)

        monkeypatch.setattr("walhouse.bronze.capture.readable_lsn", after_the_promotion)
        before = read_progress(spark, lake)
        with pytest.raises(PromotedError):
            house.run()
        assert read_progress(spark, lake) == before, "nothing of a timeline that it does not know"
        both.primary.execute("UPDATE t SET v = 'on another timeline'")
        house.run()
        table = TableName("public", "t")
        assert [proof.equal for proof in house.verify()] == [True]
        assert gold_rows(spark, lake, table) == source_rows(both.standby, table)
        ops = spark.table(str(lake.silver(table))).groupBy("op").count()
        assert {row["op"]: row["count"] for row in ops.collect()} == {"r": 10, "u": 2, "d": 1}
        now = read_progress(spark, lake)
        assert before is not None
        assert now is not None
        assert (before.source.timeline, now.source.timeline) == (1, 2)
        with pytest.raises(SourceChangedError, match="is not in the source any more"):
            require_continued(both.standby.settings, before.source, now.source, now.captured_to)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["initial", "incremental"])
def test_a_snapshot_goes_on_after_its_standby_was_restarted_and_after_it_was_promoted(
    kind: str, spark: SparkSession, followed_server: EmbeddedServer, lake: LakeLayout, tmp_path: Path
) -> None:
    table = TableName("public", "t")
    settings = {
        "publication_autocreate_mode": "disabled",
        "snapshot_mode": "initial" if kind == "initial" else "no_data",
        "incremental_snapshot_chunk_size": 100,
        "lake_snapshot_pass_rows": 100,
        "lake_snapshot_chunk_pages": 1,
        "lake_snapshot_pass_pages": 1,
    }
    with (
        standby_of(followed_server) as standby,
        database_on_both(followed_server, standby) as both,
        houses(spark, both.standby, lake, tmp_path, **settings) as make,
    ):
        both.primary.execute(
            "CREATE TABLE t (id int PRIMARY KEY, v text)",
            "CREATE PUBLICATION walhouse_test FOR TABLE t",
            "INSERT INTO t SELECT n, repeat('v', 60) FROM generate_series(1, 500) AS n",
        )
        both.catch_up()

        def promoted() -> None:
            both.catch_up()
            standby.promote()
            both.standby.execute("UPDATE t SET v = 'promoted' WHERE id % 50 = 0", "DELETE FROM t WHERE id % 50 = 1")

        house = make()
        with both.telling_what_runs():
            if kind == "incremental":
                house.run()
                house.snapshot([table])
            with pytest.raises(SourceError) as lost:
                house.run(progress=AfterPartOfSnapshot(standby.restart))
        assert not isinstance(lost.value, PromotedError)
        [waiting] = house.status().snapshots
        assert (waiting.table, waiting.state, waiting.interrupted) == (table, "interrupted", lost.value.problem)
        both.primary.execute("UPDATE t SET v = 'replayed' WHERE id % 50 = 2", "DELETE FROM t WHERE id % 50 = 3")
        both.catch_up()
        with both.telling_what_runs(), pytest.raises(PromotedError) as left:
            house.run(progress=AfterPartOfSnapshot(promoted))
        told = notifications_of(spark, lake, waiting.request)
        interrupted = [note.data["reason"] for note in told if note.type is Event.INTERRUPTED]
        # an initial snapshot is one: what was begun before the promotion is read to its end, and only the stream stops
        also = [left.value.problem] if kind == "incremental" else []
        assert interrupted == [lost.value.problem, *also]
        both.primary.execute("UPDATE t SET v = 'on another timeline'")
        house.run()
        assert [(proof.equal, proof.source_rows) for proof in house.verify()] == [(True, 480)]
        assert house.status().snapshots == ()
        assert gold_rows(spark, lake, table) == source_rows(both.standby, table)
        read = spark.table(str(lake.bronze)).where("kind = 'snapshot'")
        assert read.select("snapshot.chunk", "seq").distinct().count() == read.count()
