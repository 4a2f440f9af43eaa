"""What signals ask for, and what is answered.

Invariant: a signal that cannot be followed, whatever is wrong with it, changes nothing, is answered by a notification
that says why, and never stops capture.
Source: Debezium 3.6, "Signaling": types and the fields of their data; table names are patterns that match a whole name.
"""

from __future__ import annotations

import json
import logging
import re
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, field_validator

from walhouse.bronze.requests.notifications import INCREMENTAL, INITIAL, SIGNAL, Event, Notification
from walhouse.bronze.snapshots.queue import QueuedTable
from walhouse.bronze.snapshots.reading import WholeKind, WholeReading, WholeTable
from walhouse.config.filters import any_matches
from walhouse.config.java_regex import require_pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from walhouse.bronze.snapshots.queue import SnapshotQueue
    from walhouse.names import TableName

log = logging.getLogger("walhouse.signals")


@dataclass(frozen=True, slots=True)
class Signal:
    """One signal, as its three fields are. ``data``: JSON."""

    id: str
    type: str
    data: str | None = None


def snapshot_data(tables: Iterable[TableName], where: str | None = None) -> dict[str, object]:
    """The data of a signal that asks for just these tables."""
    names = [re.escape(str(table)) for table in tables]
    conditions = [] if where is None else [{"data-collection": name, "filter": where} for name in names]
    return {"data-collections": names, "type": "incremental", "additional-conditions": conditions}


class Answer(NamedTuple):
    """The queue after a signal, and what to tell."""

    queue: SnapshotQueue
    notifications: tuple[Notification, ...]


class SnapshotKind(StrEnum):
    """How tables are read on request."""

    INCREMENTAL = "incremental"
    BLOCKING = "blocking"


def _as_sql(text: str) -> str:
    """Text that a statement can hold."""
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise ValueError("a character that PostgreSQL's texts cannot hold")
    return text


class _Data(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, alias_generator=lambda name: name.replace("_", "-"))


class _Condition(_Data):
    data_collection: Annotated[str, AfterValidator(require_pattern)]
    filter: Annotated[str, Field(min_length=1), AfterValidator(_as_sql)]


class _Snapshot(_Data):
    """The data of execute-, stop-, pause- and resume-snapshot."""

    data_collections: tuple[Annotated[str, AfterValidator(require_pattern)], ...] = ()
    type: SnapshotKind = SnapshotKind.INCREMENTAL
    additional_conditions: tuple[_Condition, ...] = ()
    surrogate_key: Annotated[str, AfterValidator(_as_sql)] | None = None

    @field_validator("type", mode="before")
    @classmethod
    def _any_case(cls, kind: object) -> object:
        return kind.lower() if isinstance(kind, str) else kind


class _RefusedError(Exception):
    """Why a signal is not followed; the text is for people and holds no row's value."""


def follow(signal: Signal, queue: SnapshotQueue, captured: Sequence[TableName]) -> Answer:
    """What the signal does. ``captured``: the tables that may be read."""
    try:
        return _ACTIONS.get(signal.type, _refuse)(signal, queue, captured)
    except _RefusedError as why:
        facts = {"signal_type": signal.type, "reason": str(why)}
        return Answer(queue, (Notification(signal.id, Event.REFUSED, SIGNAL, facts),))


def _execute(signal: Signal, queue: SnapshotQueue, captured: Sequence[TableName]) -> Answer:
    wanted = _snapshot(signal)
    if not wanted.data_collections:
        raise _RefusedError("data-collections names no table")
    tables = _matching(wanted.data_collections, captured)
    if not tables:
        raise _RefusedError(f"data-collections matches no captured table: {', '.join(wanted.data_collections)}")
    conditions = wanted.additional_conditions
    for each in conditions:
        if not _matching([each.data_collection], tables):
            raise _RefusedError(f"additional-conditions: {each.data_collection} is none of the tables asked for")
    if wanted.type is SnapshotKind.BLOCKING:
        statements = {table: _condition_of(table, conditions) for table in tables}
        whole = (WholeTable(table, select, replaces=select is None) for table, select in statements.items())
        reading = WholeReading(signal.id, WholeKind.BLOCKING, tuple(whole))
        if any(each.tables == reading.tables for each in queue.whole):
            raise _RefusedError(_ALREADY)
        started = _started(signal, wanted, tables, captured, INITIAL)
        return Answer(replace(queue, whole=(*queue.whole, reading)), (started,))
    asked = [
        QueuedTable(
            signal.id,
            table,
            condition=_condition_of(table, conditions),
            key=None if wanted.surrogate_key is None else (wanted.surrogate_key,),
        )
        for table in tables
    ]
    longer = queue.add(asked)
    added = longer.tables[len(queue.tables) :]
    if not added:
        raise _RefusedError(_ALREADY)
    return Answer(longer, (_started(signal, wanted, [each.table for each in added], captured, INCREMENTAL),))


def _started(
    signal: Signal, wanted: _Snapshot, tables: Iterable[TableName], captured: Sequence[TableName], of: str
) -> Notification:
    """Names of which no table is captured are passed over, as Debezium does, but told of."""
    note = _note(signal, Event.STARTED, tables, of)
    unknown = [pattern for pattern in wanted.data_collections if not _matching([pattern], captured)]
    return replace(note, data={**note.data, "not_captured": ",".join(unknown)}) if unknown else note


_ALREADY: Final = "these tables are being read already, under the same condition"


def _stop(signal: Signal, queue: SnapshotQueue, captured: Sequence[TableName]) -> Answer:
    del captured
    wanted = _snapshot(signal)
    queued = list(dict.fromkeys(each.table for each in queue.tables))
    asked_for = list(dict.fromkeys(each.table for each in queue.tables if not each.own))
    gone = _matching(wanted.data_collections, queued) if wanted.data_collections else asked_for
    if not gone:
        raise _RefusedError("no such table is being read, or waits to be")
    left = queue.without(gone, own=bool(wanted.data_collections))
    requests = dict.fromkeys(each.request for each in queue.tables if left.has_none_of(each.request))
    ended = (_note(replace(signal, id=request), Event.ABORTED, gone) for request in requests if request != signal.id)
    # with nothing left to go on with, a pause would stop the next one
    left = replace(left, paused=left.paused and bool(left.tables))
    return Answer(left, (_note(signal, Event.ABORTED, gone), *ended))


def _pause(signal: Signal, queue: SnapshotQueue, captured: Sequence[TableName]) -> Answer:
    del captured
    _snapshot(signal)
    if queue.paused or not queue.tables:
        raise _RefusedError("the snapshots are paused already" if queue.paused else "there is nothing to pause")
    return Answer(replace(queue, paused=True), (_note(signal, Event.PAUSED, [each.table for each in queue.tables]),))


def _resume(signal: Signal, queue: SnapshotQueue, captured: Sequence[TableName]) -> Answer:
    del captured
    _snapshot(signal)
    if not queue.paused:
        raise _RefusedError("the snapshots are not paused")
    return Answer(replace(queue, paused=False), (_note(signal, Event.RESUMED, [each.table for each in queue.tables]),))


def _log(signal: Signal, queue: SnapshotQueue, captured: Sequence[TableName]) -> Answer:
    del captured
    message = _object(signal).get("message")
    if not isinstance(message, str):
        raise _RefusedError("the data has no message")
    log.info("%s", message)
    return Answer(queue, ())


def _ignore(signal: Signal, queue: SnapshotQueue, captured: Sequence[TableName]) -> Answer:
    """Another reader's watermark."""
    del signal, captured
    return Answer(queue, ())


def _refuse(signal: Signal, queue: SnapshotQueue, captured: Sequence[TableName]) -> Answer:
    del queue, captured
    raise _RefusedError(_WHY_NOT.get(signal.type, f"there is no signal of the type {signal.type!r}"))


_ACTIONS: Final[Mapping[str, Callable[[Signal, SnapshotQueue, Sequence[TableName]], Answer]]] = {
    "execute-snapshot": _execute,
    "stop-snapshot": _stop,
    "pause-snapshot": _pause,
    "resume-snapshot": _resume,
    "log": _log,
    "snapshot-window-open": _ignore,
    "snapshot-window-close": _ignore,
}

_WHY_NOT: Final = {
    "schema-changes": "tables describe themselves: their descriptions come from the stream and the catalog",
}


def _snapshot(signal: Signal) -> _Snapshot:
    try:
        return _Snapshot.model_validate(_object(signal))
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, wrong["loc"]))
        raise _RefusedError(f"{place}: {wrong['msg']}") from None


def _object(signal: Signal) -> dict[str, object]:
    """The data, be it an object or a text that holds one."""
    try:
        data = json.loads(signal.data or "{}")
        if isinstance(data, str):
            data = json.loads(data)
    except json.JSONDecodeError as error:
        raise _RefusedError(f"the data is no JSON (line {error.lineno}, column {error.colno})") from None
    except RecursionError:
        raise _RefusedError("the data is nested too deeply") from None
    except ValueError:  # Python reads no integer of thousands of digits
        raise _RefusedError("the data has a number that is too long") from None
    if not isinstance(data, dict):
        raise _RefusedError("the data is no JSON object")
    return data


def _matching(patterns: Sequence[str], tables: Sequence[TableName]) -> list[TableName]:
    """In the order of the patterns, then of their names; each once."""
    found: dict[TableName, None] = {}
    for pattern in patterns:
        found.update(
            (table, None) for table in sorted(tables) if any_matches((pattern,), str(table), case_sensitive=False)
        )
    return list(found)


def _condition_of(table: TableName, conditions: Sequence[_Condition]) -> str | None:
    """The first that is for the table, as Debezium has it."""
    return next((each.filter for each in conditions if _matching([each.data_collection], [table])), None)


def _note(signal: Signal, event: Event, tables: Iterable[TableName], of: str = INCREMENTAL) -> Notification:
    return Notification(signal.id, event, of, {"data_collections": ",".join(map(str, dict.fromkeys(tables)))})
