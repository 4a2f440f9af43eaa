"""Reading queued tables by chunks, while the stream goes on.

Invariant: a pass of chunks moves the queue forward in the same Delta commit that has their rows. It leaves bronze open:
its rows may have positions that the stream has not reached, so a pass over the WAL up to there must follow.
"""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from walhouse.bronze.append import Order, append
from walhouse.bronze.reader import BronzeReader
from walhouse.bronze.requests.notifications import Event, Notification, RowsOf, ScanStatus
from walhouse.bronze.snapshots.chunks import KeyChunksPlan
from walhouse.bronze.snapshots.estimate import of_chunks
from walhouse.bronze.snapshots.faults import OF_THE_SERVER
from walhouse.bronze.snapshots.queue import REPAIR
from walhouse.bronze.snapshots.reading import WholeKind, WholeReading, WholeTable
from walhouse.config.masks import first_matching
from walhouse.errors import ConditionError, SourceError, TableChangedError
from walhouse.pgoutput.row import CHUNK_ID
from walhouse.postgres.key_chunks import KeyChunk, chunk_ends, estimated_rows, keyed_table, largest_key
from walhouse.postgres.watermarks import window

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from walhouse.bronze.progress import Progress
    from walhouse.bronze.snapshots.beside import Written
    from walhouse.bronze.snapshots.queue import QueuedTable, SnapshotQueue
    from walhouse.config.masks import MaskRule
    from walhouse.pgoutput.relation import RelationDescription
    from walhouse.postgres.keyed_table import Key, KeyedTable

    Beside = Callable[[Progress, Callable[[], Written]], Written]
    """Does what writes a pass after that progress, and follows the stream meanwhile."""

_ATTEMPTS: Final = 5
"""How often a pass is planned anew because the table's columns changed meanwhile."""

_PLANNED_AT_ONCE: Final = 128
"""Chunks whose ends are looked up in one transaction: it is to last no longer than the reading of one."""


@dataclass(frozen=True, slots=True)
class ChunksRead:
    """What one step did: the progress after it, which is in bronze if ``rows`` is not None, and how far it is."""

    progress: Progress
    rows: int | None
    note: Notification | None = None
    """What may be told in passing; what must be told is in the progress."""
    how_far: str = ""
    """For people: which table, and how much of it is read."""
    counted: Mapping[RowsOf, int] = field(default_factory=dict)
    """How many rows the reading has that began and ended with this step."""


@dataclass(frozen=True, slots=True)
class IncrementalSnapshots(BronzeReader):
    """Reads the queue of one lake, a few chunks of its first table at a time."""

    def step(self, now: Callable[[], Progress], beside: Beside) -> ChunksRead:
        """Read the next chunks of the first table, or find out that it cannot be read and go on without it.

        ``now``: how far bronze is, which may be further after an attempt. Raises what is no fault of the table:
        SourceUnreachableError, LockTimeoutError and their like.
        """
        for attempt in range(_ATTEMPTS):
            try:
                return self._read(now(), beside)
            except TableChangedError:
                if attempt == _ATTEMPTS - 1:
                    raise
            except OF_THE_SERVER:
                raise
            except SourceError as error:
                return self._skipped(now(), ScanStatus.SQL_EXCEPTION, error.problem)
        raise AssertionError("the last attempt returns or raises")

    def _read(self, progress: Progress, beside: Beside) -> ChunksRead:
        head = progress.queue.head
        assert head is not None, "there must be something to read"
        relation = next((each for each in self._catalog().values() if each.name == head.table), None)
        if relation is None:
            return self._skipped(
                progress, ScanStatus.UNKNOWN_SCHEMA, "the table is not captured, or not there any more"
            )
        if not relation.row_key and head.condition is None:
            return self._left_to_one_snapshot(progress, head)
        if not relation.row_key:
            return self._skipped(
                progress, ScanStatus.NO_PRIMARY_KEY, "changes do not tell its rows apart, so a part cannot be read"
            )
        _require_columns(relation, head.key, self._settings.masks.rules)
        table = keyed_table(
            self._conn,
            relation,
            head.key or relation.row_key,
            publication=self._settings.publication,
            condition=head.condition,
            by_user=not head.own,
        )
        head = head.in_order(table.order)
        upto = head.upto or largest_key(self._conn, table)
        if upto is None and not table.has_rows_without_key:
            return self._skipped(progress, ScanStatus.EMPTY)
        return self._pass(progress, replace(head, upto=upto), table, beside)

    def _pass(self, progress: Progress, head: QueuedTable, table: KeyedTable, beside: Beside) -> ChunksRead:
        chunks = self._next_chunks(head, table, progress.queue.next_chunk)
        after = next((chunk.upto for chunk in reversed(chunks) if chunk.upto is not None), None)
        first = progress.queue.next_chunk - head.chunks if head.first_chunk is None else head.first_chunk
        read = replace(
            head,
            after=after,
            chunks=head.chunks + len(chunks),
            first_chunk=first,
            began=head.began or time.time(),
        )
        queue = progress.queue.with_head(read, chunks=len(chunks))
        snapshot_id = f"{CHUNK_ID}{head.request}"
        upcoming = progress.next(progress.captured_to, progress.publication)
        upcoming = replace(upcoming, messages=progress.messages, queue=queue, awaited=(upcoming.pass_number,)).opened()
        reading = RowsOf(snapshot_id, *head.table, first)
        ended = read.after == read.upto
        if ended:
            queue = queue.after_finished_head()
            told = _ended(queue, read, ScanStatus.SUCCEEDED, rows_of=reading)
            upcoming = replace(upcoming, queue=queue).telling(*told)
        with self._window():
            written, rows = beside(progress, lambda: self._append(upcoming, snapshot_id, chunks, beside=True))
        estimate = of_chunks(read, self._settings.chunk_rows, estimated_rows(self._conn, read.table), time.time())
        how_far = f"{read.table} {estimate}".strip()
        note = _told(written.queue, read, Event.IN_PROGRESS)
        return ChunksRead(written, rows, note, how_far, {reading: rows} if ended and head.chunks == 0 else {})

    def _next_chunks(self, head: QueuedTable, table: KeyedTable, first: int) -> list[KeyChunk]:
        """Of a pass. Rows without a key come with the last of those that have one."""
        size, count = self._settings.chunk_rows, self._settings.chunks_in_a_pass
        ends: list[Key | None] = []
        while head.upto is not None and len(ends) < count and (not ends or ends[-1] != head.upto):
            after = ends[-1] if ends else head.after
            ends += chunk_ends(
                self._conn, table, after, head.upto, size=size, count=min(count - len(ends), _PLANNED_AT_ONCE)
            )
        begins = (head.after, *ends[:-1])
        chunks = [KeyChunk(table, first + place, *both) for place, both in enumerate(zip(begins, ends, strict=False))]
        if table.has_rows_without_key and (not ends or ends[-1] == head.upto):
            chunks.append(KeyChunk(table, first + len(chunks), None, None))
        return chunks

    def _window(self) -> AbstractContextManager[None]:
        """Around a pass of chunks, for those who want to see it."""
        signals = self._settings.signals
        if signals.watermarks is None or signals.table is None:
            return nullcontext()
        return window(self._conn, signals.table, signals.watermarks)

    def save(
        self, progress: Progress, described: Sequence[RelationDescription] = (), *, as_chunks: bool = False
    ) -> Progress:
        """A pass of the progress row alone, and of descriptions that bronze lacks.

        ``as_chunks``: counted as a pass of chunks, though it has none.
        """
        upcoming = progress.next(progress.captured_to, progress.publication)
        upcoming = replace(upcoming, messages=progress.messages)
        return self._append(upcoming, "", (), described, beside=as_chunks)[0]

    def _append(
        self,
        upcoming: Progress,
        snapshot_id: str,
        chunks: Sequence[KeyChunk],
        described: Sequence[RelationDescription] = (),
        *,
        beside: bool,
    ) -> Written:
        announced = self._announced((*described, *(chunk.table.relation for chunk in chunks)))
        upcoming = replace(upcoming, counts=(("relations", len(announced)),))
        plan = KeyChunksPlan(
            settings=self._settings.connection,
            groups=_groups(chunks, self._settings.snapshots.workers),
            snapshot_id=snapshot_id,
            announced=announced,
            captured_at=time.time_ns() // 1000,
            progress=upcoming,
            masks=self._settings.masks,
            flush_timeout_seconds=self._settings.flush_timeout_seconds,
            on_standby=self._on_standby,
        )
        written, rows, _ = append(self._spark, self._layout, plan, upcoming, Order(counted=()), beside=beside)
        return written, rows

    @staticmethod
    def _left_to_one_snapshot(progress: Progress, head: QueuedTable) -> ChunksRead:
        """Rows that nothing tells apart cannot be placed one by one: the table is read whole, in one snapshot."""
        tables = (WholeTable(head.table, owed=head.owed),)
        reading = WholeReading(head.request, WholeKind.BLOCKING, tables, own=head.own)
        queue = progress.queue.after_head()
        return ChunksRead(replace(progress, queue=replace(queue, whole=(*queue.whole, reading))), None)

    def _skipped(self, progress: Progress, status: ScanStatus, reason: str | None = None) -> ChunksRead:
        head = progress.queue.tables[0]
        if status is not ScanStatus.EMPTY:
            progress = progress.lacking(head.owed)
        goes_on = head.own and head.request == REPAIR and status is ScanStatus.EMPTY  # other rows may be there still
        queue = progress.queue.after_finished_head() if goes_on else progress.queue.after_head()
        told = _ended(queue, head, status, reason=reason)
        return ChunksRead(replace(progress, queue=queue).telling(*told), None)


def _require_columns(relation: RelationDescription, key: Sequence[str] | None, masks: Sequence[MaskRule]) -> None:
    """Raises ConditionError if there are no such columns, or if values of one are to be hidden: the last key that was
    read stands in bronze and in notifications."""
    for name in key or ():
        if name not in relation.column_names:
            problem = f"The surrogate key {name} of {relation.name} is no captured column."
            raise ConditionError(problem, table=str(relation.name))
        if name not in relation.row_key and first_matching(masks, f"{relation.name}.{name}"):
            problem = f"The surrogate key {name} of {relation.name} is masked: its values are not to show."
            raise ConditionError(problem, table=str(relation.name))


def _groups(chunks: Sequence[KeyChunk], workers: int) -> tuple[tuple[KeyChunk, ...], ...]:
    """Neighbours together, one group a worker: rows that are near each other by key are then in one file."""
    size = max(1, -(-len(chunks) // workers))
    return tuple(tuple(chunks[start : start + size]) for start in range(0, len(chunks), size))


def _ended(
    queue: SnapshotQueue,
    table: QueuedTable,
    status: ScanStatus,
    *,
    rows_of: RowsOf | None = None,
    reason: str | None = None,
) -> list[Notification]:
    """The table's reading has ended; so has the request, if it was its last table."""
    facts = {"scanned_collection": str(table.table), "total_rows_scanned": "0", "status": status.value}
    if reason is not None:
        facts["reason"] = reason
    data = {**_tables(queue, table), **facts}
    told = [Notification(table.request, Event.TABLE_SCAN_COMPLETED, data=data, rows_of=rows_of)]
    if queue.has_none_of(table.request):
        told.append(Notification(table.request, Event.COMPLETED))
    return told


def _told(queue: SnapshotQueue, table: QueuedTable, event: Event) -> Notification:
    keys = {"maximum_key": table.upto, "last_processed_key": table.after}
    facts = {name: ",".join(key) for name, key in keys.items() if key is not None}
    return Notification(
        table.request,
        event,
        data={**_tables(queue, table), "current_collection_in_progress": str(table.table), **facts},
    )


def _tables(queue: SnapshotQueue, table: QueuedTable) -> dict[str, str]:
    """The tables of the request that are not done, and this one."""
    names = dict.fromkeys([table.table, *(each.table for each in queue.tables if each.request == table.request)])
    return {"data_collections": ",".join(map(str, names))}
