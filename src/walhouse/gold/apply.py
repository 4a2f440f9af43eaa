"""Applying one epoch to one gold table.

Invariant: applying an epoch again, whatever was done of it before, changes nothing: values that the changes do not
carry are read from the table as it was before the epoch, and only what is newer than a row changes it.
"""

from __future__ import annotations

from dataclasses import replace
from operator import or_
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from walhouse.changes.columns import key_text
from walhouse.changes.epoch import AppliedTable
from walhouse.errors import GoldKeyError
from walhouse.gold import bag
from walhouse.gold.events import after_truncate
from walhouse.gold.fold import fold
from walhouse.gold.key import lacking_key, require_one_key
from walhouse.gold.merge import insert_rows, merge_rows
from walhouse.gold.native import from_base, with_native_key, with_native_values
from walhouse.gold.survey import survey
from walhouse.gold.table import ensure_gold_table
from walhouse.lakehouse.answers import few_rows
from walhouse.lakehouse.expressions import joined
from walhouse.lakehouse.tables import at_version, current_version
from walhouse.pgoutput.row import Op

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from walhouse.changes.epoch import TableEpoch
    from walhouse.gold.columns import GoldColumn
    from walhouse.gold.key import GoldKey
    from walhouse.gold.survey import Survey
    from walhouse.lakehouse.layout import LakeLayout
    from walhouse.names import LakeTable


def apply_gold(spark: SparkSession, layout: LakeLayout, epoch: TableEpoch) -> AppliedTable:
    """Bring one table's part of an epoch into gold; the table is made if it is missing.

    Counts: ``upserted``, ``deleted`` (rows). What could not be converted or is not available is counted where it
    stands, see ``walhouse.gold.imperfect``.

    Raises TypeConflictError, GoldKeyError, BagMismatchError; in each case the table's rows were not changed.
    """
    epoch = _since_the_key_came(epoch) if epoch.anew else epoch
    key = require_one_key(epoch.relations)
    target = layout.gold(epoch.table)
    found = survey(epoch.changes, epoch.relations, key, epoch.facts)
    columns = ensure_gold_table(spark, layout, epoch.relations, key, anew=epoch.anew, ready=epoch.ready)
    counts = {"upserted": 0, "deleted": 0}
    if found.rows:
        counts = (
            _apply_keyed(spark, target, epoch, columns, key=key, found=found)
            if key
            else _apply_bag(spark, target, epoch, columns, found)
        )
    return AppliedTable(current_version(spark, layout, target), counts)


def _since_the_key_came(epoch: TableEpoch) -> TableEpoch:
    """Without what cannot be folded by today's key. Rows from before have to be read from the source again."""
    lacking = lacking_key(epoch.relations)
    place = F.struct("commit_lsn", "seq")
    theirs = F.col("relation_version").isin([relation.version for relation in lacking])
    [last] = few_rows(epoch.changes.where(theirs).agg(F.max(place).alias("place"))) if lacking else [{"place": None}]
    changes = epoch.changes
    if last["place"] is not None:
        changes = changes.where(place > F.struct(*(F.lit(value).alias(name) for name, value in last["place"].items())))
    return replace(epoch, relations=epoch.relations[len(lacking) :], changes=changes, known_facts=None)


def _apply_keyed(
    spark: SparkSession,
    target: LakeTable,
    epoch: TableEpoch,
    columns: tuple[GoldColumn, ...],
    *,
    key: GoldKey,
    found: Survey,
) -> dict[str, int]:
    _require_told_keys(epoch, key, found)
    folded = _with_gold_names(fold(epoch.changes, epoch.relations, key, found), columns)
    rows = with_native_values(with_native_key(folded, columns, key, "key", "k"), columns)
    base = _base(spark, target, epoch, found)
    if found.moves and found.toasted and base is not None:
        rows = from_base(rows, base, columns, key, found.toasted)
    if epoch.fresh and epoch.base_version is None:
        return insert_rows(spark, target, rows, columns, found=found)
    return merge_rows(spark, target, rows, columns, key=key, found=found)


def _require_told_keys(epoch: TableEpoch, key: GoldKey, found: Survey) -> None:
    """Raises GoldKeyError if a partition's own replica identity has left a deleted row's key out."""
    is_partitioned = any(relation.partitioned for relation in epoch.relations)
    if epoch.is_replaced or not (found.removals and is_partitioned):
        return
    lacking = joined(or_, [key_text("before", column, epoch.relations).isNull() for column in key])
    untold = after_truncate(epoch.changes, found).where((F.col("op") == Op.DELETE.value) & lacking)
    if (count := untold.count()) > 0:
        raise GoldKeyError(
            f"{count} deletes in {epoch.table} do not tell the key of what they took away:"
            " a partition's replica identity is another one than its table's.",
            todo="Give its partitions the replica identity that `walhouse check` asks for. Then have it read whole: the"
            " signal execute-snapshot of type blocking, walhouse capture, walhouse rebuild gold TABLE, walhouse run.",
            table=str(epoch.table),
            expected=list(key),
        )


def _apply_bag(
    spark: SparkSession, target: LakeTable, epoch: TableEpoch, columns: tuple[GoldColumn, ...], found: Survey
) -> dict[str, int]:
    net = _with_gold_names(bag.fold_bag(epoch.changes, epoch.relations, found, anew=epoch.anew), columns)
    base = _base(spark, target, epoch, found)
    if not epoch.is_replaced:
        bag.require_matches(epoch.table, net, base, found)
    false, true = F.lit(False), F.lit(True)
    rows = with_native_values(bag.rows_to_insert(net), columns).withColumn("deleted", false)
    if found.removals and base is not None:
        gone = bag.rows_to_delete(net, base).withColumn("deleted", true)
        rows = rows.unionByName(gone, allowMissingColumns=True)
    return bag.merge_bag(spark, target, rows, columns, found)


def _base(spark: SparkSession, target: LakeTable, epoch: TableEpoch, found: Survey) -> DataFrame | None:
    """The target before the epoch; None if it did not exist or a truncate emptied it."""
    if epoch.base_version is None or found.truncated_at is not None:
        return None
    return at_version(spark, target, epoch.base_version)


def _with_gold_names(folded: DataFrame, columns: tuple[GoldColumn, ...]) -> DataFrame:
    """The fold speaks of source columns, the table of its own: only names that had to be changed differ."""
    renamed = {column.source.name: column.name for column in columns if column.source.name != column.name}
    if not renamed:
        return folded
    pairs = F.create_map(*(F.lit(name) for pair in renamed.items() for name in pair))
    lists = [name for name in ("missing", "unavailable") if name in folded.columns]
    return folded.withColumns(
        {name: F.transform(F.col(name), lambda column: F.coalesce(pairs[column], column)) for name in lists}
    )
