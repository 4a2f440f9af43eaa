"""Which columns are an event's key, and whether an update changed it.

Invariant: a key change is only seen where PostgreSQL sent the whole old key; anything else stays an update.
Source: Debezium documentation, PostgreSQL connector, "Primary key updates" and "Change event keys".
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812  (the name everybody knows it by)

from walhouse.changes.columns import image_text, is_unchanged
from walhouse.pgoutput.row import BeforeKind, Op

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column

    from walhouse.pgoutput.relation import RelationDescription
    from walhouse.silver.columns import SilverColumn

NEW_KEY = "__debezium.newkey"
"""Header of the delete that a key change becomes: the key after it."""

OLD_KEY = "__debezium.oldkey"
"""Header of the create that a key change becomes: the key before it."""


def key_columns(relation: RelationDescription) -> tuple[str, ...]:
    """The primary key in its own order, else the first unique key, else none.

    Where the catalog is unknown (``primary_key`` None) the replica identity stands in: with DEFAULT or an index its
    columns are a key; with FULL or NOTHING none can be told.
    """
    if relation.primary_key:
        return relation.primary_key
    if relation.primary_key is None and relation.replica_identity in {"d", "i"}:
        return relation.identity_columns
    return relation.unique_keys[0] if relation.unique_keys else ()


def versions_by_key(relations: Sequence[RelationDescription]) -> dict[tuple[str, ...], list[RelationDescription]]:
    """The relation versions that have the same key."""
    groups: dict[tuple[str, ...], list[RelationDescription]] = {}
    for relation in relations:
        groups.setdefault(key_columns(relation), []).append(relation)
    return groups


def of_versions(relations: Sequence[RelationDescription]) -> Column:
    """True if the row is of one of these relation versions."""
    return F.col("relation_version").isin([relation.version for relation in relations])


def key_changed(relations: Sequence[RelationDescription], columns: Sequence[SilverColumn]) -> Column:
    """True for an update whose old key is known and differs from the new one. Never NULL."""
    by_name = {column.name: column for column in columns}
    changed = F.lit(False)  # noqa: FBT003  (a literal)
    for key, versions in versions_by_key(relations).items():
        sent = [(version, _old_key_sent(version, key)) for version in versions]
        for kinds in {kinds for _, kinds in sent if kinds}:
            mine = [version for version, theirs in sent if theirs == kinds]
            differs = reduce(lambda a, b: a | b, (_differs(by_name[name], mine) for name in key))
            changed = changed | (of_versions(mine) & F.col("before_kind").isin(list(kinds)) & differs)
    return (F.col("op") == Op.UPDATE.value) & F.coalesce(changed, F.lit(False))  # noqa: FBT003  (a literal)


def _old_key_sent(relation: RelationDescription, key: tuple[str, ...]) -> tuple[str, ...]:
    """The kinds of old tuples that hold the whole key."""
    if not key:
        return ()
    if set(key) <= set(relation.identity_columns):
        return BeforeKind.KEY.value, BeforeKind.FULL.value
    return (BeforeKind.FULL.value,)


def _differs(column: SilverColumn, relations: Sequence[RelationDescription]) -> Column:
    """The texts differ, and so do the values: 1.0 and 1.00 are one key."""
    old, new = (image_text(image, column.name, relations) for image in ("before", "after"))
    differs = ~old.eqNullSafe(new) & ~is_unchanged(column.name)
    if column.type.total:
        return differs
    return differs & ~F.coalesce(column.type.convert(old) == column.type.convert(new), F.lit(False))  # noqa: FBT003
