"""Heartbeat records: one for each pass of capture, at most one in each interval.

Invariant: a heartbeat stands after every event of the pass that it tells of.
Source: Debezium documentation, PostgreSQL connector, ``heartbeat.interval.ms``. Debezium beats by its own clock while
it runs; here a pass is what moves the slot, whether it found changes or not.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from walhouse.pgoutput.row import Kind
from walhouse.silver.records.connect_schema import heartbeat_key_schema, heartbeat_value_schema
from walhouse.silver.records.lines import AFTER_ALL, line, lines_of_no_table
from walhouse.silver.records.payloads import json_of, with_schema
from walhouse.silver.records.topics import heartbeat_topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from walhouse.silver.settings import EventsSettings


def heartbeat_lines(bronze: DataFrame, settings: EventsSettings) -> DataFrame:
    """The heartbeats in bronze's rows, columns as ``lines.table_lines`` has them."""
    key = F.lit(json.dumps({"serverName": settings.topic_prefix}, separators=(",", ":")))
    value = json_of(F.struct("ts_ms"))
    if settings.schemas:
        key, value = with_schema(key, heartbeat_key_schema()), with_schema(value, heartbeat_value_schema())
    passes = bronze.where(F.col("kind") == Kind.PROGRESS.value).select(
        "captured_to", F.unix_millis("captured_at").alias("ts_ms")
    )
    interval = F.floor(F.col("ts_ms") / settings.heartbeat_ms)
    first = passes.groupBy(interval).agg(F.min(F.struct("captured_to", "ts_ms")).alias("pass")).select("pass.*")
    beats = first.select(
        F.col("captured_to").alias("commit_lsn"),
        F.lit(AFTER_ALL).alias("seq"),
        F.lit(None).cast("bigint").alias("xid"),
        line(heartbeat_topic(settings), key, value, F.lit("{}")).alias("line"),
    )
    return lines_of_no_table(beats, F.col("line"), place=1)
