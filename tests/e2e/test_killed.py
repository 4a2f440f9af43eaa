"""kill -9, at moments that nobody chose: running again ends up the same."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from tests.e2e.hammer import SCHEMA, Hammer
from tests.e2e.shop import environment
from tests.e2e.test_whole_path import FEW
from tests.e2e.witness import gold_rows, source_rows
from tests.fixtures_house import write_configuration

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.fixtures_house import MakeHouse
    from tests.fixtures_server import Database
    from walhouse.lakehouse.layout import LakeLayout

TABLES = tuple(table for table in FEW if table.table in {"docs", "bag"})
"""A table with a key and one without: all that differs between tables when a run is repeated."""

INCLUDE = ",".join(map(str, TABLES))

pytestmark = [pytest.mark.server, pytest.mark.spark]


def commits(lake: LakeLayout, schema: str) -> list[Path]:
    """The log entries of all tables of a layer."""
    assert lake.path is not None
    return list((lake.path / schema).glob("*/_delta_log/*.json"))


def more_commits(lake: LakeLayout, schema: str, more: int) -> Callable[[], bool]:
    """Whether a layer has so many more commits than now."""
    target = len(commits(lake, schema)) + more
    return lambda: len(commits(lake, schema)) >= target


def rows_of_bronze(lake: LakeLayout) -> int:
    """By bronze's log, so that nobody has to wait for an answer."""
    entries = (json.loads(line) for log in commits(lake, lake.bronze_schema) for line in log.read_text().splitlines())
    return sum(json.loads(entry["add"]["stats"])["numRecords"] for entry in entries if "add" in entry)


def more_rows_of_bronze(lake: LakeLayout, more: int) -> Callable[[], bool]:
    """Whether bronze has so many more rows than now."""
    target = rows_of_bronze(lake) + more
    return lambda: rows_of_bronze(lake) >= target


def some_time_after(enough: Callable[[], bool], seconds: float) -> Callable[[], bool]:
    """Whether something has been so for that long."""
    since: list[float] = []

    def is_long_ago() -> bool:
        if not since and enough():
            since.append(time.monotonic())
        return bool(since) and time.monotonic() - since[0] >= seconds

    return is_long_ago


def run_until(conf: Path, enough: Callable[[], bool], *options: str) -> None:
    """Run the command in a process group of its own; kill all of it at once when it has come so far."""
    command = [sys.executable, "-m", "walhouse.cli", "run", "--conf", str(conf), *options]
    said = conf.with_suffix(".log")
    with said.open("w") as log:
        env = environment(conf.parent)
        process = subprocess.Popen(command, env=env, start_new_session=True, stdout=log, stderr=log)
    deadline = time.monotonic() + 240
    try:
        while not enough():
            assert process.poll() is None, f"the run ended before it was to be killed:\n{said.read_text()}"
            assert time.monotonic() < deadline
            time.sleep(0.01)
    finally:  # a test that fails here leaves nothing that runs to the next one
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_a_run_killed_in_bronze_in_silver_and_in_gold_ends_up_as_if_it_had_not_been(
    spark: SparkSession, database: Database, lake: LakeLayout, make_house: MakeHouse, tmp_path: Path
) -> None:
    database.execute(*SCHEMA)
    with Hammer(database, 21, 60) as writer:
        writer.join()
    # the first kill comes in the middle of the initial snapshot
    settings = {"table_include_list": INCLUDE, "lake_snapshot_chunk_pages": 1, "lake_snapshot_pass_pages": 4}
    conf = write_configuration(tmp_path, database, lake, **settings)
    for seed, (schema, more) in enumerate(((lake.bronze_schema, 2), (lake.silver_schema, 3), (lake.gold_schema, 4))):
        run_until(conf, more_commits(lake, schema, more))
        with Hammer(database, seed, 15) as writer:
            writer.join()
    house = make_house(**settings)
    house.run()
    for table in TABLES:
        assert gold_rows(spark, lake, table) == source_rows(database, table)
        silver = spark.table(str(lake.silver(table)))
        assert silver.count() == silver.select("commit_lsn", "seq", "op").distinct().count()
    assert all(proof.equal for proof in house.verify())
