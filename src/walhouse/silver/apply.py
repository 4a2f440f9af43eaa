"""Applying an epoch to silver.

Invariant: events are only inserted, and only those whose (commit_lsn, seq, op) is not there: applying an epoch again,
whole or in part, changes nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

from pyspark.sql import Observation
from pyspark.sql import functions as F

from walhouse.changes.epoch import AppliedTable
from walhouse.lakehouse.tables import current_version
from walhouse.silver.envelope import changes_of_events, envelope
from walhouse.silver.keys import with_chosen_keys
from walhouse.silver.messages import ensure_messages, message_events
from walhouse.silver.settings import ConversionFailures
from walhouse.silver.table import ensure_table
from walhouse.silver.transactions import ensure_transactions, transactions
from walhouse.silver.unconverted import require_converted, warn_of_unconverted
from walhouse.silver.without_field import count_without_field

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row, SparkSession

    from walhouse.changes.epoch import TableEpoch
    from walhouse.lakehouse.layout import LakeLayout
    from walhouse.names import LakeTable
    from walhouse.silver.settings import SilverSettings


def apply_silver(spark: SparkSession, layout: LakeLayout, epoch: TableEpoch, settings: SilverSettings) -> AppliedTable:
    """Write the events of one table's epoch.

    Counts: ``events`` written now (0 if the epoch was applied before); of all events in the epoch's range of commits,
    ``unavailable``: values that were not sent and stand as a placeholder or NULL, ``unconverted``: values kept as text
    because their type cannot hold them, or not all elements of them, and, if there are columns of types that Debezium
    does not know, ``without_field``: their values. Raises TypeConflictError, ConversionError.
    """
    epoch = replace(epoch, relations=with_chosen_keys(epoch.relations, settings.columns))
    schema = ensure_table(spark, layout, epoch.table, epoch.relations, settings.types, anew=epoch.anew)
    target = layout.silver(epoch.table)
    facts = epoch.facts
    if facts.span is None:
        return AppliedTable(current_version(spark, layout, target), {"events": 0, "unavailable": 0, "unconverted": 0})
    rows = envelope(epoch, schema, settings)
    if settings.conversion_failures is ConversionFailures.FAIL:
        require_converted(rows, epoch.table, schema)
    if epoch.fresh:
        counts = _append(target, rows, *_imperfect())
    else:
        counts = {"events": _insert_missing(spark, target, rows, facts.span), **_count(spark, target, facts.span)}
    counts |= count_without_field(changes_of_events(epoch), epoch.relations, settings.types)
    if settings.conversion_failures is ConversionFailures.WARN:
        written = spark.table(str(target)).where(F.col("commit_lsn").between(*facts.span))
        warn_of_unconverted(written, epoch.table, counts["unconverted"])
    return AppliedTable(current_version(spark, layout, target), counts)


def apply_messages(
    spark: SparkSession, layout: LakeLayout, epoch: TableEpoch, settings: SilverSettings
) -> AppliedTable:
    """Write the logical messages of an epoch; ``epoch.changes`` are bronze's rows of kind message."""
    ensure_messages(spark, layout, settings.types.binary)
    return _apply_apart(spark, layout, layout.silver_messages, epoch, message_events(epoch.changes, settings))


def apply_transactions(spark: SparkSession, layout: LakeLayout, epoch: TableEpoch) -> AppliedTable:
    """Write the transactions of an epoch; ``epoch.changes`` are bronze's rows of kind transaction."""
    ensure_transactions(spark, layout)
    return _apply_apart(spark, layout, layout.silver_transactions, epoch, transactions(epoch.changes))


def _apply_apart(
    spark: SparkSession, layout: LakeLayout, target: LakeTable, epoch: TableEpoch, rows: DataFrame
) -> AppliedTable:
    """Write what belongs to no table."""
    if epoch.facts.span is None:
        counts = {"events": 0}
    elif epoch.fresh:
        counts = _append(target, rows)
    else:
        counts = {"events": _insert_missing(spark, target, rows, epoch.facts.span)}
    return AppliedTable(current_version(spark, layout, target), counts)


def _append(target: LakeTable, rows: DataFrame, *counts: Column) -> dict[str, int]:
    """Write the events of an epoch of which nothing can be there yet: no need to look for them. Counted on the way."""
    seen = Observation()
    observed = rows.observe(seen, F.count(F.lit(1)).alias("events"), *counts)
    # the files are as large as bronze's: no need to shuffle every event once more to make them so
    observed.write.format("delta").mode("append").option("optimizeWrite", "false").saveAsTable(str(target))
    return {name: int(value or 0) for name, value in seen.get.items()}


def _imperfect() -> tuple[Column, Column]:
    """How many values are not what the source has."""
    return (
        F.sum(F.array_size("unavailable")).alias("unavailable"),
        F.sum(F.array_size(F.map_keys("unconverted"))).alias("unconverted"),
    )


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


def _count(spark: SparkSession, target: LakeTable, span: tuple[int, int]) -> dict[str, int]:
    row = spark.table(str(target)).where(F.col("commit_lsn").between(*span)).agg(*_imperfect()).first()
    return {name: int(cast("Row", row)[name] or 0) for name in ("unavailable", "unconverted")}
