"""What identifies a row of a gold table.

Invariant: the key lies within the replica identity, so that every update and delete carries it; a table that has no
such key is a bag, a multiset of whole rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from walhouse.errors import GoldKeyError
from walhouse.pgoutput.relation import BY_KEY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from walhouse.pgoutput.relation import RelationDescription

GoldKey: TypeAlias = tuple[str, ...]
"""Names of the key's columns in the key's order (``RelationDescription.row_key``); empty for a bag."""


def require_one_key(relations: Sequence[RelationDescription]) -> GoldKey:
    """The key of the last version. Raises GoldKeyError if changes of an earlier version may lack its columns."""
    current = relations[-1]
    for relation in relations[:-1]:
        if not _carries(relation, current.row_key):
            raise GoldKeyError(
                f"The replica identity of {current.name} changed within the changes that are to be applied at once,"
                " and the older ones do not carry the new key.",
                table=str(current.name),
                expected=list(current.row_key),
                found=list(_sent(relation)),
            )
    return current.row_key


def lacking_key(relations: Sequence[RelationDescription]) -> tuple[RelationDescription, ...]:
    """The versions up to the last whose changes may lack the key of today: gold cannot be made of them."""
    key = relations[-1].row_key
    last = max((place for place, each in enumerate(relations) if not _carries(each, key)), default=-1)
    return tuple(relations[: last + 1])


def _carries(relation: RelationDescription, key: GoldKey) -> bool:
    sent = _sent(relation)
    # a bag needs whole old rows, which an identity of some columns does not send
    return set(key) <= set(sent) and not (not key and sent and relation.replica_identity in BY_KEY)


def _sent(relation: RelationDescription) -> Sequence[str]:
    """The columns that an old row has for certain; none where no old row comes, since its identity is not sent."""
    if relation.identity_is_whole is False:
        return ()
    return relation.identity_columns if relation.replica_identity in BY_KEY else relation.column_names
