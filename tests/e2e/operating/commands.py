"""What operators tell walhouse to do, and what they do to the lake and the server beside it."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Literal

import psycopg

from tests.e2e.operating import changes
from tests.e2e.operating.killing import killed_somewhere
from tests.e2e.operating.remedies import FaultError, remedy
from tests.e2e.operating.world import PUBLICATIONS, PUBLICATIONS_SINCE_18, is_since_18
from walhouse.errors import WalhouseError
from walhouse.lakehouse.tables import table_exists
from walhouse.names import TableName

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from tests.e2e.operating.world import Table, World


def attempt(world: World, what: str, work: Callable[[], object]) -> WalhouseError | None:
    """Anything but an error of walhouse's own ends the test."""
    world.say(what)
    try:
        work()
    except WalhouseError as error:
        world.say(f"    {type(error).__name__}: {error}")
        return error
    return None


def command(world: World, chance: random.Random) -> None:
    """One of those that apply; what it says is wrong is mended at once, or by whoever comes later."""
    name = chance.choices(("run", "capture", "silver", "gold"), (6, 3, 2, 2))[0]
    error = attempt(world, name, getattr(world.house, name))
    if error is not None and chance.random() < 0.5:
        remedy(world, error)


def killed(world: World, chance: random.Random) -> None:
    name = chance.choice(("run", "run", "capture", "silver", "gold", "verify", "rebuild"))
    layer, tables = _layer(chance), _applied(world, chance)

    def work() -> None:
        with killed_somewhere(chance) as where:
            if name != "rebuild":
                getattr(world.house, name)()
            elif tables:
                world.house.rebuild(layer, tables)
        world.say(f"    killed at {where}")

    attempt(world, f"{name} that is killed", work)
    world.anew()


def another_process(world: World, chance: random.Random) -> None:
    world.say("another process")
    world.anew()


def _layer(chance: random.Random) -> Literal["silver", "gold"]:
    return "silver" if chance.random() < 0.5 else "gold"


def _applied(world: World, chance: random.Random) -> list[TableName]:
    names = [TableName("public", table.name) for table in world.tables()]
    there = [name for name in names if table_exists(world.spark, world.lake, world.lake.gold(name))]
    return chance.sample(there, min(len(there), chance.choice((1, 1, 2, 9))))


def rebuild(world: World, chance: random.Random) -> None:
    layer = _layer(chance)
    if tables := _applied(world, chance):
        attempt(world, f"rebuild {layer} {[t.table for t in tables]}", lambda: world.house.rebuild(layer, tables))


def snapshot(world: World, chance: random.Random) -> None:
    """By any channel, of any kind, also such as cannot be followed."""
    names = [table.name for table in world.tables()]
    chosen = chance.sample(names, min(len(names), chance.choice((1, 1, 2, 9))))
    if chance.random() < 0.1:
        chosen.append("nowhere")
    data: dict[str, Any] = {"data-collections": [rf"public\.{re.escape(name)}" for name in chosen]}
    kind = chance.choice(("incremental", "incremental", "blocking"))
    data["type"] = kind
    if chance.random() < 0.25:
        where = chance.choice(("id < 10", "id > 5 AND v IS NOT NULL", "no such column"))
        filtered = where if kind == "incremental" else f"SELECT * FROM public.{chosen[0]} WHERE {where}"
        data["additional-conditions"] = [{"data-collection": data["data-collections"][0], "filter": filtered}]
    elif chance.random() < 0.15:
        data["surrogate-key"] = chance.choice(("v", "id", "nothing"))
    give(world, chance, "execute-snapshot", data)


def signal(world: World, chance: random.Random) -> None:
    kind = chance.choice(("pause-snapshot", "resume-snapshot", "resume-snapshot", "stop-snapshot", "log", "nonsense"))
    data: dict[str, Any] = {"message": "hello"} if kind == "log" else {}
    if chance.random() < 0.3:
        data["data-collections"] = [r"public\.a"]
    give(world, chance, kind, data)


def give(world: World, chance: random.Random, kind: str, data: dict[str, Any]) -> None:
    number = f"s{chance.getrandbits(60)}"
    world.say(f"signal {kind} {data}")
    text = json.dumps(data) if chance.random() < 0.95 else "{not json"
    channel = chance.choice(("source", "file", "lake", "lake"))
    if channel == "file":
        with (world.folder / "file-signals.txt").open("a") as file:
            file.write(json.dumps({"id": number, "type": kind, "data": data}) + "\n")
    elif channel == "source":
        world.sql("INSERT INTO signals VALUES ('{}', '{}', '{}')".format(number, kind, text.replace("'", "''")))
    else:
        attempt(world, "    to the lake", lambda: world.house.signal(kind, data, number))


def verify(world: World, chance: random.Random) -> None:
    attempt(world, "verify", lambda: world.say(f"    {[(p.table.table, p.equal) for p in world.house.verify()]}"))


def look(world: World, chance: random.Random) -> None:
    """What only reads."""
    attempt(world, "status", lambda: world.house.status().to_json())
    attempt(world, "events", lambda: len(list(world.house.events())))
    attempt(world, "check", world.house.check)
    attempt(world, "cut", world.house.cut)


def configuration(world: World, chance: random.Random) -> None:
    kind = chance.choice(("lists", "columns", "mask", "decimal", "chunks", "mode", "passes"))
    match kind:
        case "lists":
            if world.settings["table_exclude_list"] is None:
                left_out = chance.choice("acdp")
                world.configure(table_exclude_list=rf"public\.{left_out}")
                world.untold.add(left_out)
            else:
                world.configure(table_exclude_list=None)
        case "columns":
            table = chance.choice("ad")
            world.configure(
                column_exclude_list=None if world.settings["column_exclude_list"] else rf"public\.{table}\.v"
            )
            for each in "ad":
                world.leave(each, "part")
        case "mask":
            world.configure(
                column_mask_with_6_chars=None if world.settings["column_mask_with_6_chars"] else r"public\.a\.v"
            )
            world.leave("a", "part")
        case "decimal":
            world.configure(decimal_handling_mode=chance.choice(("precise", "string", "double")))
        case "chunks":
            world.configure(incremental_snapshot_chunk_size=chance.choice((1, 3, 8, 1024)))
        case "passes":
            world.configure(
                lake_snapshot_pass_pages=chance.choice((1, 100)), lake_snapshot_pass_rows=chance.choice((2, 12))
            )
        case _:
            _mode(world, chance)


def _mode(world: World, chance: random.Random) -> None:
    world.configure(snapshot_mode=chance.choice(("initial", "when_needed", "no_data", "always")))
    if world.settings["snapshot_mode"] == "no_data":
        for table in world.tables():  # what came until now, and was not captured, is not read by itself
            world.leave(table.name, "whole")


def tidy(world: World, chance: random.Random) -> None:
    """OPTIMIZE and VACUUM between two commands."""
    for name in _applied(world, chance)[:1]:
        table = chance.choice((world.lake.gold(name), world.lake.silver(name), world.lake.bronze))
        if table_exists(world.spark, world.lake, table):
            what = chance.choice((f"OPTIMIZE {table}", f"VACUUM {table}"))
            world.say(what)
            world.spark.sql(what)


def restore(world: World, chance: random.Random) -> None:
    """A table of gold or silver is set back; whoever does that has it made anew, sooner or later."""
    for name in _applied(world, chance)[:1]:
        layer = _layer(chance)
        table = getattr(world.lake, layer)(name)
        if not table_exists(world.spark, world.lake, table):
            return
        versions = [row[0] for row in world.spark.sql(f"DESCRIBE HISTORY {table}").select("version").collect()]
        version = chance.choice(sorted(versions)[-3:])
        world.say(f"RESTORE {table} TO VERSION AS OF {version}")
        world.spark.sql(f"RESTORE TABLE {table} TO VERSION AS OF {version}")
        world.set_back.add((layer, name.table))


def restart(world: World, chance: random.Random) -> None:
    mode: Literal["fast", "immediate"] = "fast" if chance.random() < 0.5 else "immediate"
    world.say(f"the server is restarted: {mode}")
    for conn in world.open:
        conn.close()
    world.open.clear()
    world.server.stop(mode)
    world.server.restart()


def slot_lost(world: World, chance: random.Random) -> None:
    found = world.ask("SELECT slot_name FROM pg_replication_slots WHERE database = current_database() AND NOT active")
    for (slot,) in found:
        try:
            world.database.execute(f"SELECT pg_drop_replication_slot('{slot}')")
        except psycopg.Error as error:
            world.say(f"refused: the slot is dropped: {error}")
        else:
            world.say("the slot is dropped")
            world.lost.add("slot")
            world.untold.update(table.name for table in world.tables())


def publication(world: World, chance: random.Random) -> None:
    """A table out of it or into it; or it is made again."""
    if world.lists_tables and chance.random() < 0.7:
        names = sorted(world.listed() - {"signals"})
        tables = [table for table in world.tables() if not table.is_leaf]
        if names and chance.random() < 0.5:
            name = chance.choice(names)
            if world.sql(f'ALTER PUBLICATION walhouse_test DROP TABLE "{name}"'):
                world.lost.add("publication")
                world.untold.update(table.name for table in world.tables())
        elif tables:
            name = chance.choice(tables).name
            world.sql(f'ALTER PUBLICATION walhouse_test ADD TABLE "{name}"')
    elif (
        world.publication is not None
        and chance.random() < 0.3
        and world.sql("DROP PUBLICATION walhouse_test", f"CREATE PUBLICATION walhouse_test {world.publication}")
    ):
        world.lost.add("publication")
        world.untold.update(table.name for table in world.tables())


def published_part(world: World, chance: random.Random) -> None:
    """Of a table the publication gets a row filter, or a list of columns, or loses what it had: it is read anew."""
    published = world.published()
    tables = [table for table in world.tables() if table.name in published]
    if not world.lists_tables or not tables:
        return
    table = chance.choice(tables)
    columns, rows = _part(table, chance)
    before = [f'ALTER PUBLICATION walhouse_test DROP TABLE "{table.name}"'] if table.name in world.listed() else []
    if world.sql(*before, f'ALTER PUBLICATION walhouse_test ADD TABLE "{table.name}"{columns}{rows}'):
        world.lost.add("publication")
        world.untold.add(table.name)
        if world.settings["snapshot_mode"] == "no_data":
            world.leave(table.name, "whole")


def published_operations(world: World, chance: random.Random) -> None:
    """For a while the publication leaves operations out, and rows change: no event tells of these, only the proof."""
    operations = ["insert", "update", "delete", "truncate"]
    some = chance.sample(operations, chance.randint(1, 3))
    if not world.sql(f"ALTER PUBLICATION walhouse_test SET (publish = '{', '.join(some)}')"):
        return
    world.lost.add("publication")
    for name in world.published():
        world.leave(name, "whole")
    for _ in range(chance.randint(0, 3)):
        changes.rows(world, chance)
    if chance.random() < 0.5:
        attempt(world, "run", world.house.run)
        changes.rows(world, chance)
    if not world.sql(f"ALTER PUBLICATION walhouse_test SET (publish = '{', '.join(operations)}')"):
        raise FaultError("the publication cannot be set back")


def _part(table: Table, chance: random.Random) -> tuple[str, str]:
    """A list of columns and a condition, of such columns as the server takes for updates and deletes, or nothing."""
    key = [column for column in table.columns if column.is_key]
    columns, condition = "", ""
    if key and chance.random() < 0.4:
        others = [column for column in table.columns if not column.is_key]
        listed = [column.name for column in (*key, *chance.sample(others, chance.randint(0, len(others))))]
        columns = " ({})".format(", ".join(f'"{name}"' for name in listed))
    asked = [column for column in key or table.columns if column.type in {"integer", "bigint", "text"}]
    if asked and chance.random() < 0.5:
        column = chance.choice(asked)
        what = f'length("{column.name}") <> 2' if column.type == "text" else f'"{column.name}" % 3 <> 0'
        condition = f" WHERE ({what})"
    return columns, condition


def begin(world: World, chance: random.Random) -> None:
    """The publication, and most often a first run."""
    since = PUBLICATIONS_SINCE_18 if is_since_18(world.database) else ()
    world.publication = chance.choice((*PUBLICATIONS, *since))
    if world.publication is not None:
        world.database.execute(f"CREATE PUBLICATION walhouse_test {world.publication}")
        world.settings["publication_autocreate_mode"] = "disabled"
    world.say(f"publication {world.publication}")
    if chance.random() < 0.8:
        attempt(world, "run", world.house.run)
