"""What the documents tell an operator to do about each error (OPERATIONS, section 5), done to the letter.

An error that nothing explains which the operators did is a fault, and so is one whose remedy does not help.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from walhouse import errors
from walhouse.names import TableName

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.e2e.operating.world import World


class FaultError(AssertionError):
    """What should not be."""


def remedy(world: World, error: errors.WalhouseError) -> None:
    """Raises FaultError if there is no remedy, or nothing that explains the error."""
    world.say(f"    remedy of {type(error).__name__}")
    for kind, cure in CURES.items():
        if type(error) is kind:
            cure(world, error)
            return
    raise FaultError(f"no remedy of {type(error).__name__}: {error}") from error


def _table(error: errors.WalhouseError) -> TableName:
    return TableName.parse(str(error.fields["table"]))


def _expect(known: bool, error: errors.WalhouseError) -> None:
    if not known:
        raise FaultError(f"nothing explains {type(error).__name__}: {error}") from error


def _again(world: World, error: errors.WalhouseError) -> None:
    world.anew()


def _let_end(world: World, error: errors.WalhouseError) -> None:
    _expect(bool(world.open or world.ask("SELECT gid FROM pg_prepared_xacts")), error)
    world.end_sessions()


def _read_anew(world: World, error: errors.WalhouseError) -> None:
    _expect(bool(world.lost), error)
    mode = world.settings["snapshot_mode"]
    world.configure(snapshot_mode="when_needed")
    try:
        guarded(world, "run", world.house.run, error)
    finally:
        world.configure(snapshot_mode=mode)


def _publication(world: World, error: errors.WalhouseError) -> None:
    """A table that is lacking is added; else all is read anew."""
    lacking = [table.name for table in world.tables() if table.name not in world.published() and not table.is_leaf]
    if world.lists_tables and lacking:
        for name in lacking:
            world.sql(f'ALTER PUBLICATION walhouse_test ADD TABLE "{name}"')
    else:
        _read_anew(world, error)


def _identity(world: World, error: errors.WalhouseError) -> None:
    world.sql(f"ALTER TABLE {_table(error).quoted} REPLICA IDENTITY FULL")


def _retyped(world: World, error: errors.WalhouseError) -> None:
    if _layer(error) == "gold":
        _expect(_table(error).table in world.retyped, error)
    _rebuilt(world, error)


def _restored(world: World, error: errors.WalhouseError) -> None:
    _expect((_layer(error), _table(error).table) in world.set_back, error)
    _rebuilt(world, error)


def _layer(error: errors.WalhouseError) -> Literal["silver", "gold"]:
    return "gold" if "gold" in str(error.todo_text) else "silver"


def _rebuilt(world: World, error: errors.WalhouseError) -> None:
    layer, table = _layer(error), _table(error)
    guarded(world, f"rebuild {layer} {table}", lambda: world.house.rebuild(layer, [table]), error)


def _rekeyed(world: World, error: errors.WalhouseError) -> None:
    """If it has no key any more, it is first read again."""
    table = _table(error)
    _expect(table.table in world.rekeyed, error)
    if "read whole" in error.todo_text:
        _whole(world, table, error)
        return
    if not error.fields.get("expected") or not _has_key(world, table):
        world.house.snapshot([table])
        guarded(world, "capture", world.house.capture, error)
    guarded(world, f"rebuild gold {table}", lambda: world.house.rebuild("gold", [table]), error)


def _has_key(world: World, table: TableName) -> bool:
    return any(column.is_key for each in world.tables() if each.name == table.table for column in each.columns)


def _bag(world: World, error: errors.WalhouseError) -> None:
    """Made anew; if that ends the same, read again first."""
    table = _table(error)
    _expect(table.table in world.unread or ("gold", table.table) in world.set_back, error)
    try:
        world.say(f"    rebuild gold {table}")
        world.house.rebuild("gold", [table])
    except errors.BagMismatchError:
        world.say(f"    snapshot, capture, rebuild gold {table}")
        world.house.snapshot([table])
        guarded(world, "capture", world.house.capture, error)
        guarded(world, "rebuild", lambda: world.house.rebuild("gold", [table]), error)


def _mode(world: World, error: errors.WalhouseError) -> None:
    world.configure(snapshot_mode="initial")


def _whole(world: World, table: TableName, error: errors.WalhouseError) -> None:
    data = {"data-collections": [re.escape(str(table))], "type": "blocking"}
    world.house.signal("execute-snapshot", data)
    guarded(world, "capture", world.house.capture, error)
    guarded(world, "rebuild", lambda: world.house.rebuild("gold", [table]), error)


def guarded(world: World, what: str, work: Callable[[], object], cause: errors.WalhouseError) -> None:
    """A step of a remedy: another error than the one to be cured has a remedy of its own, later."""
    world.say(f"    {what}")
    try:
        work()
    except errors.WalhouseError as error:
        world.say(f"        {type(error).__name__}: {error}")
        if type(error) is type(cause) and error.fields == cause.fields:
            raise FaultError(f"the remedy does not help: {error}") from error


CURES: dict[type[errors.WalhouseError], Callable[[World, errors.WalhouseError], None]] = {
    errors.SourceUnreachableError: _again,
    errors.SlotInUseError: _again,
    errors.SnapshotLostError: _again,
    errors.LockTimeoutError: _let_end,
    errors.SlotMissingError: _read_anew,
    errors.SlotInvalidatedError: _read_anew,
    errors.SlotGapError: _read_anew,
    errors.PublicationMissingError: _read_anew,
    errors.PublicationChangedError: _publication,
    errors.PublicationTableError: _publication,
    errors.ReplicaIdentityError: _identity,
    errors.TypeConflictError: _retyped,
    errors.GoldKeyError: _rekeyed,
    errors.BagMismatchError: _bag,
    errors.LakeError: _restored,
    errors.SnapshotUnfinishedError: _mode,
}
