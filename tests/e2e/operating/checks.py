"""What has to hold in the end, whatever the operators did: caught up, and compared in two ways."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from tests.e2e.operating import ddl
from tests.e2e.operating.folding import FoldError, bag, differences, events_of, folded, last_reading
from tests.e2e.operating.remedies import FaultError, remedy
from walhouse.errors import NotProvenError, WalhouseError
from walhouse.names import TableName

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.operating.folding import Row
    from tests.e2e.operating.world import Table, World


def caught_up(world: World) -> None:
    """As the documents tell an operator to, error by error."""
    world.say("--- catching up")
    world.end_sessions()
    for _ in range(25):
        try:
            world.say("run")
            world.house.run()
        except WalhouseError as error:
            world.say(f"    {type(error).__name__}: {error}")
            remedy(world, error)
        else:
            return
    raise FaultError("it does not come to an end")


def proven(world: World) -> None:
    """Equal, or equal once what the documents say was done about what the operators did to a table."""
    for layer, table in sorted(world.set_back):
        world.say(f"rebuild {layer} {table}")
        try:
            world.house.rebuild(layer, [TableName("public", table)])
        except WalhouseError as error:
            world.say(f"    {type(error).__name__}: {error}")
            remedy(world, error)
    if world.set_back:
        caught_up(world)
    world.set_back.clear()
    unequal = _unequal(world)
    unread = {name: world.unread[name] for name in unequal if name in world.unread}
    if set(unequal) - set(unread):
        raise FaultError(
            f"not equal, and nothing explains it: { ({n: unequal[n] for n in unequal if n not in unread}) }"
        )
    for name, how in unread.items():
        world.say(f"read {name} {how}")
        if how == "whole":
            world.house.signal(
                "execute-snapshot", {"data-collections": [rf"public\.{re.escape(name)}"], "type": "blocking"}
            )
        else:
            world.house.snapshot([TableName("public", name)])
    if not unread:
        return
    caught_up(world)
    if unequal := _unequal(world):
        raise FaultError(f"not equal after what the documents say of {unread}: {unequal}")


def _unequal(world: World) -> dict[str, Any]:
    try:
        proofs = world.house.verify()
    except NotProvenError as error:
        raise FaultError(f"{error}") from error
    except WalhouseError as error:
        world.say(f"    verify: {type(error).__name__}: {error}")
        remedy(world, error)
        caught_up(world)
        proofs = world.house.verify()
    world.say(f"verify {[(proof.table.table, proof.equal) for proof in proofs]}")
    excluded = world.settings["table_exclude_list"]
    expected = {name for name in world.published() if excluded is None or not re.fullmatch(excluded, f"public.{name}")}
    if {proof.table.table for proof in proofs} != expected:
        raise FaultError(f"verify compared {proofs}, captured is {expected}")
    return {proof.table.table: proof.comparison for proof in proofs if not proof.equal}


def witnessed(world: World) -> None:
    """Gold by Spark's texts, the source by PostgreSQL's."""
    for table in captured(world):
        names = _names(world, table)
        there = Counter(tuple(row[name] for name in names) for row in _source(world, table))
        gold = world.spark.table(str(world.lake.gold(TableName("public", table.name))))
        rows = gold.selectExpr(*(f"CAST(`{name}` AS STRING)" for name in names)).collect()
        here = Counter(tuple(row) for row in rows)
        if here != there:
            raise FaultError(f"the witness: {table.name} {names}: gold {here - there}, source {there - here}")


def _names(world: World, table: Table) -> list[str]:
    sent, _ = world.sent(table)
    return [c.name for c in table.columns if c.name in sent and not _is_left_out(world, table, c.name)]


def _source(world: World, table: Table) -> list[Row]:
    """The rows of a table as they are to be captured, each value as PostgreSQL prints it."""
    names = _names(world, table)
    source = ", ".join(f"""CASE WHEN num_nulls("{n}") = 0 THEN format('%s', "{n}") END""" for n in names)
    masks = world.settings["column_mask_with_6_chars"]
    masked = [masks is not None and re.fullmatch(masks, f"public.{table.name}.{n}") is not None for n in names]
    rows = world.ask(f'SELECT {source} FROM "{table.name}" WHERE {world.sent(table)[1]}')
    return [dict(zip(names, _seen(row, masked), strict=True)) for row in rows]


def _seen(row: tuple[Any, ...], masked: list[bool]) -> Iterator[Any]:
    for text, hidden in zip(row, masked, strict=True):
        yield "*" * 6 if hidden and text is not None else text


def captured(world: World) -> list[Table]:
    published, excluded = world.published(), world.settings["table_exclude_list"]
    return [
        table
        for table in world.tables()
        if table.name in published and not (excluded and re.fullmatch(excluded, f"public.{table.name}"))
    ]


def _is_left_out(world: World, table: Table, column: str) -> bool:
    excluded = world.settings["column_exclude_list"]
    return bool(excluded and re.fullmatch(excluded, f"public.{table.name}.{column}"))


def silver_tells(world: World, lines: list[str]) -> None:
    """No event twice; folded in order they give the source's rows, where nothing happened that silver is not told.

    Where something did, and the table was read whole since, the rows of that reading are the source's.
    """
    _no_event_twice(world)
    for table in captured(world):
        events = events_of(lines, f"test.public.{table.name}")
        rows = _source(world, table)
        has_key = any(column.is_key for column in table.columns)
        try:
            if table.name in world.retold:
                if rows:
                    _compare(f"what was read last of {table.name}", last_reading(events), rows)
            elif table.name in world.untold:
                continue
            elif has_key:
                _compare(f"the fold of {table.name}", list(folded(events).values()), rows)
            elif table.name not in world.rekeyed:
                _compare(f"the bag of {table.name}", [dict(row) for row in bag(events).elements()], rows)
        except FoldError as error:
            raise FaultError(f"events of {table.name}: {error}") from error


def _no_event_twice(world: World) -> None:
    for table in captured(world):
        silver = world.spark.table(str(world.lake.silver(TableName("public", table.name))))
        places = Counter(tuple(row) for row in silver.select("commit_lsn", "seq", "op").collect())
        if twice := [place for place, count in places.items() if count > 1]:
            raise FaultError(f"events of {table.name} twice: {twice[:5]}")


def _compare(what: str, here: list[Row], there: list[Row]) -> None:
    """As bags, each value by itself: a row of the one takes one of the other."""
    left = list(there)
    for row in here:
        same = next((each for each in left if each.keys() <= row.keys() and not differences(each, row)), None)
        if same is None:
            raise FaultError(f"{what} has {row}, which is none of {left}")
        left.remove(same)
    if left:
        raise FaultError(f"{what} lacks {left}")


def retell(world: World) -> None:
    """Tables of which silver was not told all are read once more, whole, so that it tells of all of their rows."""
    world.retold = {table.name for table in captured(world)} & world.untold
    if world.retold:
        world.say(f"read whole, for silver: {sorted(world.retold)}")
        names = [rf"public\.{re.escape(name)}" for name in sorted(world.retold)]
        world.house.signal("execute-snapshot", {"data-collections": names, "type": "blocking"})
        caught_up(world)


def goes_forward(world: World) -> None:
    rows = world.spark.sql(
        f"SELECT pass, captured_to FROM {world.lake.bronze} WHERE kind = 'progress' ORDER BY pass"
    ).collect()
    reached = [row["captured_to"] for row in rows]
    if reached != sorted(reached):
        raise FaultError(f"bronze went back: {reached}")
    [(confirmed,)] = world.ask(
        "SELECT confirmed_flush_lsn - '0/0'::pg_lsn FROM pg_replication_slots WHERE database = current_database()"
    )
    if confirmed > reached[-1]:
        raise FaultError(f"the slot {confirmed} is ahead of bronze {reached[-1]}")


def printed_alike(world: World) -> list[str]:
    """The lines of all events, with schemas; the same ones each time."""
    prints = [list(world.house.events(schemas=True, keep_nulls=True)) for _ in "ab"]
    first, second = (Counter(re.sub(r'"[^"]*runId":"[^"]*"', "", line) for line in lines) for lines in prints)
    if first != second:
        raise FaultError(f"events printed twice differ: {first - second}, {second - first}")
    return prints[0]


def all_is_well(world: World, *, retells: bool) -> None:
    """Whether it costs a further reading to look at tables of which silver was not told all, too."""
    world.end_sessions()
    ddl.back_again(world)
    world.house.signal("resume-snapshot", {})
    caught_up(world)
    proven(world)
    if retells:
        retell(world)
    witnessed(world)
    silver_tells(world, printed_alike(world))
    goes_forward(world)
