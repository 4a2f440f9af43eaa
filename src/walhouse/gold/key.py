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
    key = current.row_key
    for relation in relations[:-1]:
        by_identity = relation.replica_identity in BY_KEY
        sent = relation.identity_columns if by_identity else relation.column_names
        # a bag needs whole old rows, which an identity of some columns does not send
        if not set(key) <= set(sent) or (not key and by_identity and sent):
            raise GoldKeyError(
                f"The replica identity of {current.name} changed within the changes that are to be applied at once,"
                " and the older ones do not carry the new key.",
                table=str(current.name),
                expected=list(key),
                found=list(sent),
            )
    return key
