"""What is told of requests: once, whenever the process is killed; and windows for those who look for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.fixtures_house import logged_in_as
from tests.variants import further
from walhouse.bronze.requests.notifications import notifications_of
from walhouse.bronze.requests.teller import Teller
from walhouse.names import TableName

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from tests.fixtures_house import MakeHouse
    from tests.fixtures_server import Database
    from walhouse.config.connection import ConnectionSettings
    from walhouse.lakehouse.layout import LakeLayout

pytestmark = [pytest.mark.server, pytest.mark.spark]

T = TableName("public", "t")


class KilledError(Exception):
    """Stands for a process that ends at once."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("moment", "told"),
    [
        pytest.param("COMPLETED", False, id="before it is told"),
        pytest.param("COMPLETED", True, id="after it was told"),
        pytest.param("REFUSED", False, id="before it is refused"),
        further("REFUSED", True, id="after it was refused"),
        further("STARTED", False, id="before its beginning is told"),
        further("STARTED", True, id="after its beginning was told"),
    ],
)
def test_a_notification_is_told_once_by_a_process_that_is_killed_around_it(
    spark: SparkSession,
    table: Database,
    lake: LakeLayout,
    make_house: MakeHouse,
    monkeypatch: pytest.MonkeyPatch,
    *,
    moment: str,
    told: bool,
) -> None:
    table.execute("INSERT INTO t SELECT n, 'x' FROM generate_series(1, 10) AS n")
    house = make_house(snapshot_mode="no_data")
    house.run()
    request = house.signal("dance", {}) if moment == "REFUSED" else house.snapshot([T])
    tell = Teller.tell

    def killed(teller: Teller, progress: Any, **options: bool) -> bool:
        if moment not in {note.type for note in progress.untold}:
            return tell(teller, progress, **options)
        if told:
            tell(teller, progress, **options)
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(Teller, "tell", killed)
        with pytest.raises(KilledError):
            house.run()
    make_house(snapshot_mode="no_data").run()
    types = [str(note.type) for note in notifications_of(spark, lake, request) if note.type != "IN_PROGRESS"]
    assert types == (["REFUSED"] if moment == "REFUSED" else ["STARTED", "TABLE_SCAN_COMPLETED", "COMPLETED"])


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["insert_insert", "INSERT_DELETE"])
def test_windows_are_written_where_they_are_asked_for_and_are_changes_like_any_other(
    spark: SparkSession, table: Database, lake: LakeLayout, make_house: MakeHouse, strategy: str
) -> None:
    table.execute("INSERT INTO t SELECT n, 'x' FROM generate_series(1, 10) AS n", "CREATE SCHEMA ops")
    house = make_house(
        snapshot_mode="no_data",
        signal_data_collection="ops.signals",
        incremental_snapshot_watermarking_strategy=strategy,
        incremental_snapshot_chunk_size=5,
        lake_snapshot_pass_rows=5,
    )
    house.init_signals()
    house.snapshot([T])
    house.run()
    house.run()
    opened, closed = "snapshot-window-open", "snapshot-window-close"
    left = table.execute("SELECT type, data::json ->> 'closeWindowTimestamp' IS NULL FROM ops.signals ORDER BY id")
    seen = spark.table(str(lake.silver(TableName("ops", "signals")))).orderBy("commit_lsn", "seq")
    if strategy == "INSERT_DELETE":
        assert (left, [row["op"] for row in seen.collect()]) == ([], ["c", "d"])
    else:
        assert sorted(left) == [(closed, False), (opened, True)]
        assert [row["after"]["type"] for row in seen.collect()] == [opened, closed]
    assert all(proof.equal for proof in house.verify())


@pytest.mark.slow
def test_a_window_that_cannot_be_ended_keeps_no_chunk_from_being_read(
    spark: SparkSession,
    table: Database,
    role: Callable[[str], ConnectionSettings],
    lake: LakeLayout,
    make_house: MakeHouse,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Nothing is decided by windows: one is left without its end, as by a crash."""
    reader = role("REPLICATION")
    table.execute(
        "INSERT INTO t SELECT n, 'x' FROM generate_series(1, 20) AS n",
        "CREATE TABLE signals (id text PRIMARY KEY, type text, data text)",
        "CREATE PUBLICATION walhouse_test FOR TABLE t, signals",
        f"GRANT SELECT ON t, signals TO {reader.user}",
        f"GRANT INSERT ON signals TO {reader.user}",
    )
    house = make_house(
        snapshot_mode="no_data",
        signal_data_collection="public.signals",
        incremental_snapshot_watermarking_strategy="insert_delete",
        incremental_snapshot_chunk_size=5,
        lake_snapshot_pass_rows=10,
        **logged_in_as(reader),
    )
    house.run()
    request = house.snapshot([T])
    house.run()
    told = [note.data for note in notifications_of(spark, lake, request) if "status" in note.data]
    assert [(each["status"], each["total_rows_scanned"]) for each in told] == [("SUCCEEDED", "20")]
    assert "has no end in public.signals. The user lacks a right" in caplog.text
