"""What becomes of a reading of whole tables, and what is told of it.

Invariant: a table that a signal asked for and that cannot be read is answered, and the others are read; an initial
snapshot can do without none. A request is told to be complete after its last table, however that was read.
Source: Debezium 3.6, "Notifications": those of an initial snapshot; a blocking one has the same.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from walhouse.bronze.requests.notifications import INITIAL, Event, Notification, RowsOf, ScanStatus
from walhouse.bronze.snapshots.faults import OF_THE_SERVER
from walhouse.bronze.snapshots.reading import WholeKind, WholeReading, WholeTable
from walhouse.errors import LockTimeoutError, NoFreeSlotError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from walhouse.bronze.progress import Progress
    from walhouse.bronze.snapshots.pieces import Piece
    from walhouse.errors import SourceError
    from walhouse.names import TableName

GONE: Final = "the table is not captured, or not there any more"

log = logging.getLogger("walhouse.capture")

_PUTS_OFF: Final = (LockTimeoutError, NoFreeSlotError)
"""What a reading that nobody asked for can wait for while all others go on."""

_LISTED: Final = 20
"""How many tables a notification names as those that are not done; a thousand would be named a thousand times."""


def after_failure(progress: Progress, error: SourceError) -> Progress:
    """What goes on after the reading at work failed: if a transaction, or the want of a slot, keeps one of our own
    waiting that has not begun, everything else does; else the reading, without the table that the error is about.
    Raises it if that cannot be."""
    reading = progress.queue.whole[0]
    if reading.own and isinstance(error, _PUTS_OFF) and not progress.is_reading:
        return _put_off(progress, error)
    require_passable(reading, error)
    table = next(each for each in reading.tables if str(each.table) == error.fields["table"])
    reading, note = passed_over(reading, table.table, ScanStatus.SQL_EXCEPTION, error.problem)
    is_last = not reading.tables and progress.queue.has_none_of(reading.request)
    done = (note_of(reading, Event.COMPLETED),) if is_last else ()
    return replace(progress, queue=progress.queue.with_reading(reading)).lacking(table.owed).telling(note, *done)


def _put_off(progress: Progress, error: SourceError) -> Progress:
    """Without the reading at work; the next command begins it again."""
    reading = progress.queue.whole[0]
    log.warning("Not read yet: %s. %s", ", ".join(str(each.table) for each in reading.tables[:_LISTED]), error.problem)
    put_off = replace(progress, queue=replace(progress.queue, whole=progress.queue.whole[1:]))
    for table in reading.tables:
        put_off = put_off.lacking(table.owed)
    return put_off.telling(note_of(reading, Event.ABORTED, reason=error.problem))


def require_passable(reading: WholeReading, error: SourceError) -> None:
    """Raise the error again, unless it is one table's fault and only a signal asked for that table."""
    tables = {str(table.table) for table in reading.tables}
    if reading.kind is WholeKind.INITIAL or isinstance(error, OF_THE_SERVER) or error.fields.get("table") not in tables:
        raise error


def passed_over(
    reading: WholeReading, table: TableName, status: ScanStatus, reason: str
) -> tuple[WholeReading, Notification]:
    """The reading without a table that is not read, and the notification that says why."""
    reading = reading.without(table)
    facts = {"status": status.value, "total_rows_scanned": "0", "reason": reason}
    return reading, note_of(reading, Event.TABLE_SCAN_COMPLETED, table, **facts)


def after_pieces(reading: WholeReading, pieces: Sequence[Piece]) -> tuple[WholeReading, list[Notification]]:
    """The reading after these pieces, and what to tell of them."""
    before = {table.table: table for table in reading.tables}
    after: dict[TableName, WholeTable | None] = {}
    told: list[Notification] = []
    for piece in pieces:
        name = piece.relation.name
        if name not in after and not before[name].has_begun:
            told.append(note_of(reading, Event.IN_PROGRESS, name))
        if piece.after is not None:
            after[name] = before[name] = piece.after
            continue
        begun = before[name].first_chunk
        rows = RowsOf(reading.id, *name, piece.number if begun is None else begun)
        note = note_of(reading, Event.TABLE_SCAN_COMPLETED, name, status=ScanStatus.SUCCEEDED.value)
        told.append(replace(note, rows_of=rows))
        after[name] = None
    tables = (after.get(table.table, table) for table in reading.tables)
    done = sum(table.pages for table in reading.tables if after.get(table.table, table) is None)
    left = replace(
        reading,
        tables=tuple(table for table in tables if table is not None),
        pages_done=reading.pages_done + done,
    )
    return left, told


def note_of(reading: WholeReading, event: Event, table: TableName | None = None, **facts: str) -> Notification:
    """What is told of the reading: its tables that are left (the first few), the table meant, and these facts."""
    name = "scanned_collection" if event is Event.TABLE_SCAN_COMPLETED else "current_collection_in_progress"
    own = {} if table is None else {name: str(table)}
    listed = ",".join(str(each.table) for each in reading.tables[:_LISTED])
    return Notification(reading.request, event, INITIAL, {"data_collections": listed, **own, **facts})
