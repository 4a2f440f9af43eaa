"""Random changes of tables, between two transactions.

Invariant: each gives the statements and the table as it is after them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from oracle.random_cases.tables import column_name, random_column
from oracle.random_cases.types import KEY_TYPES, NEVER_REQUIRED, random_literal, random_type

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from oracle.random_cases.tables import Column, Table

Way = Callable[["Random", "Table"], "tuple[list[str], Table] | None"]


def altered(random: Random, table: Table, ways: Sequence[Way]) -> tuple[list[str], Table]:
    """Statements that change the table in one of these ways, and the table after them."""
    return next(made for way in random.sample(ways, len(ways)) if (made := way(random, table)) is not None)


def _added(random: Random, table: Table) -> tuple[list[str], Table]:
    column = random_column(random, _new_name(random, "n"), required=0)
    return [f"ALTER TABLE {table.sql} ADD {column.ddl};"], replace(table, columns=(*table.columns, column))


def _added_empty(random: Random, table: Table) -> tuple[list[str], Table]:
    column = replace(random_column(random, _new_name(random, "n"), required=0), default=None)
    return [f"ALTER TABLE {table.sql} ADD {column.ddl};"], replace(table, columns=(*table.columns, column))


def _dropped(random: Random, table: Table) -> tuple[list[str], Table] | None:
    if len(table.free) < 2:
        return None
    column = random.choice(table.free)
    return [f"ALTER TABLE {table.sql} DROP {column.sql};"], _with(table, column, None)


def _renamed(random: Random, table: Table) -> tuple[list[str], Table] | None:
    if not table.free:
        return None
    column = random.choice(table.free)
    other = replace(column, name=_new_name(random, "r"))
    return [f"ALTER TABLE {table.sql} RENAME {column.sql} TO {other.sql};"], _with(table, column, other)


def _retyped(random: Random, table: Table) -> tuple[list[str], Table] | None:
    if not table.settable:
        return None
    column = random.choice(table.settable)
    other = replace(column, type=random_type(random, required=column.required), default=None)
    value = f"CAST({random_literal(random, other.type, required=other.required)} AS {other.type})"
    change = f"ALTER {column.sql} DROP DEFAULT, ALTER {column.sql} TYPE {other.type} USING {value}"
    return [f"ALTER TABLE {table.sql} {change};"], _with(table, column, other)


def _defaulted(random: Random, table: Table) -> tuple[list[str], Table] | None:
    """Another default, or none any more."""
    some = [column for column in table.settable if not column.required or column.default is not None]
    if not some:
        return None
    column = random.choice(some)
    default = None
    if column.default is None or random.random() < 0.5:
        default = random_literal(random, column.type, required=column.required, as_default=True)
    how = "DROP DEFAULT" if default is None else f"SET DEFAULT {default}"
    statement = f"ALTER TABLE {table.sql} ALTER {column.sql} {how};"
    return [statement], _with(table, column, replace(column, default=default))


def _made_nullable(random: Random, table: Table) -> tuple[list[str], Table] | None:
    if not table.settable:
        return None
    column = random.choice(table.settable)
    statement = f"ALTER TABLE {table.sql} ALTER {column.sql} DROP NOT NULL;"
    return [statement], _with(table, column, replace(column, required=False))


def _identified(random: Random, table: Table) -> tuple[list[str], Table]:
    return table.with_identity(random.choice([each for each in table.identities() if each != table.identity]))


def _identified_by_its_key(random: Random, table: Table) -> tuple[list[str], Table] | None:
    """What names a row stays the same: the primary key, or nothing where there is none."""
    others = [each for each in table.identities() if each not in {table.identity, "INDEX"}]
    return None if table.identity == "INDEX" else table.with_identity(random.choice(others))


def _key_dropped(_: Random, table: Table) -> tuple[list[str], Table] | None:
    if not table.key or table.partitioned:
        return None
    name = table.quoted(f"{table.name}_key")
    return [f"ALTER TABLE {table.sql} DROP CONSTRAINT {name};"], replace(table, key=())


def _key_made(random: Random, table: Table) -> tuple[list[str], Table] | None:
    """By other columns; of no rows, since none may be there twice."""
    some = [each for each in table.free if each.required and each.type in KEY_TYPES]
    if table.key or table.partitioned or not some:
        return None
    column, name = random.choice(some), table.quoted(f"{table.name}_key")
    made = f"ALTER TABLE {table.sql} ADD CONSTRAINT {name} PRIMARY KEY ({column.sql});"
    return [f"TRUNCATE {table.sql};", made], replace(table, key=(column.name,), deferrable=False)


def _key_renamed(random: Random, table: Table) -> tuple[list[str], Table] | None:
    some = [each for each in table.written if each.name in table.key]
    if not some:
        return None
    column = random.choice(some)
    other = replace(column, name=_new_name(random, "k"))
    key = tuple(other.name if each == column.name else each for each in table.key)
    statement = f"ALTER TABLE {table.sql} RENAME {column.sql} TO {other.sql};"
    return [statement], replace(_with(table, column, other), key=key)


def _made_required(random: Random, table: Table) -> tuple[list[str], Table] | None:
    some = [each for each in table.settable if not each.required and each.type not in NEVER_REQUIRED]
    if not some:
        return None
    column = random.choice(some)
    made = f"ALTER TABLE {table.sql} ALTER {column.sql} DROP DEFAULT, ALTER {column.sql} SET NOT NULL;"
    return [f"TRUNCATE {table.sql};", made], _with(table, column, replace(column, required=True, default=None))


def _index_made(random: Random, table: Table) -> tuple[list[str], Table] | None:
    some = [each for each in table.free if each.type in KEY_TYPES]
    if table.unique is not None or table.partitioned or not some:
        return None
    table = replace(table, unique=random.choice(some).name, partial=random.random() < 0.2)
    return [f"TRUNCATE {table.sql};", table.unique_index()], table


def _index_dropped(_: Random, table: Table) -> tuple[list[str], Table] | None:
    if table.unique is None or table.identity == "INDEX":
        return None
    return [f"DROP INDEX {table.index};"], replace(table, unique=None, included=None, partial=False)


def _table_renamed(random: Random, table: Table) -> tuple[list[str], Table] | None:
    if table.partitioned or table.unique is not None or table.key:
        return None  # their names go by the table's
    other = replace(table, name=f"renamed {random.randrange(1_000_000)}")
    return [f"ALTER TABLE {table.sql} RENAME TO {table.quoted(other.name)};"], other


def _label_added(random: Random, table: Table) -> tuple[list[str], Table] | None:
    if not any(column.type.startswith("mood") for column in table.columns):
        return None
    return [f"ALTER TYPE mood ADD VALUE 'label {random.randrange(1_000_000)}';"], table


def _stored(random: Random, table: Table) -> tuple[list[str], Table] | None:
    some = [column for column in table.written if column.type in {"text", "bytea", "jsonb", "text[]", "varchar(40)"}]
    if not some:
        return None
    how = random.choice(("PLAIN", "MAIN", "EXTERNAL", "EXTENDED"))
    return [f"ALTER TABLE {table.sql} ALTER {random.choice(some).sql} SET STORAGE {how};"], table


def _key_widened(_: Random, table: Table) -> tuple[list[str], Table] | None:
    bases = " ".join(column.generated or "" for column in table.columns)
    for column in table.columns:
        if column.name in table.key and column.type == "int4" and not table.partitioned and column.sql not in bases:
            statement = f"ALTER TABLE {table.sql} ALTER {column.sql} TYPE int8;"
            return [statement], _with(table, column, replace(column, type="int8"))
    return None


def _with(table: Table, column: Column, other: Column | None) -> Table:
    """The table with another column in its place, or without it."""
    columns = (other if each is column else each for each in table.columns)
    return replace(table, columns=tuple(each for each in columns if each is not None))


def _new_name(random: Random, start: str) -> str:
    return column_name(random, f"{start}{random.randrange(1_000_000)}")


ALL_WAYS: Final[tuple[Way, ...]] = (
    _added,
    _dropped,
    _renamed,
    _retyped,
    _retyped,
    _defaulted,
    _made_nullable,
    _identified,
    _key_widened,
    _label_added,
    _stored,
)
SEEN_LIVE: Final[tuple[Way, ...]] = (
    *ALL_WAYS,
    *(_key_dropped, _key_made, _key_renamed, _made_required, _index_made, _index_dropped, _table_renamed),
)
"""What both sides see in the same events if they look while it is done."""
TAKEN_WHERE_LISTED: Final[tuple[Way, ...]] = (_added, _added_empty, _renamed, _made_nullable, _stored)
"""What the server does to a table of which a publication lists columns and rows, and takes changes of it afterwards."""

FOLLOWED_BY_GOLD: Final[tuple[Way, ...]] = (_added_empty, _made_nullable, _identified_by_its_key, _label_added, _stored)
"""After these gold is the table without reading it again. After an identity by another index it is not: the older
changes lack its columns, which ends in GoldKeyError."""
