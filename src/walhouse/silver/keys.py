"""Which columns are an event's key, and whether an update changed it.

Invariant: a key change is only seen where PostgreSQL sent the whole old key; anything else stays an update.
Source: Debezium documentation, PostgreSQL connector, "Primary key updates" and "Change event keys".
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from walhouse.pgoutput.relation import BY_KEY
from walhouse.pgoutput.row import BeforeKind, Op
from walhouse.silver.texts import is_unchanged, of_versions

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
    """The descriptions with the key that ``message.key.columns`` gives their table."""
    return tuple(
        relation if (key := columns.key_of(relation.name)) is None else _with_key(relation, key)
        for relation in relations
    )


def _with_key(relation: RelationDescription, key: tuple[str, ...]) -> RelationDescription:
    return replace(relation, primary_key=tuple(name for name in key if name in relation.column_names), unique_keys=())


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
    """True for an update whose old key is known and differs from the new one. Never NULL."""
    by_name = {column.name: column for column in columns}
    branches = [
        f"WHEN {of_versions([version])} AND before_kind IN ({kinds})"
        f" THEN {' OR '.join(_differs(by_name[name]) for name in key_columns(version) if name in by_name) or 'false'}"
        for version in relations
        if (kinds := _old_tuples_with_key(version))
    ]
    return f"op = '{Op.UPDATE.value}' AND CASE {' '.join(branches)} ELSE false END" if branches else "false"


def _old_tuples_with_key(relation: RelationDescription) -> str:
    """The kinds of old tuples that hold the whole key, as SQL's list; empty if there is no key."""
    key = key_columns(relation)
    if not key:
        return ""
    in_identity = set(key) <= set(relation.identity_columns)
    kinds = (BeforeKind.KEY, BeforeKind.FULL) if in_identity else (BeforeKind.FULL,)
    return ", ".join(f"'{kind.value}'" for kind in kinds)


def _differs(column: SilverColumn) -> str:
    """The texts differ, and so do the values: 1.0 and 1.00 are one key."""
    differs = f"NOT ({column.before} <=> {column.after})"
    if column.left_out:
        differs += f" AND NOT {is_unchanged(column)}"
    if not column.type.total:
        convert = column.type.convert
        differs += f" AND NOT coalesce({convert(column.before)} = {convert(column.after)}, false)"
    return f"({differs})"
