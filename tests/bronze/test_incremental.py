"""Incremental snapshots on a real server: each chunk in a snapshot of its own, while the stream goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from walhouse.names import TableName

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.fixtures_house import MakeHouse
    from tests.fixtures_server import Database
    from walhouse.api import Walhouse
    from walhouse.lakehouse.layout import LakeLayout

pytestmark = [pytest.mark.server, pytest.mark.spark]

T = TableName("public", "t")


@pytest.fixture
def house(table: Database, make_house: MakeHouse) -> Walhouse:
    """Captures a table of 500 rows from now on, without an initial snapshot, in chunks of 100 rows."""
    table.execute("INSERT INTO t SELECT n, 'row ' || n FROM generate_series(1, 500) AS n")
    house = make_house(snapshot_mode="no_data", incremental_snapshot_chunk_size=100, lake_snapshot_pass_rows=200)
    house.run()
    return house


def notes(spark: SparkSession, lake: LakeLayout) -> list[tuple[str, ...]]:
    rows = spark.table(str(lake.ops("notifications"))).orderBy("timestamp").collect()
    return [(row["id"], row["type"], row["additional_data"].get("status", "")) for row in rows]


def test_a_table_is_read_by_chunks_and_gold_is_the_source(
    spark: SparkSession, table: Database, lake: LakeLayout, house: Walhouse
) -> None:
    table.execute("UPDATE t SET v = 'new' WHERE id = 7")
    house.snapshot([T], signal_id="mine")
    house.run()
    (proof,) = house.verify()
    assert (proof.equal, proof.source_rows) == (True, 500)
    read = spark.table(str(lake.bronze)).where("kind = 'snapshot'")
    assert read.select("snapshot.chunk").distinct().count() == 5
    assert read.select("pass").distinct().count() == 3
    events = spark.table(str(lake.silver(T))).where("op = 'r'")
    assert events.count() == 500
    assert [
        tuple(row) for row in events.select("source.snapshot", "source.lsn", "source.txId").distinct().collect()
    ] == [("incremental", None, None)]
    assert notes(spark, lake) == [
        ("mine", "STARTED", ""),
        *[("mine", "IN_PROGRESS", "")] * 3,
        ("mine", "TABLE_SCAN_COMPLETED", "SUCCEEDED"),
        ("mine", "COMPLETED", ""),
    ]
