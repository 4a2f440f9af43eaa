"""Tables that are read whole, in one exported snapshot: which they are, and how far the reading is.

Invariant: like the queue of chunks this is part of the progress row that is written with the rows, so a part that is in
bronze is not read again, also if the snapshot died with the process: what is left is read in a new one.

What is left of a table is its pages from a place on, as long as its files are those of before: a row that stayed is on
its page still, and one that moved meanwhile is in the stream. A table without a key is never cut, since nothing would
tell its rows of two snapshots apart; one whose files were rewritten begins again.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any, Self

from walhouse.names import TableName


class WholeKind(StrEnum):
    """Why tables are read whole."""

    INITIAL = "initial"
    """Capture began, or began anew."""
    BLOCKING = "blocking"
    """A signal asked for it."""


@dataclass(frozen=True, slots=True)
class WholeTable:
    """One table and the first page that was not read: ``page`` of its leaf number ``leaf``."""

    table: TableName
    statement: str | None = field(default=None, repr=False)
    """A SELECT in place of all rows; it may name values."""
    replaces: bool = True
    """Whether what is read stands in place of all that was known of the table before."""
    leaf: int = 0
    page: int = 0
    files: str | None = None
    """Fingerprint of the table's files when its reading began; None: not begun."""
    first_chunk: int | None = None
    """Number of its first chunk; None: not begun."""
    pages: int = 0
    """How many pages it had when it was planned, all leaves together, and how many of them are read."""
    pages_read: int = 0
    owed: int | None = None
    """The table's OID, if bronze lacks rows of it until it is read."""

    @property
    def has_begun(self) -> bool:
        """Whether some of it is in bronze."""
        return self.first_chunk is not None

    def anew(self) -> WholeTable:
        """The same, nothing being read."""
        return WholeTable(self.table, self.statement, self.replaces, owed=self.owed)


@dataclass(frozen=True, slots=True)
class WholeReading:
    """What one snapshot is to read, in this order; tables that are done are gone from it."""

    request: str
    """The id of the signal that asked for it; of an initial snapshot one that was made up."""
    kind: WholeKind
    tables: tuple[WholeTable, ...]
    began: float | None = None
    """When, in seconds since 1970."""
    pages_done: int = 0
    """Pages of the tables that are done."""
    own: bool = False
    """Whether nobody asked for it, and nobody will again if it fails."""

    @property
    def id(self) -> str:
        """What bronze calls the snapshot."""
        return f"{self.kind.value}-{self.request}"

    def without(self, table: TableName) -> Self:
        """Without a table that cannot be read."""
        return replace(self, tables=tuple(each for each in self.tables if each.table != table))

    def with_table(self, state: WholeTable) -> Self:
        """With another state of one of its tables."""
        return replace(self, tables=tuple(state if each.table == state.table else each for each in self.tables))

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> Self:
        """Read what ``asdict`` gave, by way of JSON."""
        tables = tuple(WholeTable(**{**each, "table": TableName(*each["table"])}) for each in raw["tables"])
        return cls(**{**raw, "kind": WholeKind(raw["kind"]), "tables": tables})

    def to_dict(self) -> dict[str, Any]:
        """What the progress row keeps."""
        return asdict(self)
