"""Who waits for a request is told what it waits for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from walhouse.bronze.requests.following import follow
from walhouse.bronze.requests.notifications import Event
from walhouse.names import TableName

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.fixtures_house import MakeHouse
    from tests.fixtures_server import Database
    from walhouse.lakehouse.layout import LakeLayout

pytestmark = [pytest.mark.server, pytest.mark.spark]


@pytest.mark.slow
def test_who_waits_is_told_once_that_snapshots_are_paused(
    spark: SparkSession, database: Database, lake: LakeLayout, make_house: MakeHouse, caplog: pytest.LogCaptureFixture
) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    house = make_house(snapshot_mode="no_data", signal_poll_interval_ms=1)
    house.capture()
    house.snapshot([TableName("public", "t")], signal_id="earlier")
    house.signal("pause-snapshot", {})
    request = house.snapshot([TableName("public", "t")], "id > 0")
    rounds = 0

    def work() -> None:
        nonlocal rounds
        rounds += 1
        if rounds == 3:
            house.signal("resume-snapshot", {})
        house.capture()

    told = follow(spark, lake, request, work, 0)
    assert told[-1].type is Event.COMPLETED
    said = [record.getMessage() for record in caplog.records if record.name == "walhouse.bronze.requests.following"]
    assert len(said) == 1
    assert "walhouse signal resume-snapshot" in said[0]
