"""Which columns events show, and which are their keys: ``column.*.list`` and ``message.key.columns``.

Invariant: these shape events only. What bronze holds is decided by ``walhouse.config.filters``, which keeps the
columns of a key even where events do not show them.
Source: Debezium 3.6, PostgreSQL connector, ``message.key.columns``: ``table:column,column;table:column``; its engine
makes one pattern of the table's and each column's, with a dot between, and joins the columns of all that match.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from walhouse.config.filters import NameFilter, any_matches, split_list
from walhouse.config.java_regex import require_pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from walhouse.names import TableName

_ENTRY: Final = re.compile(r"([^:]+):([^:,]+(?:,[^:,]+)*)")


@dataclass(frozen=True, slots=True)
class KeyEntry:
    """One column of an entry of ``message.key.columns``, with the entry's table; both are patterns."""

    table: str
    column: str

    def concerns(self, table: TableName, *, case_sensitive: bool) -> bool:
        """True for a table of the entry, whether it has the column or not."""
        return any_matches(split_list(self.table), str(table), case_sensitive=case_sensitive)

    def matches(self, table: TableName, column: str, *, case_sensitive: bool) -> bool:
        """True for a column that the entry puts into its table's key."""
        return any_matches(self.patterns, f"{table}.{column}", case_sensitive=case_sensitive)

    @property
    def patterns(self) -> tuple[str, ...]:
        """Those for ``schema.table.column``: Debezium reads the two as one list of patterns."""
        return split_list(f"{self.table}.{self.column}")


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

    def key_of(self, table: TableName, columns: Sequence[str]) -> tuple[str, ...]:
        """Those of the table's columns that are chosen for its key: the entries' order, then the table's."""
        chosen = (name for entry in self.keys for name in self.matched(entry, table, columns))
        return tuple(dict.fromkeys(chosen))

    def matched(self, entry: KeyEntry, table: TableName, columns: Sequence[str]) -> tuple[str, ...]:
        """Those of the table's columns that one entry matches."""
        return tuple(name for name in columns if entry.matches(table, name, case_sensitive=self.case_sensitive))

    def entries_of(self, table: TableName) -> tuple[KeyEntry, ...]:
        """The entries that concern the table, whether it has their columns or not."""
        return tuple(entry for entry in self.keys if entry.concerns(table, case_sensitive=self.case_sensitive))


def parse_keys(text: str) -> tuple[KeyEntry, ...]:
    """Read the property. Raises ValueError that says which entry is wrong."""
    return tuple(entry for part in text.rstrip(";").split(";") for entry in _parse(part))


def _parse(part: str) -> Iterator[KeyEntry]:
    found = _ENTRY.fullmatch(part)
    if found is None:
        raise ValueError(f"{part.strip()!r} is not of the form table:column,column")
    for column in found[2].split(","):
        entry = KeyEntry(found[1], column.strip())
        for pattern in (*split_list(entry.table), *entry.patterns):
            require_pattern(pattern)
        yield entry
