"""Events out of resolved changes: the rows of a silver table.

Invariant: one row per event, identified by (commit_lsn, seq, op): only a key change gives two events for one change,
and those differ in op.
Source: Debezium documentation, PostgreSQL connector, "Data change events".
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

from walhouse.names import string_literal
from walhouse.pgoutput.row import Op
from walhouse.silver.columns import alike, fields_of, silver_columns
from walhouse.silver.images import NO_NAMES, Images, null
from walhouse.silver.keys import NEW_KEY, OLD_KEY, key_changed
from walhouse.silver.source import CAPTURE_TIMES, source
from walhouse.silver.table import HEADERS, TRANSACTION, struct_of
from walhouse.silver.texts import of_versions, with_texts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from walhouse.changes.epoch import TableEpoch
    from walhouse.pgoutput.relation import RelationDescription
    from walhouse.silver.settings import SilverSettings

_OF_ROWS = f"'{Op.CREATE.value}', '{Op.UPDATE.value}', '{Op.DELETE.value}'"
_IS_DELETE = f"event = '{Op.DELETE.value}'"


def envelope(epoch: TableEpoch, target: StructType, settings: SilverSettings) -> DataFrame:
    """The events of one table, with exactly the columns and fields of ``target``, its silver table's schema.

    A superseded snapshot row gives no event, nor does the mark that a whole table's reading begins, nor what the stream
    sent of a row of a table without columns: Debezium drops empty tuples.
    """
    epoch = replace(epoch, known_facts=epoch.facts)  # of all its changes, not of each part's
    groups = alike(epoch.relations, settings.types)
    if len(groups) == 1:
        return _of_alike(epoch, target, settings)
    parts = [_of_alike(_part(epoch, versions), target, settings) for versions in groups]
    return reduce(lambda one, other: one.unionAll(other), parts)


def changes_of_events(epoch: TableEpoch) -> DataFrame:
    """The changes that become events, as ``envelope`` says."""
    events = epoch.changes.where(f"NOT superseded AND op <> '{Op.BASE.value}'")
    if empty := [relation for relation in epoch.relations if relation.is_without_columns]:
        events = events.where(f"NOT (op IN ({_OF_ROWS}) AND {of_versions(empty)})")
    return events


def _part(epoch: TableEpoch, versions: tuple[RelationDescription, ...]) -> TableEpoch:
    """The epoch's changes of these versions."""
    return replace(epoch, relations=versions, changes=epoch.changes.where(of_versions(versions)))


def _of_alike(epoch: TableEpoch, target: StructType, settings: SilverSettings) -> DataFrame:
    """The events of relation versions within which each column has one form."""
    relations = epoch.relations
    fields = fields_of(struct_of(target, "after"))
    columns = silver_columns(relations, settings.types, fields, settings.masks, epoch.facts)
    images = Images(relations, columns, settings)
    before, after, key = (struct_of(target, name) for name in ("before", "after", "key"))
    texts = with_texts(changes_of_events(epoch), columns, relations, settings.masks)
    # two projections, so that the second looks at the first one's values and does not compute them again
    moved = key_changed(relations, columns) if epoch.facts.updates_with_old else "false"
    built = _events(texts, moved).selectExpr(
        "*",
        f"CASE WHEN {_IS_DELETE} THEN {images.key('before', key)} ELSE {images.key('after', key)} END AS new_key",
        f"CASE WHEN NOT moved OR {_IS_DELETE} THEN {images.before(before)} END AS new_before",
        f"CASE WHEN NOT {_IS_DELETE} THEN {images.after(after)} END AS new_after",
    )
    if settings.skip_unchanged:
        built = built.where(f"NOT ({images.is_unchanged(epoch.table, 'new_before', 'new_after')})")
    new_key_header = f"map({string_literal(NEW_KEY)}, {images.key_json('after')})"
    old_key_header = f"map({string_literal(OLD_KEY)}, {images.key_json('before')})"
    return built.selectExpr(
        "new_key AS key",
        "new_before AS before",
        "new_after AS after",
        f"{source(settings, epoch.table, epoch.facts)} AS source",
        "event AS op",
        *CAPTURE_TIMES,
        f"{null(TRANSACTION)} AS transaction",
        f"CASE WHEN NOT moved THEN {null(HEADERS)}"
        f" WHEN {_IS_DELETE} THEN {new_key_header} ELSE {old_key_header} END AS headers",
        "commit_lsn",
        "seq",
        "xid",
        "relation_version",
        f"CASE WHEN {_IS_DELETE} THEN {NO_NAMES} ELSE {images.unavailable()} END AS unavailable",
        "before_kind",
        f"{images.unconverted('new_before', 'new_after')} AS unconverted",
    )


def _events(texts: DataFrame, moved: str) -> DataFrame:
    """One row per event, with its ``event`` (op) and ``moved``: whether it is half of a key change."""
    if moved == "false":
        return texts.selectExpr("*", "op AS event", "false AS moved")
    halves = f"array('{Op.DELETE.value}', '{Op.CREATE.value}')"
    return texts.selectExpr("*", f"{moved} AS moved").selectExpr(
        "*", f"explode(CASE WHEN moved THEN {halves} ELSE array(op) END) AS event"
    )
