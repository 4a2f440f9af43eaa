"""Random tables: their columns, keys, replica identities, partitions and names.

Invariant: a table here says what the server has, so that each statement made for it is one that the server takes, but
for a key that is there already.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from oracle.random_cases.types import HASHED_KEY_TYPES, KEY_TYPES, random_literal, random_type
from walhouse.names import quote_postgres

if TYPE_CHECKING:
    from random import Random

_PLAIN: Final = re.compile(r"[a-z_]+[0-9]*")
_SCHEMAS: Final = ("public",) * 8 + ("other", "Öl 2")
_TABLE_NAMES: Final = ("t{}",) * 6 + ("My Table{}", "größe {}")
_COLUMN_NAMES: Final = ("{}{}",) * 12 + ("{} b{}", "Ünï{}{}", "😀{}{}", "{}_{}")
"""The number at the end keeps them apart, also where other characters than letters are replaced."""

_STORED_OUTSIDE: Final = frozenset({"text", "bytea", "int4[]", "text[]", "jsonb"})


@dataclass(frozen=True, slots=True)
class Column:
    """One column. ``generated``: the expression that it is made of."""

    name: str
    type: str
    required: bool = False
    default: str | None = None
    generated: str | None = None

    @property
    def sql(self) -> str:
        """The name in SQL."""
        return _sql_name(self.name)

    @property
    def ddl(self) -> str:
        """The column in CREATE TABLE."""
        made = "" if self.default is None else f" DEFAULT {self.default}"
        if self.generated is not None:
            made = f" GENERATED ALWAYS AS ({self.generated}) STORED"
        return f"{self.sql} {self.type}{' NOT NULL' * self.required}{made}"


@dataclass(frozen=True, slots=True)
class Table:
    """One table. ``key``: the primary key; ``unique``: a column with a unique index of its own; both by name.

    ``partial``: that index is of some rows alone, and no key.
    """

    schema: str
    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()
    unique: str | None = None
    partial: bool = False
    identity: str = "DEFAULT"
    partitioned: bool = False

    @property
    def sql(self) -> str:
        """The name in SQL."""
        name = _sql_name(self.name)
        return name if self.schema == "public" else f"{_sql_name(self.schema)}.{name}"

    @property
    def written(self) -> tuple[Column, ...]:
        """The columns that take values."""
        return tuple(column for column in self.columns if column.generated is None)

    @property
    def free(self) -> tuple[Column, ...]:
        """The columns that nothing else is made of: neither keys nor generated columns nor what these are made of."""
        bases = " ".join(column.generated or "" for column in self.columns)
        return tuple(each for each in self.written if not self.is_indexed(each) and each.sql not in bases)

    def is_indexed(self, column: Column) -> bool:
        """Whether it is in a key, and has to be short."""
        return column.name in self.key or column.name == self.unique

    @property
    def can_change(self) -> bool:
        """Whether PostgreSQL takes updates and deletes."""
        return self.identity in {"FULL", "INDEX"} or (self.identity == "DEFAULT" and bool(self.key))

    def with_identity(self, identity: str) -> tuple[list[str], Table]:
        """The statements that set it, and the table then."""
        how = f"USING INDEX {self._index}" if identity == "INDEX" else identity
        names = [self.sql, *(self._partition(number) for number in range(2) if self.partitioned)]
        return [f"ALTER TABLE {name} REPLICA IDENTITY {how};" for name in names], replace(self, identity=identity)

    def identities(self) -> list[str]:
        """Those that it can have."""
        can_index = not self.partial and any(each.name == self.unique and each.required for each in self.columns)
        return ["DEFAULT", "FULL", "NOTHING", *(["INDEX"] * 2 if can_index else [])]

    def ddl(self, random: Random) -> list[str]:
        """The statements that make it."""
        inside = [column.ddl for column in self.columns]
        if self.key:
            inside.append(f"PRIMARY KEY ({', '.join(map(_sql_name, random.sample(self.key, len(self.key))))})")
        made = f"CREATE TABLE {self.sql} ({', '.join(inside)})"
        if self.partitioned:
            made += f" PARTITION BY HASH ({_sql_name(self.key[0])})"
        statements = [f"{made};"]
        if self.partitioned:
            statements += [
                f"CREATE TABLE {self._partition(number)} PARTITION OF {self.sql} "
                f"FOR VALUES WITH (MODULUS 2, REMAINDER {number});"
                for number in range(2)
            ]
        outside = [column.sql for column in self.columns if column.type in _STORED_OUTSIDE]
        statements += [f"ALTER TABLE {self.sql} ALTER {name} SET STORAGE EXTERNAL;" for name in outside]
        if self.unique is not None:
            some = f" WHERE {_sql_name(self.unique)} IS NOT NULL" if self.partial else ""
            statements.append(f"CREATE UNIQUE INDEX {self._index} ON {self.sql} ({_sql_name(self.unique)}){some};")
        return statements + (self.with_identity(self.identity)[0] if self.identity != "DEFAULT" else [])

    @property
    def _index(self) -> str:
        return _sql_name(f"{self.name}u")

    def _partition(self, number: int) -> str:
        name = _sql_name(f"{self.name}p{number}")
        return name if self.schema == "public" else f"{_sql_name(self.schema)}.{name}"


def random_table(random: Random, number: int, *, can_have_partitions: bool) -> Table:
    """A table of random columns; the number makes its name its own."""
    key = [
        Column(column_name(random, f"k{each}"), random.choice(KEY_TYPES), required=True)
        for each in range(random.choice((0, 1, 1, 1, 2)))
    ]
    others = [random_column(random, column_name(random, f"c{each}")) for each in range(random.randint(1, 7))]
    unique = None
    if random.random() < 0.25:
        column = Column(column_name(random, "u0"), random.choice(KEY_TYPES), required=random.random() < 0.7)
        others.append(column)
        unique = column.name
    columns = [*key, *others]
    random.shuffle(columns)
    table = Table(
        schema=random.choice(_SCHEMAS),
        name=random.choice(_TABLE_NAMES).format(number),
        columns=(*columns, *_generated(random, columns)),
        key=tuple(column.name for column in key),
        unique=unique,
        partial=unique is not None and random.random() < 0.2,
        partitioned=can_have_partitions
        and bool(key)
        and key[0].type in HASHED_KEY_TYPES
        and unique is None
        and random.random() < 0.1,
    )
    often = ["FULL", "FULL"] if not key else ["DEFAULT", "DEFAULT", "DEFAULT", "FULL", "FULL"]
    return replace(table, identity=random.choice([*often, *table.identities()]))


def random_column(random: Random, name: str, *, required: float = 0.3) -> Column:
    """A column of any type; three of ten have a default. ``required``: how likely it is to be NOT NULL."""
    is_required = random.random() < required
    column = Column(name, random_type(random, required=is_required), is_required)
    if random.random() >= 0.3:
        return column
    return replace(column, default=random_literal(random, column.type, required=column.required, as_default=True))


def column_name(random: Random, start: str) -> str:
    """A name that begins or ends with it; most are plain."""
    return random.choice(_COLUMN_NAMES).format(start[0], start[1:])


def _generated(random: Random, columns: list[Column]) -> list[Column]:
    bases = [column for column in columns if column.type in {"int4", "int8"}]
    if not bases or random.random() > 0.4:
        return []
    base = random.choice(bases)
    return [Column(column_name(random, "g0"), base.type, generated=f"{base.sql} / 2")]


def _sql_name(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else quote_postgres(name)
