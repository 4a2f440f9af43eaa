"""What is asked for beside the stream: signals, whole tables, chunks, and rows that are to be read again.

Invariant: a request is in the queue of a durable progress before anything of it is read, and leaves it with the pass
that has the last of its rows; one that cannot be followed is answered and keeps nobody from going on.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from walhouse.bronze.progress import CaptureStep
from walhouse.bronze.requests.notifications import INCREMENTAL, INITIAL
from walhouse.bronze.requests.signals import follow
from walhouse.bronze.snapshots.beside import Following
from walhouse.bronze.snapshots.estimate import of_reading
from walhouse.bronze.snapshots.outcome import after_failure
from walhouse.bronze.snapshots.queue import REPAIR, QueuedTable
from walhouse.bronze.snapshots.whole import Opening
from walhouse.errors import SourceError
from walhouse.postgres.key_chunks import keys_condition
from walhouse.postgres.publication import read_publication
from walhouse.postgres.wal import insert_lsn, oldest_running

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from walhouse.bronze.durable import DurableProgress
    from walhouse.bronze.progress import Progress
    from walhouse.bronze.requests.channels import SignalChannels
    from walhouse.bronze.requests.teller import Teller
    from walhouse.bronze.settings import CaptureSettings
    from walhouse.bronze.snapshots.beside import Written
    from walhouse.bronze.snapshots.incremental import IncrementalSnapshots
    from walhouse.bronze.snapshots.queue import SnapshotQueue
    from walhouse.bronze.snapshots.whole import PassOfSnapshot, WholeSnapshots
    from walhouse.changes.facts import Place
    from walhouse.changes.relations import RelationCatalog
    from walhouse.lsn import Lsn
    from walhouse.names import TableName
    from walhouse.postgres.connection import Connection
    from walhouse.postgres.keyed_table import Key

    Incomplete = Callable[[TableName, Place | None], tuple[Sequence[Key], Place | None]]
    """The keys of the next incomplete rows of a table after a place, and the place of the last."""

_REPAIRS: Final = 5
"""How often all rows of a table are read again that still lack a value, as one does that the publication's row filter
hides."""


@dataclass(frozen=True, slots=True)
class Requests:
    """Serves what is asked for of one source, one step at a time."""

    _settings: CaptureSettings
    _relations: RelationCatalog
    _conn: Connection
    _durable: DurableProgress
    _whole: WholeSnapshots
    _chunks: IncrementalSnapshots
    _channels: SignalChannels
    _teller: Teller
    _streams: bool
    _run: Callable[[Lsn, Callable[[CaptureStep], None]], Progress]
    """The stream up to a position."""
    _follow: Callable[[Callable[[CaptureStep], None]], bool]
    """One pass of the stream, if there is something; False if it has to wait for the chunks that are read."""

    @property
    def any_readable(self) -> bool:
        """Whether there is a table to be read, whole or by chunks, and it may be."""
        return self._streams and (bool(self._durable.now.queue.whole) or self._chunks_to_read() is not None)

    def _chunks_to_read(self) -> SnapshotQueue | None:
        """The queue, its first table one that may be read now; None if there is none."""
        queue = self._durable.now.queue
        if queue.waits_for_transactions:
            oldest = oldest_running(self._conn)
            queue = queue.waiting_last(oldest)
            if queue.tables[0].waits(oldest):
                return None
        return None if queue.head is None else queue

    def read(self, report: Callable[[CaptureStep], None]) -> Progress:
        """What is asked for next, and the stream up to where its rows belong: all tables of a blocking snapshot, or one
        pass of chunks. Nothing if nothing may be read now."""
        progress = self._durable.now
        if progress.is_open:  # rows were read, and then nobody could tell how far the source was
            self._durable.follow_to(insert_lsn(self._conn).page_aligned())
        if progress.queue.whole:
            self.read_whole(Opening(progress.queue.whole[0], None, lambda _: progress), report)
            return self._closed(report, progress.queue.whole[0].request, INITIAL)
        queue = self._chunks_to_read()
        if queue is None:
            return progress
        with self._teller.telling_of_interruption(queue.tables[0].request, INCREMENTAL):
            self._read_chunks(queue, report)
        return self._closed(report, queue.tables[0].request, INCREMENTAL)

    def _closed(self, report: Callable[[CaptureStep], None], request: str, kind: str) -> Progress:
        """The stream up to where the rows belong that were read for the request."""
        with self._teller.telling_of_interruption(request, kind):
            return self._run(self._durable.closing, report)

    def read_whole(self, opening: Opening, report: Callable[[CaptureStep], None]) -> None:
        """Read whole tables; one that cannot be read is answered, and left out, if a signal asked for it."""

        def took(done: PassOfSnapshot) -> None:
            reading = done.progress.queue.whole[0] if done.progress.is_reading else None
            how_far = "" if reading is None else str(of_reading(reading, time.time()))
            self._durable.came(done.progress)
            self._teller.knows(done.counted)
            self._took(done.at, done.rows, report, f"{done.table} {how_far}".strip())

        request = opening.reading.request
        with self._teller.telling_of_interruption(request, INITIAL):
            try:
                self._whole.read(opening, took)
            except SourceError as error:
                reads = self._durable.now.queue.whole[:1] if self._durable.has_begun else ()
                if [each.request for each in reads] != [request]:
                    raise
                self._durable.save(after_failure(self._durable.now, error))

    def _read_chunks(self, queue: SnapshotQueue, report: Callable[[CaptureStep], None]) -> None:
        """One pass of chunks; the stream goes on beside it."""
        following = Following(lambda: self._follow(report))
        told_before = len(self._durable.now.untold)

        def beside(progress: Progress, work: Callable[[], Written]) -> Written:
            self._durable.reserve(progress)
            try:
                written, rows = following.beside(work)
            except SourceError:  # of a task: nothing was written
                self._durable.release(progress)
                raise
            self._durable.take(written)
            return written, rows

        step = self._chunks.step(lambda: replace(self._durable.now, queue=queue), beside)
        if step.rows is None:
            self._durable.save(step.progress)
        else:
            self._teller.knows(step.counted)
            self._took(insert_lsn(self._conn).page_aligned(), step.rows, report, step.how_far)
        if step.note is not None:
            self._teller.note(step.note, after=told_before)
        if following.failure is not None:
            raise following.failure

    def _took(self, at: Lsn, rows: int, report: Callable[[CaptureStep], None], snapshot: str) -> None:
        """Rows of a snapshot are in bronze; the stream must come to ``at`` before they are used."""
        self._durable.follow_to(at)
        report(CaptureStep(self._durable.now, self._durable.closing, rows, snapshot))

    def tell(self, *, at_once: bool = False) -> None:
        """Write what is to be told of what is durable and of use. That it was told is durable with the next pass."""
        progress = self._durable.now
        if progress.is_open:
            return
        if self._teller.tell(progress, at_once=at_once or not self.any_readable):
            self._durable.hold(replace(progress, untold=()))

    @property
    def finished(self) -> tuple[QueuedTable, ...]:
        """Tables that gold is to be looked at for: read by chunks, or sent rows that lack values."""
        return self._durable.now.queue.finished

    def read_again(self, incomplete: Incomplete) -> None:
        """Queue the next rows of gold that lack a value, of tables that were read: some at once, then those after them,
        and all of them again as long as some are left, but not for ever."""
        progress = self._durable.now
        current = {relation.name: relation for relation in self._relations.current()}
        asked = list[QueuedTable]()
        for finished in progress.queue.finished:
            table, repairs = finished.table, finished.repairs
            keys, upto = incomplete(table, finished.tried)
            if not keys and finished.tried is not None and repairs + 1 < _REPAIRS:
                repairs += 1
                keys, upto = incomplete(table, None)
            if keys:
                condition = keys_condition(current[table], keys)
                asked.append(QueuedTable(REPAIR, table, condition, repairs=repairs, tried=upto, own=True))
        self._durable.save(replace(progress, queue=replace(progress.queue.add(asked), finished=())))

    def take_signals(self) -> None:
        """Do what signals ask for that have come since the last time. Without a stream nobody would follow them."""
        if not self._streams:
            return
        progress = self._durable.now
        found = self._channels.read(progress)
        if not found.signals:
            self._durable.hold(replace(progress, signals=found.position))
            return
        selection, published = self._settings.selection, read_publication(self._conn, self._settings.publication)
        captured = [
            name
            for name in sorted(published.published)
            if selection.captures(name) and name != self._settings.signals.table
        ]
        for signal in found.signals:
            answer = follow(signal, progress.queue, captured)
            progress = replace(progress, queue=answer.queue).telling(*answer.notifications)
        self._durable.save(replace(progress, signals=found.position))
        self._channels.forget(found)
        self.tell(at_once=True)
