"""A whole random scenario: tables, then transactions over them or an initial snapshot, under random properties.

Invariant: the same seed makes the same scenario. What Debezium's engine cannot survive (docs/CONFORMANCE.md names it)
is never made here, since it says nothing about walhouse.
"""

from __future__ import annotations

import re
from itertools import chain
from random import Random
from typing import TYPE_CHECKING, Final

from oracle.random_cases.alterations import ALL_WAYS, TAKEN_WHERE_LISTED, altered
from oracle.random_cases.properties import random_properties, random_publication
from oracle.random_cases.tables import random_table
from oracle.random_cases.types import LONG, ONLY_REQUIRED, SETUP, random_literal
from oracle.random_cases.values import BEYOND_UTF16
from oracle.scenario import Scenario

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oracle.random_cases.alterations import Way
    from oracle.random_cases.tables import Column, Table

_FIRST: Final = "SELECT pg_logical_emit_message(true, 'outbox', 'first');"
"""A message before the first commit has the time of the engine's own clock; a row may be hidden by a filter."""

_MESSAGES: Final = ("'text'", "''", r"'\x00ff10'::bytea")

_DATE: Final = re.compile(r"""(?P<quote>['"])(?P<day>[0-9]{4,}-[0-9]{2}-[0-9]{2})(?P<era> BC)?(?P=quote)""")
_REQUIRED_TIMESTAMP: Final = re.compile(r"\btimestamp(?:\([0-9]\))? (?:NOT NULL|USING)")
"""In nanoseconds the engine has no value for some, nor one to make up."""

_ARRAY_WITHOUT_VALUE: Final = re.compile(r"\b(?:ltree|price|code|(?:var)?bit(?:\([0-9]+\))?)\[\]")
"""Where one of these is a key's column, be it before another type was given to it, the engine may stop."""

_GREGORIAN: Final = "1582-10-15"
"""Dates before it the engine reads by another calendar in a snapshot than in the stream."""


def random_scenario(seed: int, ways: Sequence[Way] = ALL_WAYS, *, live: bool = False) -> Scenario:
    """The scenario of a seed, with tables altered in these ways.

    One of eight is an initial snapshot. ``live``: none is, and tables are altered between two passes alone.
    """
    random = Random(seed)
    is_snapshot = random.random() < 0.125 and not live
    tables = [random_table(random, number, is_snapshot=is_snapshot) for number in range(random.choice((1, 1, 2)))]
    schemas = [f'CREATE SCHEMA "{schema}";' for schema in sorted({each.schema for each in tables} - {"public"})]
    setup = [*SETUP, *schemas, *(statement for table in tables for statement in table.ddl(random))]
    publication = random_publication(random, tables, is_snapshot=is_snapshot)
    if publication.startswith("FOR TABLE"):
        ways = [way for way in ways if way in TAKEN_WHERE_LISTED]
    passes: list[list[str]] = []
    if is_snapshot:
        setup += _before_a_snapshot(random, tables, ways)
    elif live:
        passes = _passes(random, tables, ways)
    else:
        passes = [_changes(random, tables, ways)]
    properties = random_properties(random, tables, is_snapshot=is_snapshot)
    if any(".truncate." in name for name in properties):  # the engine may cut a character into halves
        setup, *passes = ([each.replace(BEYOND_UTF16, "x") for each in some] for some in (setup, *passes))
    changes = tuple(chain.from_iterable(passes))
    if any(_REQUIRED_TIMESTAMP.search(each) for each in (*setup, *changes)):
        properties = {name: value for name, value in properties.items() if value != "nanoseconds"}
    if any(_ARRAY_WITHOUT_VALUE.search(each) for each in (*setup, *changes)):
        properties.pop("message.key.columns", None)
    return Scenario(
        name=f"random_{seed}",
        title=f"Random case of seed {seed}.",
        references=("4",),
        setup=tuple(setup),
        changes=changes,
        passes=tuple(map(tuple, passes)),
        variants={"random": properties},
        publication=publication,
        may_be_refused=True,
    )


def _before_a_snapshot(random: Random, tables: list[Table], ways: Sequence[Way]) -> list[str]:
    """Rows of each table: it is by the last of all that the engine's run ends."""
    statements = []
    for number, made in enumerate(tables):
        table = made
        if random.random() < 0.2:
            alteration, table = altered(random, made, ways)
            tables[number] = table
            statements += alteration
        statements += [_insert(random, table) for _ in range(random.randint(1, 6))]
    return [_DATE.sub(_of_our_calendar, statement) for statement in statements]


def _of_our_calendar(date: re.Match[str]) -> str:
    is_old = date["era"] or (len(date["day"]) == len(_GREGORIAN) and date["day"] < _GREGORIAN)
    return f"{date['quote']}1900-03-01{date['quote']}" if is_old else date[0]


def _changes(random: Random, tables: list[Table], ways: Sequence[Way]) -> list[str]:
    changes = [_FIRST, _insert(random, tables[0])]
    for _ in range(random.randint(3, 6)):
        changes += _prepared(random, tables) if random.random() < 0.1 else _transaction(random, tables)
        choice = random.random()
        if choice < 0.25:
            number = random.randrange(len(tables))
            made, tables[number] = altered(random, tables[number], ways)
            changes += made
        elif choice < 0.4:
            changes += _altering(random, tables, ways)
    return changes


def _passes(random: Random, tables: list[Table], ways: Sequence[Way]) -> list[list[str]]:
    """Each looks at the catalog as it is after its own first statements."""
    passes = [[_FIRST, _insert(random, tables[0]), *_transaction(random, tables)]]
    for _ in range(random.randint(2, 4)):
        number = random.randrange(len(tables))
        made, tables[number] = altered(random, tables[number], ways)
        passes.append([*made, *(each for _ in range(random.randint(1, 3)) for each in _transaction(random, tables))])
    return passes


def _altering(random: Random, tables: list[Table], ways: Sequence[Way]) -> list[str]:
    """A transaction in which a table is altered amid its changes; half of them are taken back to before that."""
    number = random.randrange(len(tables))
    before = tables[number]
    if before.deferrable:  # no statement is sure
        return []
    made, after = altered(random, before, ways)
    statements = [_sure_statement(random, before), "SAVEPOINT a;", *made, _sure_statement(random, after)]
    if random.random() < 0.5:
        statements.append("ROLLBACK TO a;")
        after = before
    tables[number] = after
    return ["BEGIN;", *statements, _sure_statement(random, after), "COMMIT;"]


def _sure_statement(random: Random, table: Table) -> str:
    """One that no key keeps the server from taking."""
    if table.free and table.can_change and random.random() < 0.6:
        column = random.choice(table.free)
        return f"UPDATE {table.sql} SET {column.sql} = {_new_value(random, table, column)};"
    return _insert(random, table)


def _transaction(random: Random, tables: list[Table]) -> list[str]:
    statements = [_statement(random, tables) for _ in range(random.choice((1, 1, 2, 3, 5)))]
    if len(statements) == 1:
        return statements
    if len(statements) > 2 and random.random() < 0.2:
        statements[1:1] = ["SAVEPOINT s;"]
        statements.insert(random.randint(2, len(statements)), "ROLLBACK TO s;")
    return ["BEGIN;", *statements, "ROLLBACK;" if random.random() < 0.1 else "COMMIT;"]


def _prepared(random: Random, tables: list[Table]) -> list[str]:
    """A transaction that is written before others and committed after them."""
    inside = [_statement(random, tables) for _ in range(random.choice((1, 2, 3)))]
    end = "ROLLBACK" if random.random() < 0.2 else "COMMIT"
    between = [each for _ in range(random.randint(1, 2)) for each in _transaction(random, tables)]
    return ["BEGIN;", *inside, "PREPARE TRANSACTION 'p';", *between, f"{end} PREPARED 'p';"]


def _statement(random: Random, tables: list[Table]) -> str:
    table = random.choice(tables)
    choice = random.random()
    if choice < 0.04:
        how = random.choice(("", "", " CASCADE", " RESTART IDENTITY", " RESTART IDENTITY CASCADE"))
        return f"TRUNCATE {', '.join(each.sql for each in random.sample(tables, random.randint(1, len(tables))))}{how};"
    if choice < 0.08:
        transactional = random.choice(("true", "false"))
        prefix = random.choice(("foo", "outbox"))
        return f"SELECT pg_logical_emit_message({transactional}, '{prefix}', {random.choice(_MESSAGES)});"
    if choice < 0.45 or not table.can_change:
        return _insert(random, table)
    where = f" WHERE ctid = (SELECT ctid FROM {table.sql} LIMIT 1)" if random.random() < 0.85 else ""
    if choice < 0.85:
        some = random.sample(table.written, random.choice((1, 1, min(2, len(table.written)))))
        values = ", ".join(f"{column.sql} = {_new_value(random, table, column)}" for column in some)
        return f"UPDATE {table.sql} SET {values}{where};"
    return f"DELETE FROM {table.sql}{where};"


def _insert(random: Random, table: Table) -> str:
    given = [column for column in table.written if not (column.counted and random.random() < 0.5)]
    if not given:
        return f"INSERT INTO {table.sql} DEFAULT VALUES;"
    names = ", ".join(column.sql for column in given)
    rows = [
        f"({', '.join(_value(random, table, column) for column in given)})" for _ in range(random.choice((1, 1, 1, 2)))
    ]
    if table.deferrable:  # no arbiter of conflicts
        return f"INSERT INTO {table.sql} ({names}) VALUES {', '.join(rows)};"
    taken = "DO NOTHING"
    if table.key and table.can_change and table.unique is None and len(rows) == 1 and random.random() < 0.3:
        column = random.choice(given)
        key = ", ".join(each.sql for each in table.columns if each.name in table.key)
        taken = f"({key}) DO UPDATE SET {column.sql} = excluded.{column.sql}"
    return f"INSERT INTO {table.sql} ({names}) VALUES {', '.join(rows)} ON CONFLICT {taken};"


def _new_value(random: Random, table: Table, column: Column) -> str:
    """Now and then the old one."""
    return column.sql if random.random() < 0.1 else _value(random, table, column)


def _value(random: Random, table: Table, column: Column) -> str:
    if not column.required and column.type not in ONLY_REQUIRED and random.random() < 0.15:
        return "NULL"
    if column.type == "text" and not table.is_indexed(column) and random.random() < 0.2:
        return LONG.format(n=400)
    return random_literal(random, column.type, required=column.required or table.is_indexed(column))
