"""What is done on the source: changes of rows, in sessions that end at once or later, and DDL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import psycopg

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Mapping

    from tests.e2e.operating.world import Column, Table, World


_OTHERS: Final[Mapping[str, Callable[[random.Random], str]]] = {
    "int4range": lambda chance: f"int4range({(first := chance.randint(1, 12))}, {first + 1})",
    "jsonb": lambda chance: f"""'{{"a": {chance.randint(1, 9)}}}'""",
    "uuid": lambda chance: f"md5('{chance.randint(1, 9)}')::uuid",
}


def value(column: Column, chance: random.Random) -> str:
    kind = column.type
    if column.is_null and chance.random() < 0.15:
        return "NULL"
    if column.labels:
        return f"'{chance.choice(column.labels)}'"
    if kind.startswith("numeric"):
        return str(chance.randint(0, 30) / 4)
    if kind in {"integer", "bigint"}:
        return str(chance.randint(1, 30))
    if kind in _OTHERS:
        return _OTHERS[kind](chance)
    return f"repeat('{chance.choice('xyz')}', {chance.choice((1, 2, 3000))})"


def change(table: Table, chance: random.Random) -> list[str]:
    """Statements that belong together."""
    name, columns = f'"{table.name}"', table.columns
    key = [column for column in columns if column.is_key]
    rest = [column for column in columns if not column.is_key] or list(columns)

    def some(most: int) -> str:
        skipped, taken = chance.randint(0, 9), chance.randint(1, most)
        places = f"SELECT tableoid, ctid FROM {name} ORDER BY 1, 2 OFFSET {skipped} LIMIT {taken}"
        return f"(tableoid, ctid) IN ({places})"

    def insert(*, again: bool = False) -> str:
        names = ", ".join(f'"{column.name}"' for column in columns)
        changed = f' DO UPDATE SET "{rest[0].name}" = excluded."{rest[0].name}"' if again and key else " DO NOTHING"
        target = "(" + ", ".join(f'"{column.name}"' for column in key) + ")" if key else ""
        values = ", ".join(value(column, chance) for column in columns)
        return f"INSERT INTO {name} ({names}) VALUES ({values}) ON CONFLICT {target}{changed}"

    def update(of: list[Column], most: int = 5) -> str:
        column = chance.choice(of)
        return f'UPDATE {name} SET "{column.name}" = {value(column, chance)} WHERE {some(most)}'

    delete, truncate = f"DELETE FROM {name} WHERE {some(4)}", f"TRUNCATE {name} CASCADE"
    every = ", ".join(f'"{column.name}" = {value(column, chance)}' for column in rest)
    kinds = (
        (6, [insert()]),
        (3, [insert(again=True)]),
        (8, [update(rest)]),
        (4, [update(key or rest, 1)]),
        (5, [delete]),
        (1, [truncate, insert()]),
        (1, [truncate]),
        (2, [insert(), "SAVEPOINT s", f"DELETE FROM {name}", "ROLLBACK TO s", update(rest)]),
        (4, [insert(), update(rest), delete, insert(again=True)]),
        (1, [f"UPDATE {name} SET {every}"]),
        (1, ["SELECT pg_logical_emit_message(true, 'operators', 'said')"]),
    )
    return chance.choices([statements for _, statements in kinds], [often for often, _ in kinds])[0]


def any_table(world: World, chance: random.Random) -> Table | None:
    tables = world.tables()
    return chance.choice(tables) if tables else None


def rows(world: World, chance: random.Random) -> None:
    statements: list[str] = []
    for _ in range(chance.choice((1, 1, 2, 4))):
        if (table := any_table(world, chance)) is not None:
            made = change(table, chance)
            truncated(world, table, made)
            statements += made
    world.sql(*statements)


def truncated(world: World, table: Table, statements: list[str]) -> None:
    """Of a leaf under publish_via_partition_root there is no event."""
    if table.is_leaf and any(statement.startswith("TRUNCATE") for statement in statements):
        for root in world.tables():
            if root.is_parted:
                world.leave(root.name, "whole")


def rolled_back(world: World, chance: random.Random) -> None:
    if (table := any_table(world, chance)) is not None:
        world.sql(*change(table, chance), "DO $$ BEGIN RAISE EXCEPTION 'no'; END $$")


def session(world: World, chance: random.Random) -> None:
    """One more change in a transaction that stays open; one that begins, if there are few."""
    table = any_table(world, chance)
    if table is None:
        return
    if not world.open or (len(world.open) < 2 and chance.random() < 0.5):
        conn = world.database.connect(autocommit=False)
        conn.execute("SET lock_timeout = '300ms'")
        world.open.append(conn)
    made = change(table, chance)
    if not any(statement.startswith("TRUNCATE") for statement in made):
        world.sql(*made, conn=chance.choice(world.open))


def session_ends(world: World, chance: random.Random) -> None:
    """Committed, rolled back, or prepared."""
    if not world.open:
        return
    conn = world.open.pop(chance.randrange(len(world.open)))
    how = chance.choice(("COMMIT", "COMMIT", "ROLLBACK", f"PREPARE TRANSACTION 'x{chance.getrandbits(60)}'"))
    try:
        conn.execute(how.encode())
        world.say(how)
    except psycopg.Error as error:
        world.say(f"refused: {how}: {error}")
    conn.close()


def prepared_ends(world: World, chance: random.Random) -> None:
    found = world.ask("SELECT gid FROM pg_prepared_xacts WHERE database = current_database()")
    for (name,) in found[:1]:
        how = chance.choice(("COMMIT", "COMMIT", "ROLLBACK"))
        world.database.execute(f"{how} PREPARED '{name}'")
        world.say(f"{how} PREPARED")
