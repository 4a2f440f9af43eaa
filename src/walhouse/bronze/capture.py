"""Capture: from the replication slot into bronze, pass by pass.

Invariant (the order of one pass): read one bounded range of the WAL, append it and its progress row in one Delta
commit, read the progress back from bronze, and only then advance the slot, to just that.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from walhouse.bronze.beginning import Beginning
from walhouse.bronze.progress import Progress, reached, read_pass, read_progress
from walhouse.bronze.requests.channels import SignalChannels
from walhouse.bronze.requests.notifications import INCREMENTAL, INITIAL
from walhouse.bronze.requests.signals import follow
from walhouse.bronze.requests.teller import Teller
from walhouse.bronze.snapshots.beside import Following, taken_over
from walhouse.bronze.snapshots.estimate import of_reading
from walhouse.bronze.snapshots.incremental import IncrementalSnapshots
from walhouse.bronze.snapshots.outcome import without_table
from walhouse.bronze.snapshots.queue import QueuedTable
from walhouse.bronze.snapshots.whole import Opening, WholeSnapshots
from walhouse.bronze.stream import Stream
from walhouse.bronze.table import ensure_bronze
from walhouse.errors import NotStreamingError, SourceError
from walhouse.lsn import Lsn
from walhouse.postgres.catalog import read_relations
from walhouse.postgres.heartbeat import Heartbeat
from walhouse.postgres.identity import read_identity, require_continued
from walhouse.postgres.key_chunks import keys_condition
from walhouse.postgres.probe import has_frames
from walhouse.postgres.publication import (
    captured_tables,
    publishes_roots,
)
from walhouse.postgres.replica_identity import set_identities
from walhouse.postgres.slot import advance, drop_slot
from walhouse.postgres.standby import is_standby, require_unpromoted
from walhouse.postgres.wal import flushed_lsn, insert_lsn, oldest_running, wait_flushed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import SparkSession

    from walhouse.bronze.requests.notifications import Notification
    from walhouse.bronze.settings import CaptureSettings
    from walhouse.bronze.snapshots.beside import Written
    from walhouse.bronze.snapshots.queue import SnapshotQueue
    from walhouse.bronze.snapshots.whole import PassOfSnapshot
    from walhouse.changes.relations import RelationCatalog
    from walhouse.lakehouse.layout import LakeLayout
    from walhouse.names import TableName
    from walhouse.postgres.connection import Connection
    from walhouse.postgres.key_chunks import Key


_REPAIR: Final = "repair"
"""How the request is called that reads rows again which lack a value."""

_REPAIRS: Final = 5
"""How often rows are read again that still lack it, as one does that the publication's row filter hides."""


class CaptureStep(NamedTuple):
    """What is reported after each pass."""

    progress: Progress
    target: Lsn
    rows: int
    snapshot: str = ""
    """If the rows are a snapshot's: of which table, and how far that is."""


class Capture:
    """Capture of one source into one lake. Create it inside the lake's write lock."""

    def __init__(
        self,
        spark: SparkSession,
        layout: LakeLayout,
        settings: CaptureSettings,
        relations: RelationCatalog,
        conn: Connection,
    ) -> None:
        self._spark = spark
        self._layout = layout
        self._settings = settings
        self._relations = relations
        self._conn = conn
        self._heartbeat = (
            None
            if settings.heartbeat_query is None
            else Heartbeat(settings.heartbeat_query, settings.heartbeat_seconds)
        )
        self._beginning = Beginning(layout, settings, conn)
        self._on_standby = is_standby(conn)
        reads = (spark, layout, settings, relations, conn, self._on_standby)
        self._stream = Stream(*reads)
        self._whole = WholeSnapshots(*reads)
        self._snapshots = IncrementalSnapshots(*reads)
        self._channels = SignalChannels(spark, layout, settings.signals)
        self._teller = Teller(spark, layout, settings.connector)
        self._streams = settings.snapshots.mode.streams()
        ensure_bronze(spark, layout)
        self._progress = read_progress(spark, layout)
        self._is_heir = False
        """Whether what another process was about to write is taken care of."""
        self._closing = Lsn(0)
        """Where the stream must be before layers may use the snapshots that were read."""

    def begin(self, report: Callable[[CaptureStep], None] = lambda _: None, *, starts: bool = False) -> Progress:
        """Make sure that bronze and slot fit together; read the tables that ``snapshot.mode`` wants read now.

        ``starts``: a command began, and does not go on after an error. Raises SourceChangedError, SlotMissingError,
        SlotGapError and the other errors of the slot, SnapshotUnfinishedError, ConfigurationError and
        ReplicaIdentityError if the identities that were asked for cannot be set.
        """
        source = read_identity(self._settings.connection)
        if self._progress is not None:
            known_to = reached(self._spark, self._layout, self._progress)
            require_continued(self._settings.connection, self._progress.source, source, known_to)
            self._progress = replace(self._progress, source=source)
            told = () if self._progress.is_open else self._progress.untold
            self._tell(at_once=True)  # before another pass takes it over: it may have been told, and not twice
            self._take_over(told)
        self._set_identities()
        if self._progress is None:
            first = self._beginning.first(source)
            opening = first if isinstance(first, Opening) else None
            if not isinstance(first, Opening):
                catalog = read_relations(self._conn, self._settings.publication, self._settings.selection)
                self._came(self._snapshots.save(first, tuple(catalog.values())))
        else:
            opening = self._beginning.going_on(self._progress, starts=starts)
        reads = opening is not None
        if reads:
            time.sleep(self._settings.snapshots.delay_seconds)
        while opening is not None:
            with self._teller.telling_of_interruption(opening.reading.request, INITIAL):
                self._read_whole(opening, report)
            opening = self._beginning.going_on(self._require_begun(), starts=False)
        progress = self._require_begun()
        self._relations.refresh(progress.pass_number)
        if self._streams or progress.is_open:
            self._beginning.require_slot(progress)
            advance(self._conn, self._settings.slot, progress.captured_to)
        if progress.is_open:
            self._closing = max(self._closing, insert_lsn(self._conn).page_aligned())
        if reads and self._streams:
            time.sleep(self._settings.snapshots.streaming_delay_seconds)
        self._settle(report)
        return self._require_begun()

    def _take_over(self, told: Sequence[Notification]) -> None:
        """Let no pass of chunks come any more that another process was reading; go on from one that came."""
        progress = self._require_begun()
        if self._streams and not self._is_heir and (progress.awaited or progress.queue.tables):
            taken = taken_over(
                progress,
                lambda each, as_chunks: self._snapshots.save(each, as_chunks=as_chunks),
                lambda number: read_pass(self._spark, self._layout, number),
            )
            self._progress = replace(taken, untold=tuple(each for each in taken.untold if each not in told))
            self._relations.forget_passes_from(min((*progress.awaited, progress.pass_number + 1)))
        self._is_heir = True

    def _settle(self, report: Callable[[CaptureStep], None]) -> None:
        """Tell what is to be told; without a stream, bring the snapshot to one position and let go of its slot."""
        progress = self._require_begun()
        if not self._streams:
            if progress.is_open:
                self._run(self._closing, report)
            drop_slot(self._conn, self._settings.slot)
        self._tell()

    def _set_identities(self) -> None:
        """Before tables are published: without a usable identity, published ones take no updates and deletes."""
        settings = self._settings
        if settings.identities.entries:
            via_root = publishes_roots(self._conn, settings.publication, otherwise=settings.via_partition_root)
            tables = captured_tables(self._conn, settings.selection, via_root=via_root)
            set_identities(self._conn, tables, settings.identities)

    def target(self) -> Lsn:
        """The server's flushed LSN: nothing before it can be lost in a crash of the server. A heartbeat comes first.

        Without a stream, where bronze ends.
        """
        if not self._streams:
            return self._require_begun().captured_to
        if self._heartbeat is not None:
            self._heartbeat.beat_if_due(self._conn)
        return flushed_lsn(self._conn)

    def is_idle(self, target: Lsn) -> bool:
        """True if there is nothing to capture before ``target``, without writing anything."""
        progress = self._require_begun()
        if target <= progress.captured_to:
            return True
        return not has_frames(
            self._settings.connection, self._conn, self._settings.slot, self._settings.publication, target
        )

    def run(self, target: Lsn, report: Callable[[CaptureStep], None]) -> Progress:
        """Passes until every commit that starts before ``target`` is in bronze. Returns the last progress.

        Raises NotStreamingError if the mode does not stream and bronze ends before the target.
        """
        if not self._streams and target > self._require_begun().captured_to:
            raise NotStreamingError("snapshot.mode does not stream: bronze stays where its snapshot was taken.")
        progress = self._run(max(target, self._closing), report)
        self._tell()
        return progress

    def _run(self, target: Lsn, report: Callable[[CaptureStep], None]) -> Progress:
        progress = self._require_begun()
        wait_flushed(self._conn, target, self._settings.flush_timeout_seconds)
        while progress.captured_to < target:
            end = min(target, Lsn(progress.captured_to + self._settings.max_pass_bytes))
            written = self._pass(progress, end)
            assert written is not None, "no chunks are being read"
            progress = written
            report(CaptureStep(progress, target, dict(progress.counts).get("changes", 0)))
        if progress.is_open and not progress.is_reading:  # the source wrote nothing since the snapshots were read
            progress = self._progress = progress.closed()
            if progress.untold or not self.has_requests:
                progress = self._save(progress)
        return progress

    @property
    def progress(self) -> Progress:
        """How far bronze is."""
        return self._require_begun()

    @property
    def has_requests(self) -> bool:
        """Whether there is a table to be read, whole or by chunks, and it may be."""
        return self._streams and (bool(self._require_begun().queue.whole) or self._chunks_to_read() is not None)

    def _chunks_to_read(self) -> SnapshotQueue | None:
        """The queue, its first table one that may be read now; None if there is none."""
        queue = self._require_begun().queue
        if queue.waits_for_transactions:
            oldest = oldest_running(self._conn)
            queue = queue.waiting_last(oldest)
            if queue.tables[0].waits(oldest):
                return None
        return None if queue.head is None else queue

    def read_requested(self, report: Callable[[CaptureStep], None]) -> Progress:
        """What is asked for next, and the stream up to where its rows belong: all tables of a blocking snapshot, or one
        pass of chunks. Nothing if nothing may be read now."""
        progress = self._require_begun()
        if progress.is_open:  # rows were read, and then nobody could tell how far the source was
            self._closing = max(self._closing, insert_lsn(self._conn).page_aligned())
        if progress.queue.whole:
            reading = progress.queue.whole[0]
            with self._teller.telling_of_interruption(reading.request, INITIAL):
                self._read_whole(Opening(reading, None, lambda _: progress), report)
                return self.run(self._closing, report)
        queue = self._chunks_to_read()
        if queue is None:
            return progress
        with self._teller.telling_of_interruption(queue.tables[0].request, INCREMENTAL):
            self._read_chunks(queue, report)
            return self.run(self._closing, report)

    def _read_chunks(self, queue: SnapshotQueue, report: Callable[[CaptureStep], None]) -> None:
        """One pass of chunks; the stream goes on beside it."""
        following = Following(lambda: self._follow(report))
        told_before = len(self._require_begun().untold)

        def beside(progress: Progress, work: Callable[[], Written]) -> Written:
            self._progress = progress.reserving()
            self._is_heir = False  # it may be in bronze and raise nevertheless
            try:
                written, rows = following.beside(work)
            except SourceError:  # of a task: nothing was written
                now = replace(self._require_begun(), awaited=(), open_since=progress.open_since)
                self._progress, self._is_heir = now, True
                raise
            self._progress, self._is_heir = self._require_begun().taking(written), True
            if not written.describes_nothing:
                self._relations.forget_passes_from(written.pass_number)
            return written, rows

        step = self._snapshots.step(lambda: replace(self._require_begun(), queue=queue), beside)
        if step.rows is None:
            self._save(step.progress)
        else:
            at = insert_lsn(self._conn).page_aligned()
            self._took(self._require_begun(), at, step.rows, report, step.how_far)
        if step.note is not None:
            self._teller.note(step.note, after=told_before)
        if following.failure is not None:
            raise following.failure

    def _follow(self, report: Callable[[CaptureStep], None]) -> bool:
        """One pass of the stream, if there is something; False if it has to wait for the chunks that are read."""
        target, progress = self.target(), self._require_begun()
        if self.is_idle(target):
            return True
        written = self._pass(progress, min(target, Lsn(progress.captured_to + self._settings.max_pass_bytes)))
        if written is not None:
            report(CaptureStep(written, target, dict(written.counts).get("changes", 0)))
        return written is not None

    def _read_whole(self, opening: Opening, report: Callable[[CaptureStep], None]) -> None:
        """Read whole tables; one that cannot be read is answered, and left out, if a signal asked for it."""

        def took(done: PassOfSnapshot) -> None:
            reading = done.progress.queue.whole[0] if done.progress.is_reading else None
            how_far = "" if reading is None else str(of_reading(reading, time.time()))
            self._took(done.progress, done.at, done.rows, report, f"{done.table} {how_far}".strip())

        try:
            self._whole.read(opening, took)
        except SourceError as error:
            at_work = [] if self._progress is None else [each.request for each in self._progress.queue.whole[:1]]
            if self._progress is None or at_work != [opening.reading.request]:
                raise
            self._save(without_table(self._progress, error))

    def _took(
        self, progress: Progress, at: Lsn, rows: int, report: Callable[[CaptureStep], None], snapshot: str
    ) -> None:
        """Rows of a snapshot are in bronze; the stream must come to ``at`` before they are used."""
        self._came(progress)
        self._closing = max(self._closing, at)
        report(CaptureStep(progress, self._closing, rows, snapshot))

    def _tell(self, *, at_once: bool = False) -> None:
        """Write what is to be told of what is durable and of use. That it was told is durable with the next pass."""
        progress = self._require_begun()
        if progress.is_open:
            return
        if self._teller.tell(progress, at_once=at_once or not self.has_requests):
            self._progress = replace(progress, untold=())

    @property
    def finished(self) -> tuple[QueuedTable, ...]:
        """Tables that were read by chunks, and whose gold nobody has looked at since."""
        return self._require_begun().queue.finished

    def read_again(self, incomplete: Mapping[TableName, Sequence[Key]]) -> None:
        """Queue the rows with these keys; gold has been looked at."""
        progress = self._require_begun()
        rounds = {each.table: each.repairs for each in progress.queue.finished}
        asked = [
            QueuedTable(_REPAIR, table, condition=keys_condition(relation, keys), repairs=rounds[table] + 1)
            for relation in self._relations.current()
            if (keys := incomplete.get(table := relation.name)) and rounds[table] < _REPAIRS
        ]
        self._save(replace(progress, queue=replace(progress.queue.add(asked), finished=())))

    def take_signals(self) -> None:
        """Do what signals ask for that have come since the last time. Without a stream nobody would follow them."""
        if not self._streams:
            return
        progress = self._require_begun()
        found = self._channels.read(progress)
        if not found.signals:
            self._progress = replace(progress, signals=found.position)
            return
        catalog = read_relations(self._conn, self._settings.publication, self._settings.selection)
        captured = [each.name for each in catalog.values() if each.name != self._settings.signals.table]
        for signal in found.signals:
            answer = follow(signal, progress.queue, captured)
            progress = replace(progress, queue=answer.queue).telling(*answer.notifications)
        self._save(replace(progress, signals=found.position))
        self._channels.forget(found)
        self._tell(at_once=True)

    def _save(self, progress: Progress) -> Progress:
        """Make a state durable that no rows go with."""
        return self._came(self._snapshots.save(progress))

    def _came(self, progress: Progress) -> Progress:
        """This is durable now; what it describes is known to whoever reads next."""
        self._progress = progress
        self._relations.refresh(progress.pass_number, last_has_none=progress.describes_nothing)
        return progress

    def _pass(self, progress: Progress, end: Lsn) -> Progress | None:
        """None if it has to wait for chunks that are being read."""
        require_unpromoted(self._conn, was_standby=self._on_standby)
        slot = self._beginning.require_slot(progress)
        closes = end >= self._closing and not progress.is_reading and not progress.awaited
        written = self._stream.read(progress, end, slot, closes=closes)
        if written is not None:
            self._came(written)  # whatever becomes of the slot
            advance(self._conn, self._settings.slot, written.captured_to)
        return written

    def _require_begun(self) -> Progress:
        assert self._progress is not None, "begin() comes first"
        return self._progress
