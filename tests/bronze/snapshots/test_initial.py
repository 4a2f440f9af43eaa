"""The initial snapshot against the real server: what goes wrong in its tasks."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from walhouse.errors import SnapshotLostError
from walhouse.names import TableName
from walhouse.postgres.snapshot import locked_tables

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import SparkSession

    from tests.fixtures_house import MakeHouse
    from tests.fixtures_server import Database
    from walhouse.config.connection import ConnectionSettings
    from walhouse.lakehouse.layout import LakeLayout
    from walhouse.postgres.snapshot import LockHolder

pytestmark = [pytest.mark.server, pytest.mark.spark]

END_LOCK_HOLDER = (
    "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE relation = 't'::regclass AND mode = 'AccessShareLock'"
)


@pytest.mark.slow
def test_locks_lost_before_the_tasks_read_are_named_and_bronze_stays_empty(
    spark: SparkSession,
    table: Database,
    lake: LakeLayout,
    make_house: MakeHouse,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table.execute("INSERT INTO t VALUES (1, 'x')")

    @contextmanager
    def locked_for_a_moment(
        settings: ConnectionSettings, tables: Sequence[TableName], **more: float
    ) -> Iterator[LockHolder]:
        with locked_tables(settings, tables, **more) as holder:
            table.execute(END_LOCK_HOLDER)
            yield holder

    monkeypatch.setattr("walhouse.bronze.snapshots.whole.locked_tables", locked_for_a_moment)
    with pytest.raises(SnapshotLostError):
        make_house().capture()
    assert spark.table(str(lake.bronze)).isEmpty()
    monkeypatch.undo()
    assert make_house().capture().pass_number >= 1
    assert spark.table(str(lake.bronze)).where("kind = 'snapshot'").count() == 1


def test_a_snapshot_has_one_time_and_one_position_and_silver_marks_its_first_and_last_row(
    spark: SparkSession, table: Database, lake: LakeLayout, make_house: MakeHouse
) -> None:
    table.execute("INSERT INTO t SELECT n, 'row' FROM generate_series(1, 500) AS n")
    make_house().run()
    rows = spark.table(str(lake.silver(TableName("public", "t")))).where("op = 'r'")
    assert rows.count() == 500
    assert rows.select("source.ts_us", "source.lsn").distinct().count() == 1
    marked = rows.where("source.snapshot <> 'true'").select("source.snapshot", "key.id").orderBy("id")
    assert [tuple(row) for row in marked.collect()] == [("first", 1), ("last", 500)]
