"""Gold's tables at one position, for queries over several of them.

A run merges the tables of an epoch one after another, so who joins two of them meanwhile may see one before and one
after the same transaction. Delta keeps their earlier versions, and the ledger knows which belong together.

Invariant: a table is read at the version that the cut names, whatever is merged meanwhile.
"""

from __future__ import annotations

from string import Formatter
from typing import TYPE_CHECKING, Any

from walhouse.changes.epochs import Cut, EpochLedger, Layer
from walhouse.errors import NothingAppliedError, QueryError
from walhouse.lakehouse.tables import table_exists

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from walhouse.lakehouse.layout import LakeLayout
    from walhouse.lsn import Lsn


def gold_cut(spark: SparkSession, layout: LakeLayout, at: Lsn | None = None) -> Cut:
    """The last position that all of gold is at, or the last one up to ``at``. Raises NothingAppliedError."""
    written = table_exists(spark, layout.ops("epochs"))
    cut = EpochLedger(spark, layout).cut(Layer.GOLD, at) if written else None
    if cut is None:
        raise NothingAppliedError(f"Gold was at no position yet{'' if at is None else f' up to {at}'}.", lsn=at)
    return cut


def sql_at(spark: SparkSession, layout: LakeLayout, query: str, cut: Cut) -> DataFrame:
    """Ask gold as of a cut; its tables stand in braces in the query, as ``{shop_orders}``.

    Raises NothingAppliedError if one of them was not there, QueryError if a brace has no other.
    """
    versions = {layout.gold(table).table: (layout.gold(table), version) for table, version in cut.versions.items()}
    frames: dict[str, Any] = {}
    for name in _names(query):
        if name not in versions:
            raise NothingAppliedError(f"Gold had no table {name} at {cut.lsn}.", lsn=cut.lsn, table=name)
        table, version = versions[name]
        frames[name] = spark.read.option("versionAsOf", version).table(str(table))
    return spark.sql(query, **frames)


def _names(query: str) -> set[str]:
    try:
        return {field for _, field, _, _ in Formatter().parse(query) if field is not None}
    except ValueError as error:
        raise QueryError(
            f"Braces hold gold's tables in a query at a position; these do not fit together: {error}.",
            todo="Write braces that are meant as such twice: {{ and }}.",
        ) from error
