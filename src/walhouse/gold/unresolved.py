"""Rows of gold that lack a value which nobody sent: which rows of the source would have to be read again.

Invariant: a key is told in PostgreSQL's own texts, as the change that left the row incomplete had it in bronze.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql import functions as F

from walhouse.changes.columns import key_text
from walhouse.changes.resolve import resolve
from walhouse.gold.columns import COMMIT_LSN, SEQ, UNAVAILABLE
from walhouse.lakehouse.answers import few_rows
from walhouse.lakehouse.tables import table_exists

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from walhouse.changes.facts import Place
    from walhouse.lakehouse.layout import LakeLayout
    from walhouse.pgoutput.relation import RelationDescription


AT_ONCE: Final = 1000
"""How many incomplete rows are read again at once."""


class Unresolved(NamedTuple):
    """Keys of incomplete rows; ``upto``: the place of the last, by which those after it are asked for."""

    keys: list[tuple[str, ...]]
    upto: Place | None


def unresolved_keys(
    spark: SparkSession,
    layout: LakeLayout,
    relations: Sequence[RelationDescription],
    after: Place | None = None,
) -> Unresolved:
    """The keys of at most ``AT_ONCE`` incomplete rows, by the places (commit LSN, seq) of what left them so, in order.

    ``relations``: all versions of the table, the current one last. ``after``: rows up to this place are not looked at.
    """
    current = relations[-1]
    target = layout.gold(current.name)
    if not current.row_key or not table_exists(spark, layout, target):
        return Unresolved([], None)
    places = spark.table(str(target)).where(F.col(UNAVAILABLE).isNotNull())
    places = places.select(F.col(COMMIT_LSN).alias("commit_lsn"), F.col(SEQ).alias("seq"))
    if after is not None:
        lsn, seq = (F.lit(number).cast("long") for number in after)
        places = places.where((F.col("commit_lsn") > lsn) | ((F.col("commit_lsn") == lsn) & (F.col("seq") > seq)))
    places = places.orderBy("commit_lsn", "seq").limit(AT_ONCE).localCheckpoint()
    span = places.agg(F.min("commit_lsn"), F.max(F.struct("commit_lsn", "seq"))).head(1)[0]
    if span[0] is None:
        return Unresolved([], None)
    upto = (int(span[1][0]), int(span[1][1]))
    bronze = spark.table(str(layout.bronze)).where(F.col("commit_lsn").between(span[0], upto[0]))
    changes = resolve(bronze, current.name)
    key = F.array(*(key_text("after", column, relations) for column in current.row_key))
    rows = changes.join(F.broadcast(places), ["commit_lsn", "seq"], "left_semi").select(key.alias("key")).distinct()
    return Unresolved([tuple(row["key"]) for row in few_rows(rows)], upto)
