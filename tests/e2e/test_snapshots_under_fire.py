"""Incremental snapshots while writers do everything to the tables, and while the process is killed."""

from __future__ import annotations

import os
import random
import re
import time
from contextlib import ExitStack
from itertools import count
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import Window
from pyspark.sql import functions as F

from tests.e2e.hammer import SCHEMA, Hammer
from tests.e2e.test_killed import more_commits, more_rows_of_bronze, run_until, some_time_after
from tests.e2e.witness import gold_rows, source_rows
from tests.fixtures_house import write_configuration
from walhouse.bronze.requests.notifications import Event, notifications_of
from walhouse.names import TableName

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.fixtures_house import MakeHouse
    from tests.fixtures_server import Database, Server
    from walhouse.lakehouse.layout import LakeLayout

pytestmark = [pytest.mark.server, pytest.mark.spark]

DOCS, FULL, SMALL = (TableName("public", name) for name in ("docs", "full_key", "small"))
TABLES = (DOCS, FULL, SMALL)
ROUNDS = 10
PROVEN_EVERY = 5
"""Rounds: one table into bronze alone between, so that layers get commits of several snapshots at once, too."""

SOAK_SECONDS = 60 * float(os.environ.get("WALHOUSE_SOAK_MINUTES", "0"))
"""`make soak MINUTES=…`: go on for so long."""


@pytest.mark.slow
@pytest.mark.timeout(1200 + SOAK_SECONDS)  # for what hangs: ten rounds take three minutes on a slow machine alone
def test_gold_is_the_source_after_every_snapshot_that_was_taken_while_writers_kept_writing(
    spark: SparkSession, database: Database, lake: LakeLayout, make_house: MakeHouse, tmp_path: Path
) -> None:
    database.execute(*SCHEMA)
    with Hammer(database, 1, 150) as writer:
        writer.join()
    settings = {
        "table_include_list": ",".join(map(str, TABLES)),
        "snapshot_mode": "no_data",
        "incremental_snapshot_chunk_size": 5,
        "lake_snapshot_pass_rows": 100,
    }
    house = make_house(**settings)
    house.run()
    chance = random.Random(7)
    began = time.monotonic()
    for number in count(1):
        with ExitStack() as writers:
            for seed in (1, 2, 3):
                writers.enter_context(Hammer(database, 10 * number + seed, 10_000, pause=0.01))
            tables = TABLES if number % PROVEN_EVERY == 0 else (TABLES[number % len(TABLES)],)
            kind = "blocking" if number % 4 == 0 else "incremental"
            data = {"data-collections": [re.escape(str(table)) for table in tables], "type": kind}
            request = house.signal("execute-snapshot", data)
            if number % PROVEN_EVERY == 0:
                house.close()
                conf = write_configuration(tmp_path, database, lake, **settings)
                # without an end: a blocking snapshot may be in bronze, and the run done, before it is killed
                begun = more_commits(lake, lake.bronze_schema, 1)
                run_until(conf, some_time_after(begun, chance.uniform(0, 10)), "--continuous")
                house = make_house(**settings)
                house.run()
                assert all(proof.equal for proof in house.verify())
            else:
                house.capture()
            assert notifications_of(spark, lake, request)[-1].type is Event.COMPLETED
        if number >= ROUNDS and time.monotonic() - began >= SOAK_SECONDS:
            break
    house.run()
    for table in TABLES:
        assert gold_rows(spark, lake, table) == source_rows(database, table)
    read = spark.table(str(lake.silver(DOCS))).where("op = 'r'")
    assert {row[0] for row in read.select("source.snapshot").distinct().collect()} >= {"incremental"}
    assert rows_read_that_differ_from_what_came_before(spark, lake) == 0


def size_of_log(server: Server) -> int:
    return 0 if server.embedded is None else server.embedded.log.stat().st_size


def chunks_asked_for(server: Server, since: int) -> set[str]:
    """The statements by which parts of the table ``t`` were read, as the server has logged them from there on."""
    if server.embedded is None:
        return set()
    log = server.embedded.log.read_bytes()[since:].decode()
    return set(re.findall(r'COPY \(SELECT .* FROM ONLY "public"\."t" WHERE .*\) TO STDOUT', log))


def rows_read_that_differ_from_what_came_before(spark: SparkSession, lake: LakeLayout) -> int:
    """A row that was read stands after all commits that it has seen: it must look as the last of them left it."""
    before = Window.partitionBy("key.id").orderBy("commit_lsn", "seq")
    shown = F.struct("after.title", "after.score", "after.at")
    events = spark.table(str(lake.silver(DOCS))).select(
        "op", F.lag("op").over(before).alias("op_before"), shown.alias("now"), F.lag(shown).over(before).alias("then")
    )
    read = events.where("op = 'r' AND op_before IS NOT NULL")
    return read.where((F.col("op_before") == "d") | (F.col("now") != F.col("then"))).count()


@pytest.mark.slow
def test_a_chunk_that_is_in_bronze_is_never_read_again_whenever_the_process_is_killed(
    spark: SparkSession,
    database: Database,
    lake: LakeLayout,
    make_house: MakeHouse,
    tmp_path: Path,
    server: Server,
) -> None:
    database.execute(
        f"ALTER DATABASE {database.name} SET log_statement = 'all'",
        "CREATE TABLE t (id int, part text, v text, PRIMARY KEY (part, id))",
        "INSERT INTO t SELECT n, chr(97 + n % 7), 'row ' || n FROM generate_series(1, 2000) AS n",
    )
    settings = {
        "snapshot_mode": "no_data",
        "incremental_snapshot_chunk_size": 50,
        "lake_snapshot_pass_rows": 200,
    }
    house = make_house(**settings)
    house.run()
    house.snapshot([TableName("public", "t")])
    conf = write_configuration(tmp_path, database, lake, **settings)
    asked: list[set[str]] = []  # by each run, of the server
    durable: list[int] = []
    at = size_of_log(server)
    for more in (300, 300, None):  # who goes on after a kill first writes passes that have no rows of the table
        if more is None:
            make_house(**settings).run()
        else:
            run_until(conf, more_rows_of_bronze(lake, more))
        asked.append(chunks_asked_for(server, at))
        at = size_of_log(server)
        durable.append(
            spark.table(str(lake.bronze)).where("kind = 'snapshot'").select("snapshot.chunk").distinct().count()
        )
    assert 0 < durable[0] < durable[1] < durable[2] == 40
    if server.embedded is not None:
        first, second, third = asked
        assert len(first | second | third) == 40
        assert len(first - second - third) == durable[0], "what was durable after the first run was not asked for again"
        assert len((first | second) - third) == durable[1]
    read = spark.table(str(lake.bronze)).where("kind = 'snapshot'")
    assert read.count() == read.select("after").distinct().count() == 2000
    chunks = read.groupBy("snapshot.chunk").agg(F.countDistinct("pass").alias("passes"), F.count("*").alias("rows"))
    assert chunks.where("passes = 1 AND rows = 50").count() == chunks.count() == 40
    table = TableName("public", "t")
    assert gold_rows(spark, lake, table) == source_rows(database, table)
