"""A table that is read by ranges of its key, as it was when its reading was planned.

Invariant: it names the columns and the order of that moment, so that a key of one order is never taken for a place in
another, and rows of other columns are never read by it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from walhouse.names import TableName
    from walhouse.pgoutput.relation import RelationDescription

Key: TypeAlias = tuple[str, ...]
"""A row's key as PostgreSQL's texts, in the order of the key's columns. A value of a row: never in a message or log."""


@dataclass(frozen=True, slots=True)
class KeyedTable:
    """A table that is read by ranges of its key. Can be pickled."""

    relation: RelationDescription
    key: tuple[str, ...]
    """The columns to read by. A chunk ends at a value of theirs, so they should tell nearly all rows apart."""
    columns: str
    """Fingerprint of the table's columns when this was made; another table of its name has another one."""
    order: str
    """What a key is a place in: the table by its OID, and the key's columns with their types and collations. In
    another order the same key has other rows before it."""
    row_filter: str | None = None
    """The publication's WHERE expression, as SQL."""
    condition: str | None = None
    """A WHERE expression, as SQL."""
    by_user: bool = True
    """Whether the condition is a user's: only for these are names found as in a session of theirs."""
    operators: tuple[str, ...] | None = None
    """For each column of the key the schema of the operators that its order is by; None if all are built in."""
    has_rows_without_key: bool = False
    """Whether a column to read by may be NULL: such rows lie in no range, and are a chunk of their own."""

    @property
    def name(self) -> TableName:
        """The table that changes are published under."""
        return self.relation.name

    @property
    def computes(self) -> bool:
        """Whether somebody's expression is computed for its rows."""
        return self.condition is not None or self.row_filter is not None
