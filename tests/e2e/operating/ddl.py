"""What is done to the tables themselves, and what the documents say of each (OPERATIONS, schema changes)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.e2e.operating.changes import any_table, value

if TYPE_CHECKING:
    import random

    from tests.e2e.operating.world import Column, Table, World


def _relatives(world: World, table: Table) -> list[str]:
    """A partitioned table's DDL is that of its leaves; what is published of the tree is one or the other."""
    if not (table.is_parted or table.is_leaf):
        return [table.name]
    return [each.name for each in world.tables() if each.is_parted or each.is_leaf]


def _plain(table: Table) -> list[Column]:
    return [column for column in table.columns if not column.is_key]


def _name(table: Table | None) -> str:
    return "" if table is None else f'"{table.name}"'


def add_column(world: World, chance: random.Random) -> None:
    table = any_table(world, chance)
    if table is None or table.is_leaf or len(table.columns) > 6:
        return
    kind = chance.choice(("int", "text", "numeric(8,1)", "bigint"))
    default = chance.random() < 0.3
    column = f"x{chance.randint(1, 4)}"
    relatives = _relatives(world, table)
    again = any(column == each.name for each in table.columns)
    done = world.sql(
        f"ALTER TABLE {_name(table)} ADD COLUMN {column} {kind}"
        + (f" DEFAULT {'7' if kind != 'text' else repr('seven')}" if default else "")
    )
    if done and not again:
        for each in relatives:  # without a default, too: a column of that name may have been there before
            world.leave(each, "part")
            world.retyped.add(each)


def drop_column(world: World, chance: random.Random) -> None:
    table = any_table(world, chance)
    if table is None or table.is_leaf or len(_plain(table)) < 2:
        return
    column = chance.choice(_plain(table))
    if world.sql(f'ALTER TABLE {_name(table)} DROP COLUMN "{column.name}"'):
        world.untold.update(_relatives(world, table))


def rename_column(world: World, chance: random.Random) -> None:
    table = any_table(world, chance)
    if table is None or table.is_leaf or not _plain(table):
        return
    column = chance.choice(_plain(table))
    if world.sql(f'ALTER TABLE {_name(table)} RENAME COLUMN "{column.name}" TO r{chance.randint(1, 3)}'):
        for each in _relatives(world, table):
            world.leave(each, "part")
            world.retyped.add(each)


def retype_column(world: World, chance: random.Random) -> None:
    table = any_table(world, chance)
    if table is None or table.is_leaf:
        return
    columns = [column for column in table.columns if not column.labels and not (table.is_parted and column.is_key)]
    if not columns:
        return
    column = chance.choice(columns)
    if column.type == "integer":
        kind = chance.choice(("bigint", "numeric(12,2)", "text"))
    elif column.type == "bigint":
        kind = chance.choice(("numeric(12,2)", "text"))
    elif column.type.startswith("numeric"):
        kind = chance.choice(("numeric(14,3)", "numeric(15,2)", "text"))
    else:
        kind = "varchar(9000)" if column.type == "text" else "text"
    using = f' USING upper("{column.name}"::text)::{kind}' if column.type == "text" and not column.is_key else ""
    if world.sql(f'ALTER TABLE {_name(table)} ALTER "{column.name}" TYPE {kind}{using}'):
        for each in _relatives(world, table):
            world.leave(each, "whole" if column.is_key else "part")
            world.retyped.add(each)
            world.rekeyed.add(each)


def rename_label(world: World, chance: random.Random) -> None:
    """Of the enum that is in a key: a whole reading, where it is of the key."""
    labels = world.ask("SELECT enumlabel FROM pg_enum WHERE enumtypid = 'mood'::regtype ORDER BY 1")
    (label,) = chance.choice(labels)
    if chance.random() < 0.4:
        world.sql(f"ALTER TYPE mood ADD VALUE 'l{chance.randint(1, 99)}'")
    elif world.sql(f"ALTER TYPE mood RENAME VALUE '{label}' TO 'l{chance.randint(1, 99)}'"):
        for table in world.tables():
            if any(column.labels for column in table.columns):
                world.leave(table.name, "whole")


def new_table(world: World, chance: random.Random) -> None:
    """Under a name that may have been another table's."""
    name = f"t{chance.randint(1, 3)}"
    if chance.random() < 0.5:
        columns, identity = "id int PRIMARY KEY, v text", "DEFAULT"
    else:
        columns, identity = "id int, v text", "FULL"
    if world.sql(
        f"CREATE TABLE {name} ({columns})",
        f"ALTER TABLE {name} REPLICA IDENTITY {identity}",
        f"INSERT INTO {name} SELECT n, 'new' FROM generate_series(1, {chance.randint(0, 9)}) n",
    ):
        came(world, name)


def came(world: World, *names: str) -> None:
    """Another table has the name. What the lake had under it may be of other columns."""
    world.untold.update(names)
    world.rekeyed.update(names)
    world.retyped.update(names)
    if world.settings["snapshot_mode"] == "no_data":  # nothing is read by itself
        for name in names:
            world.leave(name, "whole")


def drop_table(world: World, chance: random.Random) -> None:
    table = any_table(world, chance)
    if table is None or table.is_parted or len(world.tables()) < 4:
        return
    if world.sql(f"DROP TABLE {_name(table)}"):
        came(world, table.name)
        if table.is_leaf:
            world.leave("p", "whole")


def made_again(world: World, chance: random.Random) -> None:
    table = any_table(world, chance)
    if table is None or table.is_parted or table.is_leaf:
        return
    columns = ", ".join(f'"{column.name}" {column.type}' for column in table.columns)
    key = ", ".join(f'"{column.name}"' for column in table.columns if column.is_key)
    statements = [
        f"DROP TABLE {_name(table)}",
        f"CREATE TABLE {_name(table)} ({columns}{f', PRIMARY KEY ({key})' if key else ''})",
    ]
    if not key:
        statements.append(f"ALTER TABLE {_name(table)} REPLICA IDENTITY FULL")
    insert = ", ".join(value(column, chance) for column in table.columns)
    if world.sql(*statements, f"INSERT INTO {_name(table)} VALUES ({insert})"):
        came(world, table.name)


def rename_table(world: World, chance: random.Random) -> None:
    table = any_table(world, chance)
    if table is None or table.is_parted or table.is_leaf:
        return
    to = f"t{chance.randint(1, 3)}" if chance.random() < 0.5 else chance.choice("acd")
    if world.sql(f"ALTER TABLE {_name(table)} RENAME TO {to}"):
        came(world, table.name, to)


def swap_tables(world: World, chance: random.Random) -> None:
    tables = [table for table in world.tables() if not (table.is_parted or table.is_leaf)]
    if len(tables) < 2:
        return
    one, other = chance.sample(tables, 2)
    if world.sql(
        f"ALTER TABLE {_name(one)} RENAME TO between",
        f"ALTER TABLE {_name(other)} RENAME TO {_name(one)}",
        f"ALTER TABLE between RENAME TO {_name(other)}",
    ):
        came(world, one.name, other.name)


def move_table(world: World, chance: random.Random) -> None:
    """Into another schema, or one that is there back again."""
    if world.ask("SELECT FROM pg_class WHERE relnamespace = 'elsewhere'::regnamespace AND relkind = 'r'"):
        back_again(world)
        return
    table = any_table(world, chance)
    if table is None or table.is_parted or table.is_leaf or any(column.labels for column in table.columns):
        return
    if world.sql(f"ALTER TABLE {_name(table)} SET SCHEMA elsewhere"):
        came(world, table.name)


def back_again(world: World) -> None:
    """What is in the other schema, as another table of its name if there is one by now; or it is gone."""
    for (name,) in world.ask(
        "SELECT relname FROM pg_class WHERE relnamespace = 'elsewhere'::regnamespace AND relkind = 'r'"
    ):
        away, to = f'elsewhere."{name}"', f"{name}_back"
        if world.sql(f"ALTER TABLE {away} SET SCHEMA public"):
            came(world, name)
        elif world.sql(f'ALTER TABLE {away} RENAME TO "{to}"', f'ALTER TABLE elsewhere."{to}" SET SCHEMA public'):
            came(world, to)
        else:  # an index's name is taken, too
            world.sql(f"DROP TABLE {away} CASCADE")


def without_columns(world: World, chance: random.Random) -> None:
    """A table that has none, its rows, and that it is gone."""
    rows = "INSERT INTO z SELECT FROM generate_series(1, 3)"
    if not world.ask("SELECT to_regclass('public.z')")[0][0]:
        if world.sql("CREATE TABLE z ()", "ALTER TABLE z REPLICA IDENTITY FULL", rows):
            came(world, "z")
        return
    deleted = "DELETE FROM z WHERE ctid IN (SELECT ctid FROM z LIMIT 1)"
    what = chance.choice((rows, rows, deleted, "TRUNCATE z", "DROP TABLE z"))
    if world.sql(what) and what.startswith("DROP"):
        came(world, "z")


def identity(world: World, chance: random.Random) -> None:
    table = any_table(world, chance)
    if table is None or table.is_leaf or table.is_parted:
        return
    to = chance.choice(("FULL", "DEFAULT")) if any(column.is_key for column in table.columns) else "FULL"
    statements = []
    if chance.random() < 0.3:
        column, index = chance.choice(table.columns).name, f"i{chance.getrandbits(30)}"
        statements = [
            f'ALTER TABLE {_name(table)} ALTER "{column}" SET NOT NULL',
            f'CREATE UNIQUE INDEX {index} ON {_name(table)} ("{column}")',
        ]
        to = f"USING INDEX {index}"
    if world.sql(*statements, f"ALTER TABLE {_name(table)} REPLICA IDENTITY {to}"):
        world.rekeyed.add(table.name)


def primary_key(world: World, chance: random.Random) -> None:
    """Over other columns; or there is none any more, and the identity is FULL."""
    table = any_table(world, chance)
    if table is None or table.is_leaf or table.is_parted:
        return
    [found] = world.ask(
        f"SELECT (SELECT conname FROM pg_constraint WHERE conrelid = '{_name(table)}'::regclass AND contype = 'p')"
    )
    drop = [f'ALTER TABLE {_name(table)} DROP CONSTRAINT "{found[0]}"'] if found[0] else []
    columns = [column.name for column in table.columns]
    chosen = chance.sample(columns, min(len(columns), chance.randint(0, 2)))
    add = [f"ALTER TABLE {_name(table)} ADD PRIMARY KEY ({', '.join(chosen)})"] if chosen else []
    if world.sql(*drop, *add, f"ALTER TABLE {_name(table)} REPLICA IDENTITY {'DEFAULT' if chosen else 'FULL'}"):
        world.rekeyed.add(table.name)
        world.untold.add(table.name)


def foreign_key(world: World, chance: random.Random) -> None:
    """Changes of one table that the server makes in another; or no more."""
    if world.ask("SELECT FROM pg_constraint WHERE conname = 'follows'"):
        world.sql("ALTER TABLE f DROP CONSTRAINT follows")
    else:
        how = chance.choice(("CASCADE", "SET NULL"))
        to = f"REFERENCES d ON DELETE {how} ON UPDATE CASCADE NOT VALID"
        world.sql(f"ALTER TABLE f ADD CONSTRAINT follows FOREIGN KEY (d_id) {to}")


def partition(world: World, chance: random.Random) -> None:
    """One is detached, or attached with what rows it has."""
    tables = {table.name: table for table in world.tables()}
    if "p" not in tables:
        return
    name, bounds = chance.choice((("p1", "(MINVALUE) TO (15)"), ("p2", "(15) TO (MAXVALUE)")))
    if name in tables and tables[name].is_leaf:
        done = world.sql(f"ALTER TABLE p DETACH PARTITION {name}")
    elif name in tables:
        done = world.sql(f"ALTER TABLE p ATTACH PARTITION {name} FOR VALUES FROM {bounds}")
    else:
        done = world.sql(f"CREATE TABLE {name} PARTITION OF p FOR VALUES FROM {bounds}")
    if done:
        world.leave("p", "whole")
        came(world, name, "p")


def unlogged(world: World, chance: random.Random) -> None:
    """Made unlogged for a while, or logged again: told by itself at the next run in between."""
    found = world.ask("SELECT relname FROM pg_class WHERE relkind = 'r' AND relpersistence = 'u'")
    if found:
        if world.sql(f'ALTER TABLE "{found[0][0]}" SET LOGGED'):
            came(world, found[0][0])
    elif (
        world.publication
        and (table := any_table(world, chance))
        and not table.is_parted
        and world.sql(f"ALTER TABLE {_name(table)} SET UNLOGGED")
    ):
        came(world, table.name)
        world.leave("p" if table.is_leaf else table.name, "whole")


def rewrite(world: World, chance: random.Random) -> None:
    """VACUUM FULL: other files, the same rows."""
    table = any_table(world, chance)
    if table is None:
        return
    with world.database.connect() as conn:
        conn.execute("SET lock_timeout = '300ms'")
        try:
            conn.execute(f"VACUUM FULL {_name(table)}".encode())
            world.say(f"VACUUM FULL {table.name}")
        except Exception as error:  # noqa: BLE001
            world.say(f"refused: VACUUM FULL: {error}")
