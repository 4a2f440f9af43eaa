"""From a range of bronze to the changes of one table, ready to be put in order.

Invariant: the order and identity of a change is (commit_lsn, seq); a snapshot row stands at its snapshot's LSN, after
every commit before it and before every commit from there on.

A snapshot that was exported when a slot was created sees exactly the commits that start before the slot's consistent
point, so none of its rows can be older than a change before it: ``superseded`` is false for all of them. For rows that
were read in a snapshot of their chunk's own, ``walhouse.changes.placed`` decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from walhouse.pgoutput.row import Kind

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from walhouse.changes.epoch import EpochRange
    from walhouse.lakehouse.layout import LakeLayout
    from walhouse.names import TableName

RESOLVED = (
    "op",
    "commit_lsn",
    "seq",
    "lsn",
    "xid",
    "commit_ts",
    "previous_end",
    "slot_xmin",
    "captured_at",
    "relation_version",
    "before_kind",
    "before",
    "after",
    "unchanged",
    "origin",
    "snapshot",
)


def bronze_range(spark: SparkSession, layout: LakeLayout, epoch: EpochRange) -> DataFrame:
    """Bronze's rows of the epoch's passes."""
    return spark.table(str(layout.bronze)).where(_is_within(epoch))


_LISTED: Final = 100
_NEVER: Final = range(2**62, 2**62 + 11)
"""Numbers no pass has: of a list of more than ten Spark's generated code has no number in it, but asks a set."""


def _is_within(epoch: EpochRange) -> Column:
    """Few passes are listed: each epoch's code is that of the one before, which Java has compiled and made fast."""
    passes = range(epoch.after_pass + 1, epoch.to_pass + 1)
    if len(passes) > _LISTED:
        return (F.col("pass") > epoch.after_pass) & (F.col("pass") <= epoch.to_pass)
    return F.expr(f"pass IN ({', '.join(f'{number}L' for number in (*passes, *_NEVER))})")


def resolve(bronze: DataFrame, table: TableName) -> DataFrame:
    """The changes and snapshot rows of one table: columns RESOLVED and ``superseded``."""
    return bronze.where(
        (F.col("schema_name") == table.schema)
        & (F.col("table_name") == table.table)
        & F.col("kind").isin(Kind.CHANGE.value, Kind.SNAPSHOT.value, Kind.BASE.value)
    ).select(*RESOLVED, F.lit(False).alias("superseded"))
