"""Whether a layer's tables have more than its ledger says: events from after where that ends.

Invariant: a ledger that was set back by itself never has events added a second time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from walhouse.errors import LakeError
from walhouse.lakehouse.answers import few_rows
from walhouse.lakehouse.tables import current_version, table_exists, was_restored
from walhouse.names import LakeTable, TableName

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from walhouse.changes.epochs import Cut, Layer
    from walhouse.lakehouse.layout import LakeLayout
    from walhouse.lsn import Lsn

Names = Mapping[TableName, LakeTable]
"""A layer's tables."""


@dataclass(frozen=True, slots=True)
class LedgerEnd:
    """Where a layer's ledger ends, and which version each table has by it."""

    layer: Layer
    reached: Lsn
    cut: Callable[[], Cut | None]


def has_more(spark: SparkSession, layout: LakeLayout, names: Names, ledger: LedgerEnd) -> bool:
    """Whether what belongs to no table, as messages do, is there from after the ledger's end: that may come again.

    Only tables that are not as the ledger left them are looked into. Raises LakeError if events of a table are there.
    """
    changed = _changed(spark, layout, names, ledger)
    beyond = {row["schema"] for row in few_rows(_beyond(spark, changed, ledger.reached))} if changed else set()
    if beyond - {""}:
        raise LakeError(
            f"{ledger.layer.value} has events from after {ledger.reached}, where ops.epochs ends: that was set back to"
            " an earlier version by itself.",
            safe="Nothing was applied; bronze holds every change.",
            todo="Restore ops.epochs to its newest version. Else: walhouse rebuild all tables of silver and gold.",
        )
    return bool(beyond)


def _changed(spark: SparkSession, layout: LakeLayout, names: Names, ledger: LedgerEnd) -> Names:
    """Those that have another version than the ledger says; in a catalog, where it takes as long to tell that as to
    look, all of them if the ledger was restored at any time."""
    if layout.path is None and not was_restored(spark, layout.ops("epochs")):
        return {}
    there = {table: name for table, name in names.items() if table_exists(spark, layout, name)}
    cut = ledger.cut() if layout.path is not None else None
    if cut is None:
        return there
    return {
        table: name for table, name in there.items() if current_version(spark, layout, name) != cut.versions.get(table)
    }


def _beyond(spark: SparkSession, names: Names, reached: Lsn) -> DataFrame:
    """The schemas of those tables that have events from after an LSN."""
    events = [
        spark.table(str(name)).where(F.col("commit_lsn") > int(reached)).select(F.lit(table.schema).alias("schema"))
        for table, name in names.items()
    ]
    return reduce(DataFrame.unionAll, events).distinct()
