"""Applying an epoch to silver.

Invariant: events are only inserted, and only those whose (commit_lsn, seq, op) is not there: applying an epoch again,
whole or in part, changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from pyspark.sql import Observation
from pyspark.sql import functions as F  # noqa: N812  (the name everybody knows it by)

from walhouse.changes.epoch import AppliedTable
from walhouse.lakehouse.tables import current_version
from walhouse.silver.envelope import envelope
from walhouse.silver.messages import ensure_messages, message_events
from walhouse.silver.table import ensure_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

    from walhouse.changes.epoch import TableEpoch
    from walhouse.lakehouse.layout import LakeLayout
    from walhouse.names import LakeTable
    from walhouse.silver.settings import SilverSettings


def apply_silver(spark: SparkSession, layout: LakeLayout, epoch: TableEpoch, settings: SilverSettings) -> AppliedTable:
    """Write the events of one table's epoch.

    Counts: ``events`` written now (0 if the epoch was applied before); of all events in the epoch's range of commits,
    ``unavailable``: values that were not sent and stand as a placeholder or NULL, ``unconverted``: values kept as text
    because their type cannot hold them. Raises TypeConflictError.
    """
    schema = ensure_table(spark, layout, epoch.table, epoch.relations)
    target = layout.silver(epoch.table)
    span = epoch.span or _span(epoch.changes)
    if span is None:
        return AppliedTable(current_version(spark, target), {"events": 0, "unavailable": 0, "unconverted": 0})
    rows = envelope(epoch.changes, epoch.table, epoch.relations, schema, settings)
    if epoch.fresh:
        counts = _append(target, rows)
        return AppliedTable(current_version(spark, target), counts)
    events = _insert_missing(spark, target, rows, span)
    counts = _count(spark, target, span)
    return AppliedTable(current_version(spark, target), {"events": events, **counts})


def apply_messages(
    spark: SparkSession, layout: LakeLayout, epoch: TableEpoch, settings: SilverSettings
) -> AppliedTable:
    """Write the logical messages of an epoch; ``epoch.changes`` are bronze's rows of kind message."""
    ensure_messages(spark, layout)
    target = layout.silver_messages
    span = _span(epoch.changes)
    events = 0 if span is None else _insert_missing(spark, target, message_events(epoch.changes, settings), span)
    return AppliedTable(current_version(spark, target), {"events": events})


def _append(target: LakeTable, rows: DataFrame) -> dict[str, int]:
    """Write the events of an epoch of which nothing can be there yet: no need to look for them. Counted on the way."""
    seen = Observation()
    observed = rows.observe(
        seen,
        F.count(F.lit(1)).alias("events"),
        F.sum(F.size("unavailable")).alias("unavailable"),
        F.sum(F.coalesce(F.size(F.map_keys("unconverted")), F.lit(0))).alias("unconverted"),
    )
    observed.write.format("delta").mode("append").saveAsTable(str(target))
    return {name: max(0, int(value or 0)) for name, value in seen.get.items()}


def _span(changes: DataFrame) -> tuple[int, int] | None:
    """First and last commit LSN. Reads that one column; Delta skips files by literals only."""
    row = changes.agg(F.min("commit_lsn"), F.max("commit_lsn")).first()
    return None if row is None or row[0] is None else (int(row[0]), int(row[1]))


def _insert_missing(spark: SparkSession, target: LakeTable, rows: DataFrame, span: tuple[int, int]) -> int:
    first, last = span
    merged = spark.sql(
        f"MERGE INTO {target} t USING {{rows}} s"
        f" ON t.commit_lsn = s.commit_lsn AND t.seq = s.seq AND t.op = s.op"
        f" AND t.commit_lsn BETWEEN {first} AND {last}"
        " WHEN NOT MATCHED THEN INSERT *",
        rows=rows,
    ).first()
    return int(cast("Row", merged)["num_inserted_rows"])


def _count(spark: SparkSession, target: LakeTable, span: tuple[int, int] | None) -> dict[str, int]:
    if span is None:
        return {"unavailable": 0, "unconverted": 0}
    row = (
        spark.table(str(target))
        .where(F.col("commit_lsn").between(*span))
        .agg(
            F.sum(F.size("unavailable")).alias("unavailable"),
            F.sum(F.coalesce(F.size(F.map_keys("unconverted")), F.lit(0))).alias("unconverted"),
        )
        .first()
    )
    return {name: int(cast("Row", row)[name] or 0) for name in ("unavailable", "unconverted")}
