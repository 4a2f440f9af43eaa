"""Names of tables, and the one place where an identifier is quoted for SQL.

Invariant: no other module builds a quoted identifier or turns a source name into a lake name.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple, Self, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable

_IDENTIFIER: Final = r'(?:"((?:[^"]|"")*)"|([^".]+))'
_TABLE: Final = re.compile(rf"{_IDENTIFIER}\.{_IDENTIFIER}")


class TableName(NamedTuple):
    """A table of the source: schema and table as PostgreSQL stores them, unquoted, with their case."""

    schema: str
    table: str

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}"

    @property
    def quoted(self) -> str:
        """The name as SQL for PostgreSQL: ``"schema"."table"``."""
        return f"{quote_postgres(self.schema)}.{quote_postgres(self.table)}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Of ``schema.table``; a part that holds a dot is quoted as in SQL: ``"a.b".c``. ``"".message`` are the logical
        messages, which belong to no schema. Raises ValueError.
        """
        match = _TABLE.fullmatch(text)
        if match is None:
            raise ValueError(f'expected SCHEMA.TABLE (or "a.b".c where a name holds a dot), got {text!r}')
        schema, table = (match[2] or match[1], match[4] or match[3])
        return cls(schema.replace('""', '"'), table.replace('""', '"'))


MESSAGES: Final = TableName("", "message")
TRANSACTIONS: Final = TableName("", "transaction")
"""Names of what belongs to no table, and to no schema."""

Tables: TypeAlias = "Iterable[TableName | str] | TableName | str"
"""One table or several, each as it is or as ``TableName.parse`` takes it."""


def table_names(tables: Tables) -> list[TableName]:
    """The names. Raises ValueError."""
    if isinstance(tables, TableName | str):
        tables = [tables]
    return [TableName.parse(each) if isinstance(each, str) else TableName(*each) for each in tables]


class LakeTable(NamedTuple):
    """A table of the lake: catalog, schema and table, each already a plain ``[a-z0-9_]`` name."""

    catalog: str
    schema: str
    table: str

    def __str__(self) -> str:
        return ".".join(quote(part) for part in self)


def quote(identifier: str) -> str:
    """Quote one identifier for Spark SQL."""
    return "`" + identifier.replace("`", "``") + "`"


def quote_postgres(identifier: str) -> str:
    """Quote one identifier for PostgreSQL."""
    return '"' + identifier.replace('"', '""') + '"'


def string_literal(text: str) -> str:
    """A Spark SQL string literal, for the few statements (DDL comments, properties) that take no parameters.

    What looks like one of Spark's variables is kept from it: before it parses, Spark would put its value there.
    """
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("${", r"$\{") + "'"


def caseless(name: str) -> str:
    """The same for names that Spark and Delta take for one: by Java's ``equalsIgnoreCase``, character by character, or
    since they are the same in lower case.

    The first goes by way of the capitals, so it takes ``ı`` for ``i`` and ``ς`` for ``σ``, which a lower-cased text
    does not. Of a capital I with a dot it has the letter alone, the other letter and dot.
    """
    capitals = (next(way for way in (char.upper(), char.title(), char) if len(way) == 1) for char in name)
    return "".join(char.lower()[0] for char in capitals).replace("i\u0307", "i")


def lake_identifier(name: str) -> str:
    """The name a source identifier gets in the lake: lower-cased, every other character than [a-z0-9_] made ``_``."""
    return re.sub(r"[^a-z0-9_]", "_", name.lower())
