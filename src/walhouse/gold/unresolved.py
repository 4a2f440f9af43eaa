"""Rows of gold that lack a value which nobody sent: which rows of the source would have to be read again.

Invariant: a key is told in PostgreSQL's own texts, as the change that left the row incomplete had it in bronze.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812  (the name everybody knows it by)

from walhouse.changes.columns import key_text
from walhouse.changes.resolve import resolve
from walhouse.gold.columns import COMMIT_LSN, SEQ, UNAVAILABLE
from walhouse.lakehouse.answers import few_rows
from walhouse.lakehouse.tables import table_exists

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from walhouse.lakehouse.layout import LakeLayout
    from walhouse.pgoutput.relation import RelationDescription


def unresolved_keys(
    spark: SparkSession, layout: LakeLayout, relations: Sequence[RelationDescription], limit: int
) -> list[tuple[str, ...]]:
    """The keys of at most so many incomplete rows. ``relations``: all versions of the table, the current one last."""
    current = relations[-1]
    target = layout.gold(current.name)
    if not current.row_key or not table_exists(spark, target):
        return []
    places = spark.table(str(target)).where(F.col(UNAVAILABLE).isNotNull())
    places = places.select(F.col(COMMIT_LSN).alias("commit_lsn"), F.col(SEQ).alias("seq")).limit(limit)
    places = places.localCheckpoint()  # a limit may give other rows the next time
    span = places.agg(F.min("commit_lsn"), F.max("commit_lsn")).head(1)[0]
    if span[0] is None:
        return []
    bronze = spark.table(str(layout.bronze)).where(F.col("commit_lsn").between(*span))
    changes = resolve(bronze, current.name)
    key = F.array(*(key_text("after", column, relations) for column in current.row_key))
    rows = changes.join(F.broadcast(places), ["commit_lsn", "seq"], "left_semi").select(key.alias("key")).distinct()
    return [tuple(row["key"]) for row in few_rows(rows)]
