"""What was put back to an earlier state: the server with all of its files, or a layer of the lake alone."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.e2e.witness import gold_rows, source_rows
from tests.fixtures_house import houses
from tests.fixtures_server import Database, database_on, server_of_its_own
from tests.variants import further
from walhouse.errors import LakeError, SlotGapError, SourceChangedError
from walhouse.lakehouse.tables import current_version
from walhouse.names import TableName

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from fixtures.server import EmbeddedServer
    from tests.fixtures_house import MakeHouse
    from walhouse.lakehouse.layout import LakeLayout

pytestmark = [pytest.mark.server, pytest.mark.spark]

T = TableName("public", "t")
TABLE = ("CREATE TABLE t (id int PRIMARY KEY, v text)", "INSERT INTO t SELECT n, 'x' FROM generate_series(1, 10) AS n")


@pytest.fixture
def own_server() -> Iterator[EmbeddedServer]:
    with server_of_its_own() as server:
        yield server


@contextmanager
def put_back_afterwards(server: EmbeddedServer) -> Iterator[None]:
    """What is done here is undone with all of the server's files."""
    kept = server.folder / "kept"
    server.stop()
    copy_as_it_is(server.data, kept)
    server.restart()
    yield
    server.stop()
    shutil.rmtree(server.data)
    copy_as_it_is(kept, server.data)
    server.restart()


def test_a_server_that_was_put_back_with_its_files_is_named_and_nothing_is_read_from_it(
    spark: SparkSession, own_server: EmbeddedServer, lake: LakeLayout, tmp_path: Path
) -> None:
    """Its name, its timeline and its slot are those of before: only its WAL ends before what bronze has."""
    database = database_on(own_server)
    database.execute(*TABLE)
    with houses(spark, database, lake, tmp_path) as make:
        make().run()
        with put_back_afterwards(own_server):
            database.execute("INSERT INTO t SELECT n, repeat('x', 1000) FROM generate_series(11, 2000) AS n")
            make().run()
        database.execute("UPDATE t SET v = 'new' WHERE id = 1")
        for work in (make().run, make().verify):
            with pytest.raises(SourceChangedError, match="set back to an earlier state"):
                work()


@pytest.mark.slow
@pytest.mark.parametrize(
    "spans", [further(False, id="other commits"), pytest.param(True, id="a transaction across its end")]
)
def test_a_server_that_was_put_back_and_has_written_past_what_bronze_has_is_named_by_what_its_slot_sends(
    spark: SparkSession, own_server: EmbeddedServer, lake: LakeLayout, tmp_path: Path, spans: bool
) -> None:
    """Its slot was put back, too, and sends transactions of now where bronze has those of then."""
    database = database_on(own_server)
    database.execute(*TABLE)
    position = "SELECT confirmed_flush_lsn FROM pg_replication_slots"
    with houses(spark, database, lake, tmp_path) as make:
        make().run()
        with put_back_afterwards(own_server):
            database.execute("INSERT INTO t VALUES (11, 'then')")
            make().run()
        rows = "SELECT n, repeat('now', 300) FROM generate_series(11, 999) AS n"
        database.execute(*([] if spans else ["INSERT INTO t VALUES (0, 'now')"]), f"INSERT INTO t {rows}")
        before = make().status().captured_to, database.execute(position)
        for work in (make().run, make().verify):
            with pytest.raises(SourceChangedError, match="went on from there"):
                work()
        assert (make().status().captured_to, database.execute(position)) == before


def copy_as_it_is(folder: Path, to: Path) -> None:
    """With its owner, whom PostgreSQL asks for."""
    shutil.copytree(folder, to)
    owner = folder.stat() if folder.exists() else to.stat()
    for path in (to, *to.rglob("*")):
        shutil.chown(path, owner.st_uid, owner.st_gid)


@pytest.mark.slow
def test_bronze_that_was_restored_and_had_all_tables_read_anew_is_applied_from_there_on(
    spark: SparkSession, database: Database, lake: LakeLayout, make_house: MakeHouse
) -> None:
    """Silver and gold have applied passes that bronze does not have any more: their numbers are not given again."""
    database.execute(*TABLE)
    make_house().run()
    version = current_version(spark, lake, lake.bronze)
    for number in range(3):
        database.execute(f"UPDATE t SET v = 'lost {number}' WHERE id = 1")
        make_house().run()
    spark.sql(f"RESTORE TABLE {lake.bronze} TO VERSION AS OF {version}")
    database.execute("UPDATE t SET v = 'new' WHERE id = 2", "DELETE FROM t WHERE id = 3")
    with pytest.raises(SlotGapError):
        make_house().run()
    make_house(snapshot_mode="when_needed").capture(start_new_generation=True)
    database.execute("UPDATE t SET v = 'then' WHERE id = 4")
    house = make_house()
    house.run()
    assert [proof.equal for proof in house.verify()] == [True]
    assert gold_rows(spark, lake, T) == source_rows(database, T)
    changed = spark.table(str(lake.silver(T))).where("op = 'u'").selectExpr("after.v")
    assert {row["v"] for row in changed.collect()} == {"lost 0", "lost 1", "lost 2", "then"}


@pytest.mark.slow
def test_a_lake_whose_bronze_was_removed_is_not_begun_again_under_the_layers_that_were_made_of_it(
    spark: SparkSession, database: Database, lake: LakeLayout, make_house: MakeHouse
) -> None:
    database.execute(*TABLE)
    make_house().run()
    spark.sql(f"DROP TABLE {lake.bronze}")
    shutil.rmtree(str(lake.location(lake.bronze)))
    database.execute("UPDATE t SET v = 'new' WHERE id = 2", "DELETE FROM t WHERE id = 3")
    with pytest.raises(LakeError, match="it was removed"):
        make_house().run()
