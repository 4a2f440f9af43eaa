"""Which replica identity captured tables are to have: ``replica.identity.autoset.values``.

Invariant: at most one entry speaks for a table.
Source: Debezium 3.6, PostgreSQL connector, ``replica.identity.autoset.values``: entries ``schema.table:FULL``,
``:DEFAULT``, ``:NOTHING`` or ``:INDEX name``, separated by commas, the table a pattern as in all lists.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from walhouse.config.filters import any_matches, split_list
from walhouse.config.java_regex import require_pattern
from walhouse.errors import ConfigurationError

if TYPE_CHECKING:
    from walhouse.names import TableName

AUTOSET: Final = "replica.identity.autoset.values"

_ENTRY: Final = re.compile(
    r"(?P<table>\S+):\s*(?P<identity>FULL|DEFAULT|NOTHING|INDEX\s+(?P<index>\S.*))", re.IGNORECASE
)


class Identity(StrEnum):
    """The kinds of replica identity, as ``pg_class.relreplident`` has them."""

    DEFAULT = "d"
    FULL = "f"
    NOTHING = "n"
    INDEX = "i"


@dataclass(frozen=True, slots=True)
class IdentityEntry:
    """One entry. ``index`` is the name of one, if and only if the identity is INDEX."""

    table: str
    """A pattern."""
    identity: Identity
    index: str | None = None

    def __str__(self) -> str:
        return f"{self.table}:{self.identity.name}{'' if self.index is None else f' {self.index}'}"


@dataclass(frozen=True, slots=True)
class IdentityRules:
    """All entries."""

    entries: tuple[IdentityEntry, ...] = ()
    case_sensitive: bool = False

    def matching(self, table: TableName) -> tuple[IdentityEntry, ...]:
        """The entries whose pattern matches the table."""
        return tuple(
            entry
            for entry in self.entries
            if any_matches((entry.table,), str(table), case_sensitive=self.case_sensitive)
        )

    def of(self, table: TableName) -> IdentityEntry | None:
        """The entry for the table, None if its identity is to stay. Raises ConfigurationError if there are several."""
        found = self.matching(table)
        if len(found) > 1:
            raise ConfigurationError(
                f"{AUTOSET} has several entries for {table}: {', '.join(map(str, found))}.",
                todo="Leave one of them, or make the patterns narrower.",
                path=f"connector.{AUTOSET}",
                table=str(table),
            )
        return found[0] if found else None


def parse_identities(text: str) -> tuple[IdentityEntry, ...]:
    """Read the property. Raises ValueError that says which entry is wrong."""
    return tuple(_parse(item) for item in split_list(text))


def _parse(item: str) -> IdentityEntry:
    found = _ENTRY.fullmatch(item)
    if found is None:
        raise ValueError(f"{item!r} is not of the form table:FULL, :DEFAULT, :NOTHING or :INDEX name")
    identity = Identity[found["identity"].split()[0].upper()]
    return IdentityEntry(require_pattern(found["table"]), identity, found["index"])
