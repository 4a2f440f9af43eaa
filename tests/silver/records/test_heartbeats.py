"""Heartbeats are printed as Debezium's engine 3.6.3 prints them, one for an interval."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

from walhouse.bronze.table import COLUMNS
from walhouse.silver.records.heartbeats import heartbeat_lines
from walhouse.silver.settings import EventsSettings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

SETTINGS = EventsSettings("p", heartbeat_ms=60_000)
MINUTE = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
MILLIS = int(MINUTE.timestamp() * 1000)


def passes(spark: SparkSession, *seconds: int) -> DataFrame:
    empty = dict.fromkeys(COLUMNS.fieldNames())
    rows = [
        {**empty, "kind": "progress", "captured_to": 1000 + second, "captured_at": MINUTE.replace(second=second)}
        for second in seconds
    ]
    return spark.createDataFrame(rows, COLUMNS)


def test_a_heartbeat_names_the_server_and_says_when(spark: SparkSession) -> None:
    (line,) = heartbeat_lines(passes(spark, 0), SETTINGS).select("commit_lsn", "line").collect()
    assert line.commit_lsn == 1000
    assert line.line == (
        '{"destination":"__debezium-heartbeat.p","key":{"serverName":"p"},'
        f'"value":{{"ts_ms":{MILLIS}}},"headers":{{}}}}'
    )


def test_in_one_interval_there_is_one_heartbeat(spark: SparkSession) -> None:
    assert heartbeat_lines(passes(spark, 1, 2, 3, 59), SETTINGS).count() == 1
    assert heartbeat_lines(passes(spark, 1, 2, 3, 59), replace(SETTINGS, heartbeat_ms=1000)).count() == 4


def test_with_schemas_both_have_debeziums_names(spark: SparkSession) -> None:
    settings = replace(SETTINGS, schemas=True, heartbeat_topic_name="beats")
    row = heartbeat_lines(passes(spark, 0), settings).select(F.col("line")).head()
    assert row is not None
    record = json.loads(row[0])
    assert record["destination"] == "beats"
    names = [record[part]["schema"]["name"].rpartition(".")[2] for part in ("key", "value")]
    assert names == ["ServerNameKey", "Heartbeat"]
    assert (record["key"]["payload"], record["value"]["payload"]) == ({"serverName": "p"}, {"ts_ms": MILLIS})
