"""What has to hold in the end, whatever the operators did: caught up, and compared in two ways."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from tests.e2e.operating.remedies import FaultError, remedy
from walhouse.errors import NotProvenError, WalhouseError
from walhouse.names import TableName

if TYPE_CHECKING:
    from collections.abc import Iterator

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
        columns = [column for column in table.columns if not _is_left_out(world, table, column.name)]
        names = [column.name for column in columns]
        source = ", ".join(f"""CASE WHEN num_nulls("{n}") = 0 THEN format('%s', "{n}") END""" for n in names)
        there = Counter(world.ask(f'SELECT {source} FROM "{table.name}"'))
        masks = world.settings["column_mask_with_6_chars"]
        masked = [masks is not None and re.fullmatch(masks, f"public.{table.name}.{n}") is not None for n in names]
        there = Counter(tuple(_seen(row, masked)) for row in there.elements())
        gold = world.spark.table(str(world.lake.gold(TableName("public", table.name))))
        rows = gold.selectExpr(*(f"CAST(`{name}` AS STRING)" for name in names)).collect()
        here = Counter(tuple(row) for row in rows)
        if here != there:
            raise FaultError(f"the witness: {table.name} {names}: gold {here - there}, source {there - here}")


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


def silver_tells(world: World) -> None:
    """No event twice; events folded in their order give gold's keys, where nothing happened that silver is not told."""
    for table in captured(world):
        name = TableName("public", table.name)
        silver = world.spark.table(str(world.lake.silver(name)))
        rows = silver.selectExpr(
            "commit_lsn", "seq", "op", "to_json(key) AS key", "to_json(after) AS after", "unavailable"
        ).collect()
        if twice := [k for k, n in Counter((r["commit_lsn"], r["seq"], r["op"]) for r in rows).items() if n > 1]:
            raise FaultError(f"events of {table.name} twice: {twice[:5]}")
        if table.name in world.untold or not any(column.is_key for column in table.columns):
            continue
        state: dict[str, str] = {}
        order = sorted(rows, key=lambda row: (row["commit_lsn"], row["seq"], row["op"] != "d"))
        for row in order:
            if row["op"] == "t":
                state.clear()
            elif row["op"] == "d":
                state.pop(row["key"], None)
            elif row["key"] is not None:
                _not_older(table, state, row)
                state[row["key"]] = str(row["after"])
        keys = [column.name for column in table.columns if column.is_key]
        texts = ", ".join(f'"{key}"::text' for key in keys)
        source = set(world.ask(f'SELECT {texts} FROM "{table.name}"'))
        events = {tuple(str(value) for value in json.loads(key).values()) for key in state}
        if len(source) != len(events) or ("m" not in keys and source != events):
            raise FaultError(f"silver of {table.name} folds to {events}, the source has {source}")


def _not_older(table: Table, state: dict[str, str], row: Any) -> None:
    """A row that was read stands after all that it has seen: it is as the last of them left it."""
    if row["op"] != "r" or row["unavailable"]:
        return
    if row["key"] in state and "unavailable" not in state[row["key"]] and state[row["key"]] != str(row["after"]):
        raise FaultError(f"a row that was read of {table.name} differs from what came before: {row['key']}")


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


def printed_alike(world: World) -> None:
    first, second = (Counter(re.sub(r'"[^"]*runId":"[^"]*"', "", line) for line in world.house.events()) for _ in "ab")
    if first != second:
        raise FaultError(f"events printed twice differ: {first - second}, {second - first}")


def all_is_well(world: World) -> None:
    world.house.signal("resume-snapshot", {})
    caught_up(world)
    proven(world)
    witnessed(world)
    silver_tells(world)
    goes_forward(world)
    printed_alike(world)
