r"""Which tables, columns and logical messages are captured: Debezium's lists, with Debezium's matching.

Invariant: a list matches whole names, as Java's regular expressions do (``java_regex``), without case unless
``lake.case_sensitive_filters`` is set; what is not matched never reaches bronze.
Source: Debezium 3.6, PostgreSQL connector, ``*.include.list`` and ``*.exclude.list``: items are separated by commas, a
comma within an item is written ``\,``, blanks around items do not count.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from walhouse.config.java_regex import compile_pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from walhouse.names import TableName

_ITEM: Final = re.compile(r"(?:[^\\,]|\\.|\\$)+", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)

SYSTEM_SCHEMAS: Final = frozenset({"pg_catalog", "information_schema"})
SYSTEM_SCHEMA_PREFIXES: Final = ("pg_toast", "pg_temp")


def split_list(text: str) -> tuple[str, ...]:
    r"""The items of a comma separated list, trimmed; ``\,`` is a comma within an item."""
    items = (item.strip() for item in _ITEM.findall(text))
    return tuple(_ESCAPE.sub(lambda match: "," if match[1] == "," else match[0], item) for item in items if item)


def any_matches(patterns: Iterable[str], name: str, *, case_sensitive: bool) -> bool:
    """True if one of the patterns matches the whole name."""
    return any(compile_pattern(pattern, case_sensitive=case_sensitive).fullmatch(name) for pattern in patterns)


@dataclass(frozen=True, slots=True)
class NameFilter:
    """One pair of lists over one kind of name. At most one of the two may be given."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    case_sensitive: bool = False

    def matches(self, name: str) -> bool:
        """True if the name is in the include list, or not in the exclude list, or if there is neither."""
        if self.include:
            return any_matches(self.include, name, case_sensitive=self.case_sensitive)
        return not any_matches(self.exclude, name, case_sensitive=self.case_sensitive)


class KeyChoice(Protocol):
    """Which columns are chosen for a table's key."""

    def key_of(self, table: TableName, columns: Sequence[str]) -> tuple[str, ...]:
        """Those of the table's columns that are chosen, in the key's order; empty if none are."""
        ...


@dataclass(frozen=True, slots=True)
class TableFilter:
    """What is captured of the source's tables and columns. Can be pickled."""

    schemas: NameFilter = NameFilter()
    tables: NameFilter = NameFilter()
    columns: NameFilter = NameFilter()
    signals: TableName | None = None
    """The table of signals, which is captured in any case."""
    keys: KeyChoice | None = None
    """Chosen keys, whose columns are kept whatever the lists say."""

    def captures(self, name: TableName) -> bool:
        """True if the table is captured: its schema and its ``schema.table`` pass, and it is not the system's."""
        if is_system_schema(name.schema):
            return False
        return name == self.signals or (self.schemas.matches(name.schema) and self.tables.matches(str(name)))

    def kept_columns(self, name: TableName, columns: Sequence[str], key: Sequence[str]) -> tuple[int, ...]:
        """Positions in ``columns`` of those that are kept; those of the key, and of a chosen one, always are."""
        chosen = () if self.keys is None else self.keys.key_of(name, columns)
        in_key = {*key, *chosen}
        return tuple(
            position
            for position, column in enumerate(columns)
            if column in in_key or self.columns.matches(f"{name}.{column}")
        )


def is_system_schema(schema: str) -> bool:
    """True for schemas of PostgreSQL itself, which are never captured (``table.ignore.builtin``)."""
    return schema in SYSTEM_SCHEMAS or schema.startswith(SYSTEM_SCHEMA_PREFIXES)
