"""Reading whole tables in one exported snapshot, pass by pass.

Invariant: every row is read in a snapshot that a replication slot's creation exported, which sees just the commits
that start before the slot's consistent point; there the row stands, and nobody has to ask what its snapshot has seen.
Each pass is one Delta commit with the state of the reading in its progress row. If the snapshot is lost, with this
process or without, the next one goes on with what is left, at its own consistent point; layers use nothing of it before
the whole is read and the stream has come to the last of these points.
"""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from walhouse.bronze.append import Order, append
from walhouse.bronze.reader import BronzeReader
from walhouse.bronze.requests.notifications import Event, RowsOf, ScanStatus
from walhouse.bronze.snapshots.outcome import GONE, after_pieces, note_of, passed_over, require_passable
from walhouse.bronze.snapshots.pieces import Piece, passes, pieces_of, tasks
from walhouse.bronze.snapshots.queue import QueuedTable
from walhouse.bronze.snapshots.reading import WholeKind, WholeReading, WholeTable
from walhouse.bronze.source import SnapshotPlan
from walhouse.errors import ConditionError, SourceError
from walhouse.names import TableName
from walhouse.postgres.slot import created_slot
from walhouse.postgres.snapshot import (
    Chunk,
    PagePlace,
    chosen_rows,
    files_of,
    imported_snapshot,
    locked_tables,
    plan_chunks,
    visibility_of,
)
from walhouse.postgres.standby import require_unpromoted
from walhouse.postgres.wal import committed_xid

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from walhouse.bronze.progress import Progress
    from walhouse.bronze.requests.notifications import Notification
    from walhouse.lsn import Lsn
    from walhouse.pgoutput.relation import RelationDescription
    from walhouse.postgres.connection import Connection
    from walhouse.postgres.slot import ExportedSnapshot
    from walhouse.postgres.snapshot import LockHolder


@dataclass(frozen=True, slots=True)
class Opening:
    """How a reading begins or goes on."""

    reading: WholeReading
    slot: str | None
    """The slot that is to be made, and to stay; None: it exists, and one that does not stay exports the snapshot."""
    progress_at: Callable[[Lsn], Progress]
    """The progress before the first pass, the snapshot's consistent point being known."""


class PassOfSnapshot(NamedTuple):
    """What a pass has read: ``at``: where its rows stand, and the stream must be before they are used."""

    progress: Progress
    at: Lsn
    rows: int
    table: str
    counted: Mapping[RowsOf, int]
    """Rows of tables that this pass has read from their beginning to their end."""


@dataclass(frozen=True, slots=True)
class _Session:
    """What is open while tables are read."""

    exported: ExportedSnapshot
    locks: LockHolder
    reading: Connection
    captured_at: int
    xid: int | None
    """A transaction's id of this time; None where nothing may be written."""


@dataclass(frozen=True, slots=True)
class WholeSnapshots(BronzeReader):
    """Reads whole tables into one lake."""

    def read(self, opening: Opening, report: Callable[[PassOfSnapshot], None]) -> None:
        """Read all that is left. ``report``: told of each pass, once it is in bronze. Raises what the session, the
        locks or the slot are refused for; of one table's fault only what an initial snapshot cannot do without.
        """
        reading = opening.reading
        settings, catalog = self._settings, self._tables()
        there = [table.table for table in reading.tables if table.table in catalog]
        name, temporary = (opening.slot, False) if opening.slot is not None else (_passing_name(settings.slot), True)
        # The locks come before the slot: no ALTER or TRUNCATE can then fall between the snapshot and its reading.
        waits = settings.snapshots.lock_seconds
        with (
            locked_tables(settings.connection, there, lock_timeout_seconds=waits) as locks,
            created_slot(
                settings.connection,
                name,
                temporary=temporary,
                failover=settings.failover,
                lock_timeout_seconds=waits,
            ) as exported,
            imported_snapshot(settings.connection, exported.name) as connection,
        ):
            require_unpromoted(self._conn, was_standby=self._on_standby)  # else its LSN is of another timeline
            session = _Session(exported, locks, connection, time.time_ns() // 1000, committed_xid(self._conn))
            at = exported.consistent_point
            progress = opening.progress_at(at)
            progress, pieces = self._planned(progress, reading, session)
            for part in passes(pieces, settings.snapshots.pass_pages):
                done = self._append(progress, part, session)
                progress = done.progress
                report(done)

    def _tables(self) -> dict[TableName, RelationDescription]:
        return {relation.name: relation for relation in self._catalog().values()}

    def _planned(self, progress: Progress, reading: WholeReading, session: _Session) -> tuple[Progress, list[Piece]]:
        """The pieces of all tables that can be read; the others are told of, and gone from the reading."""
        if reading.began is None:
            reading = replace(reading, began=time.time())
            if reading.kind is WholeKind.INITIAL:  # of others it was told when they were asked for
                progress = progress.telling(note_of(reading, Event.STARTED))
        catalog, pieces = self._tables(), list[Piece]()
        first = progress.queue.next_chunk
        for table in reading.tables:
            relation = catalog.get(table.table)
            if relation is None:
                reading, note = passed_over(reading, table.table, ScanStatus.UNKNOWN_SCHEMA, GONE)
                progress = progress.lacking(table.owed).telling(note)
                continue
            try:
                with session.reading.transaction():
                    mine = self._pieces(table, relation, first, session)
            except SourceError as error:
                require_passable(reading, error)
                reading, note = passed_over(reading, table.table, ScanStatus.SQL_EXCEPTION, error.problem)
                progress = progress.lacking(table.owed).telling(note)
                continue
            pieces += mine
            first = pieces[-1].number + 1
            if not table.has_begun:
                pages = sum(piece.pages for piece in mine)
                reading = reading.with_table(replace(table, pages=pages))
        again = [
            QueuedTable(reading.request, table.table)  # its rows may lack a value that was not sent when they moved
            for table in reading.tables
            if table.has_begun
        ]
        queue = replace(progress.queue.with_finished(again), whole=(reading, *progress.queue.whole[1:]))
        return replace(progress, queue=queue), pieces

    def _pieces(self, table: WholeTable, relation: RelationDescription, first: int, session: _Session) -> list[Piece]:
        # a column that was added is not in what was read before; and under another key, or without one, nothing tells
        # rows of two snapshots apart
        files = f"{files_of(session.reading, relation)} {relation.version} {','.join(relation.row_key)}"
        if table.files is not None and table.files != files:
            table = table.anew()
        if table.statement is None:
            chunks = plan_chunks(
                session.reading,
                relation,
                self._settings.snapshots.chunk_pages,
                publication=self._settings.publication,
                begin=PagePlace(table.leaf, table.page),
            )
        elif not relation.row_key and not table.replaces:
            raise ConditionError(
                "Changes do not tell its rows apart, so that a part cannot be read.", table=str(table.table)
            )
        else:
            chunks = [_chosen(session.reading, relation, table.statement)]
        return pieces_of(table, relation, chunks, files=files, first=first)

    def _append(self, progress: Progress, pieces: Sequence[Piece], session: _Session) -> PassOfSnapshot:
        """One pass: the pieces' rows, what describes them, and the state after them."""
        reading, at = progress.queue.whole[0], session.exported.consistent_point
        upcoming, told = _after(progress, pieces, at)
        described = {piece.relation.name: piece.relation for piece in pieces}
        announced = self._announced((self._tables() if progress.pass_number == 0 else described).values())
        upcoming = replace(upcoming, counts=(("relations", len(announced)),))
        chunks = [piece.chunk for piece in pieces if piece.chunk is not None]
        plan = SnapshotPlan(
            settings=self._settings.connection,
            exported=session.exported.name,
            groups=tasks(chunks, self._settings.snapshots.chunk_pages),
            relations=tuple(described.values()),
            snapshot_id=reading.id,
            visibility=str(visibility_of(session.reading)),
            at=at,
            pass_number=upcoming.pass_number,
            captured_at=session.captured_at,
            progress=upcoming,
            xid=session.xid,
            lock_holder=session.locks,
            masks=self._settings.masks,
            for_events=True,
            bases=tuple((piece.relation.name, piece.number) for piece in pieces if piece.chunk is None),
            announced=announced,
        )
        wholly = {
            TableName(note.rows_of.schema, note.rows_of.table): note.rows_of
            for note in told
            if note.rows_of is not None and note.rows_of.first_chunk >= pieces[0].number
        }
        order = Order(tasks=self._settings.snapshots.parallelism, counted=tuple(wholly))
        written, rows, of_tables = append(self._spark, self._layout, plan, upcoming, order)
        last = str(pieces[-1].relation.name) if pieces else ""
        counted = {of: of_tables[table] for table, of in wholly.items() if table in of_tables}
        return PassOfSnapshot(written, at, rows, last, counted)


def _after(progress: Progress, pieces: Sequence[Piece], at: Lsn) -> tuple[Progress, list[Notification]]:
    """The progress with these pieces read, whose rows stand at ``at``, and what it tells of them."""
    reading = progress.queue.whole[0]
    left, told = after_pieces(reading, pieces)
    if not left.tables and progress.queue.has_none_of(reading.request):
        told.append(note_of(left, Event.COMPLETED))
    upcoming = replace(
        progress.next(progress.captured_to, progress.publication),
        messages=progress.messages,
        queue=replace(
            progress.queue.with_reading(left),
            next_chunk=pieces[-1].number + 1 if pieces else progress.queue.next_chunk,
        ),
    ).telling(*told)
    waits = upcoming.is_reading or at > upcoming.captured_to
    return upcoming.opened() if waits else upcoming.closed(), told


def _passing_name(slot: str) -> str:
    """Of a slot that lasts as long as its session: a name that none of before has, which the server may still hold."""
    return f"{slot[:40]}_{uuid.uuid4().hex[:12]}"


def _chosen(connection: Connection, relation: RelationDescription, statement: str) -> Chunk:
    """One chunk: the rows of a SELECT."""
    select = chosen_rows(connection, relation, statement)
    name = relation.name
    return Chunk(name, name, 0, first_page=0, end_page=None, pages=1, row_filter=None, statement=select)
