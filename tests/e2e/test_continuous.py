"""``walhouse run --continuous``, from its start to its end."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from tests.e2e.shop import environment
from tests.e2e.test_killed import commits
from tests.e2e.witness import gold_rows, source_rows
from tests.fixtures_house import write_configuration
from walhouse.cli.failure import INTERRUPTED
from walhouse.names import TableName

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.fixtures_house import MakeHouse
    from tests.fixtures_server import Database
    from walhouse.lakehouse.layout import LakeLayout

pytestmark = [pytest.mark.server, pytest.mark.spark]

T = TableName("public", "t")


def wait_for_gold(lake: LakeLayout, count: int, process: subprocess.Popen[str], said: Path) -> None:
    deadline = time.monotonic() + 240
    while len(commits(lake, lake.gold_schema)) < count:
        assert process.poll() is None, f"the run ended by itself:\n{said.read_text()}"
        assert time.monotonic() < deadline, f"gold stands still:\n{said.read_text()}"
        time.sleep(0.1)


@pytest.mark.slow
def test_a_continuous_run_follows_a_source_until_it_is_told_to_end_and_ends_in_peace(
    spark: SparkSession, database: Database, lake: LakeLayout, make_house: MakeHouse, tmp_path: Path
) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, v text)", "INSERT INTO t VALUES (1, 'read')")
    conf = write_configuration(tmp_path, database, lake)
    command = [sys.executable, "-m", "walhouse.cli", "run", "--continuous", "--conf", str(conf)]
    said = tmp_path / "said.log"
    with said.open("w") as log:
        process = subprocess.Popen(command, env=environment(tmp_path), stdout=log, stderr=log, text=True)
    try:
        wait_for_gold(lake, 2, process, said)  # made, and filled, though nobody writes
        database.execute("INSERT INTO t VALUES (2, 'streamed')")
        wait_for_gold(lake, 3, process, said)
        process.send_signal(signal.SIGTERM)  # as a service is; from there on it is what Ctrl-C does
        assert process.wait(60) == INTERRUPTED
    finally:
        process.kill()
        process.wait()
    assert "Traceback" not in said.read_text()
    assert (
        said.read_text()
        .rstrip()
        .endswith("Stopped. What is in the lake is whole; the next command goes on from there.")
    )
    house = make_house()
    house.run()
    assert gold_rows(spark, lake, T) == source_rows(database, T)
