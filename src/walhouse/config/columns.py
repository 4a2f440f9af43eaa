"""Which columns events show, and which are their keys: ``column.*.list`` and ``message.key.columns``.

Invariant: these shape events only. What bronze holds is decided by ``walhouse.config.filters``, which keeps the
columns of a key even where events do not show them.
Source: Debezium 3.6, PostgreSQL connector, ``message.key.columns``: ``table:column,column;table:column``, the first
entry whose pattern matches ``schema.table`` counts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from walhouse.config.filters import NameFilter, any_matches
from walhouse.config.java_regex import PatternError, compile_pattern

if TYPE_CHECKING:
    from walhouse.names import TableName

_ENTRY: Final = re.compile(r"\s*([^\s:]+):([^:\s]+)\s*")


@dataclass(frozen=True, slots=True)
class KeyEntry:
    """One entry of ``message.key.columns``."""

    table: str
    """A pattern."""
    columns: tuple[str, ...]

    def matches(self, table: TableName, *, case_sensitive: bool) -> bool:
        """True for a table of the entry."""
        return any_matches((self.table,), str(table), case_sensitive=case_sensitive)


@dataclass(frozen=True, slots=True)
class ColumnRules:
    """Both properties."""

    shown: NameFilter
    keys: tuple[KeyEntry, ...] = ()
    case_sensitive: bool = False
    """Of the patterns of ``keys``."""

    def shows(self, table: TableName, column: str) -> bool:
        """True if ``before`` and ``after`` have the column."""
        return self.shown.matches(f"{table}.{column}")

    def entry_of(self, table: TableName) -> KeyEntry | None:
        """The entry that counts for the table."""
        return next((entry for entry in self.keys if entry.matches(table, case_sensitive=self.case_sensitive)), None)

    def key_of(self, table: TableName) -> tuple[str, ...] | None:
        """The columns chosen for the table's key, in their order; None if none are."""
        entry = self.entry_of(table)
        return None if entry is None else entry.columns


def parse_keys(text: str) -> tuple[KeyEntry, ...]:
    """Read the property. Raises ValueError that says which entry is wrong."""
    entries = []
    for part in text.split(";"):
        found = _ENTRY.fullmatch(part)
        if found is None:
            raise ValueError(f"{part.strip()!r} is not of the form table:column,column")
        try:
            compile_pattern(found[1])
        except PatternError as error:
            raise ValueError(f"the pattern {found[1]!r}: {error}") from None
        entries.append(KeyEntry(found[1], tuple(found[2].split(","))))
    return tuple(entries)
