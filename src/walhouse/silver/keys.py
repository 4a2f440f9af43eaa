"""Which columns are an event's key, and whether an update changed it.

Invariant: a key change is only seen where PostgreSQL sent an old tuple. Where that lacks a column of the key, the old
key has there what any row would have that lacks it, as Debezium's has: NULL, or what is made up for a required column.
Source: Debezium documentation, PostgreSQL connector, "Primary key updates" and "Change event keys".
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from walhouse.lakehouse.tables import sql_type
from walhouse.pgoutput.relation import BY_KEY
from walhouse.pgoutput.row import BeforeKind, Op
from walhouse.silver.texts import is_lost, is_unchanged, of_versions
from walhouse.silver.types.silver_type import is_same

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from walhouse.pgoutput.relation import RelationDescription
    from walhouse.silver.columns import SilverColumn
    from walhouse.silver.settings import ColumnChoice

NEW_KEY = "__debezium.newkey"
"""Header of the delete that a key change becomes: the key after it."""

OLD_KEY = "__debezium.oldkey"
"""Header of the create that a key change becomes: the key before it."""


def key_columns(relation: RelationDescription) -> tuple[str, ...]:
    """The primary key in its own order, else the first unique key, else none.

    Where the catalog is unknown (``primary_key`` None) the replica identity stands in: with DEFAULT or an index its
    columns are a key; with FULL or NOTHING none can be told.
    """
    if relation.primary_key is None and relation.replica_identity in BY_KEY:
        return relation.identity_columns
    return relation.own_key


def with_chosen_keys(
    relations: Iterable[RelationDescription], columns: ColumnChoice
) -> tuple[RelationDescription, ...]:
    """The descriptions with the key that ``message.key.columns`` gives their table.

    Of a column that is in no row Debezium knows neither whether it may be NULL nor its default: a key has it so.
    """
    return tuple(_with_chosen_key(relation, columns) for relation in relations)


def _with_chosen_key(relation: RelationDescription, columns: ColumnChoice) -> RelationDescription:
    known = tuple(
        column if columns.shows(relation.name, column.name) else replace(column, nullable=None, default=None)
        for column in relation.columns
    )
    relation = relation if known == relation.columns else replace(relation, columns=known)
    key = relation.event_key(columns.key_of(relation.name, relation.column_names))
    return relation if key == relation.own_key else replace(relation, primary_key=key, unique_keys=())


def key_names(relations: Sequence[RelationDescription]) -> tuple[str, ...]:
    """All columns that are part of the key in one of these versions, the current key first and in its order."""
    return tuple(dict.fromkeys(name for relation in reversed(relations) for name in key_columns(relation)))


def versions_by_key(relations: Sequence[RelationDescription]) -> dict[tuple[str, ...], list[RelationDescription]]:
    """The relation versions that have the same key."""
    groups: dict[tuple[str, ...], list[RelationDescription]] = {}
    for relation in relations:
        groups.setdefault(key_columns(relation), []).append(relation)
    return groups


def key_changed(relations: Sequence[RelationDescription], columns: Sequence[SilverColumn]) -> str:
    """True for an update whose old key, as far as it was sent, differs from the new one. Never NULL."""
    by_name = {column.name: column for column in columns}
    branches = []
    for version in relations:
        key = [by_name[name] for name in key_columns(version) if name in by_name]
        if key:
            differ = " OR ".join(_differs(column, version) for column in key)
            branches.append(f"WHEN {of_versions([version])} THEN {differ}")
    if not branches:
        return "false"
    has_old = f"coalesce(before_kind IN ('{BeforeKind.KEY.value}', '{BeforeKind.FULL.value}'), false)"
    return f"op = '{Op.UPDATE.value}' AND {has_old} AND CASE {' '.join(branches)} ELSE false END"


def may_lack(relation: RelationDescription, column: str) -> bool:
    """Whether a version has the column and its old tuples need not: of a partitioned table they are as the leaf's
    identity has them, and that one is not told."""
    return column in relation.column_names and (bool(relation.partitioned) or column not in relation.identity_columns)


def _differs(column: SilverColumn, version: RelationDescription) -> str:
    """The texts differ, and so do the values: 1.0 and 1.00 are one key."""
    if may_lack(version, column.name):
        lacking = f"CAST(NULL AS {sql_type(column.type.spark)})"
        old = column.type.convert(column.before) if version.partitioned else lacking
        old, new = (
            f"coalesce({value}, {column.made_up})" if column.required else value
            for value in (old, column.type.convert(column.after))
        )
        differs = f"NOT {is_same(column.type.spark, new, old)}"
        # the placeholder is what the new key has then, and no old one
        return f"({is_lost(column)} OR {differs})" if column.is_shown_as_lost else differs
    differs = f"NOT ({column.before} <=> {column.after})"
    if column.left_out:
        differs += f" AND NOT {is_unchanged(column)}"
    if not column.type.total:
        values = (column.type.convert(column.before), column.type.convert(column.after))
        differs += f" AND NOT {is_same(column.type.spark, *values)}"
    return f"({differs})"
