"""Capture: from the replication slot into bronze, pass by pass.

Invariant (the order of one pass): read one bounded range of the WAL, append it and its progress row in one Delta
commit, read the progress back from bronze, and only then advance the slot, to just that.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from walhouse.bronze.beginning import Beginning
from walhouse.bronze.durable import DurableProgress
from walhouse.bronze.progress import CaptureStep, reached
from walhouse.bronze.requests.channels import SignalChannels
from walhouse.bronze.requests.serve import Requests
from walhouse.bronze.requests.teller import Teller
from walhouse.bronze.snapshots.incremental import IncrementalSnapshots
from walhouse.bronze.snapshots.whole import Opening, WholeSnapshots
from walhouse.bronze.stream import Stream
from walhouse.errors import NotStreamingError
from walhouse.lsn import Lsn
from walhouse.postgres.catalog import read_relations
from walhouse.postgres.connection import on_same_server
from walhouse.postgres.encoding import require_encoding
from walhouse.postgres.heartbeat import Heartbeat
from walhouse.postgres.identity import read_identity, require_continued, require_not_set_back
from walhouse.postgres.probe import has_frames
from walhouse.postgres.publication import captured_tables, publishes_roots
from walhouse.postgres.replica_identity import set_identities
from walhouse.postgres.slot import advance, drop_slot
from walhouse.postgres.standby import is_standby, require_unpromoted
from walhouse.postgres.wal import ask_to_flush, insert_lsn, readable_lsn, wait_flushed

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from walhouse.bronze.progress import Progress
    from walhouse.bronze.settings import CaptureSettings
    from walhouse.changes.relations import RelationCatalog
    from walhouse.lakehouse.layout import LakeLayout
    from walhouse.postgres.connection import Connection
    from walhouse.postgres.identity import SourceIdentity


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
        # tasks, slot and snapshots are on the server whose positions are asked for here
        settings = replace(settings, connection=on_same_server(settings.connection, conn))
        self._spark = spark
        self._layout = layout
        self.settings = settings
        self._relations = relations
        self._conn = conn
        self._heartbeat = (
            None
            if settings.heartbeat_query is None
            else Heartbeat(settings.heartbeat_query, settings.heartbeat_seconds)
        )
        self._beginning = Beginning(layout, settings, conn)
        self._on_standby = is_standby(conn)
        self._streams = settings.snapshots.mode.streams()
        reads = (spark, layout, settings, relations, conn, self._on_standby)
        self._stream = Stream(*reads)
        chunks = IncrementalSnapshots(*reads)
        self._durable = DurableProgress(spark, layout, relations, chunks)
        self.requests = Requests(
            settings,
            relations,
            conn,
            self._durable,
            WholeSnapshots(*reads),
            chunks,
            SignalChannels(spark, layout, settings.signals),
            Teller(spark, layout, settings.connector),
            self._streams,
            self.run,
            self._follow,
        )
        """What is asked for beside the stream."""

    @property
    def begun(self) -> Progress | None:
        """How far bronze is, also before ``begin``; None if nothing was ever captured."""
        return self._durable.now if self._durable.has_begun else None

    @property
    def progress(self) -> Progress:
        """How far bronze is."""
        return self._durable.now

    def begin(self, report: Callable[[CaptureStep], None] = lambda _: None, *, starts: bool = False) -> Progress:
        """Make sure that bronze and slot fit together; read the tables that ``snapshot.mode`` wants read now.

        ``starts``: a command began, and does not go on after an error. Raises UnsupportedServerError,
        SourceChangedError, SlotMissingError, SlotGapError and the other errors of the slot, SnapshotUnfinishedError,
        ConfigurationError and ReplicaIdentityError if the identities that were asked for cannot be set.
        """
        require_encoding(self._conn)
        source = read_identity(self.settings.connection)
        if self._durable.has_begun:
            self._go_on_with(source)
        self._set_identities()
        if self._durable.has_begun:
            opening = self._beginning.going_on(self.progress, starts=starts)
        else:
            opening = self._first(source)
        reads = opening is not None
        if reads:
            time.sleep(self.settings.snapshots.delay_seconds)
        while opening is not None:
            self.requests.read_whole(opening, report)
            opening = self._beginning.going_on(self.progress, starts=False)
        progress = self.progress
        self._relations.refresh(progress.pass_number)
        if self._streams or progress.is_open:
            self._beginning.require_slot(progress)
            advance(self._conn, self.settings.slot, progress.captured_to)
        if starts and self._streams and not progress.is_open:
            self._look()
        if progress.is_open:
            self._durable.follow_to(insert_lsn(self._conn).page_aligned())
        if reads and self._streams:
            ask_to_flush(self._conn)  # what the stream is read up to, after what is told now
            time.sleep(self.settings.snapshots.streaming_delay_seconds)
        self._settle(report)
        return self.progress

    def _look(self) -> None:
        """Queue what is to be read that was not captured before."""
        if (looked := self._stream.look(self.progress)) is not None:
            self._durable.save(*looked)

    def _go_on_with(self, source: SourceIdentity) -> None:
        """The source is the one that bronze was filled from, and nobody else fills it any more."""
        progress = self.progress
        known_to = reached(self._spark, self._layout, progress)
        require_continued(self.settings.connection, progress.source, source, known_to)
        require_not_set_back(self._conn, source, progress.captured_to)
        if self._streams or progress.is_open:
            self._beginning.require_same_past(progress)
        progress = self._durable.hold(replace(progress, source=source))
        told = () if progress.is_open else progress.untold
        self.requests.tell(at_once=True)  # before another pass takes it over: it may have been told, and not twice
        if self._streams:
            self._durable.take_over(told)

    def _first(self, source: SourceIdentity) -> Opening | None:
        """What begins the lake: a reading of tables, or if there is none to be, its first progress."""
        first = self._beginning.first(source)
        if isinstance(first, Opening):
            return first
        catalog = read_relations(self._conn, self.settings.publication, self.settings.selection)
        self._durable.save(first, tuple(catalog.values()))
        return None

    def _settle(self, report: Callable[[CaptureStep], None]) -> None:
        """Tell what is to be told; without a stream, bring the snapshot to one position and let go of its slot."""
        if not self._streams:
            if self.progress.is_open:
                self._run(self._durable.closing, report)
            drop_slot(self._conn, self.settings.slot)
        self.requests.tell()

    def _set_identities(self) -> None:
        """Before tables are published: without a usable identity, published ones take no updates and deletes."""
        settings = self.settings
        if settings.identities.entries:
            via_root = publishes_roots(self._conn, settings.publication, otherwise=settings.via_partition_root)
            tables = captured_tables(self._conn, settings.selection, via_root=via_root)
            set_identities(self._conn, tables, settings.identities)

    def target(self) -> Lsn:
        """The server's flushed LSN: nothing before it can be lost in a crash of the server. A heartbeat comes first.

        Without a stream, where bronze ends.
        """
        if not self._streams:
            return self.progress.captured_to
        if self._heartbeat is not None:
            self._heartbeat.beat_if_due(self._conn)
        return readable_lsn(self._conn)

    def is_idle(self, target: Lsn) -> bool:
        """True if there is nothing to capture before ``target``, without writing anything."""
        if target <= self.progress.captured_to:
            return True
        return not has_frames(
            self.settings.connection, self._conn, self.settings.slot, self.settings.publication, target
        )

    def run(self, target: Lsn, report: Callable[[CaptureStep], None]) -> Progress:
        """Passes until every commit that starts before ``target`` is in bronze. Returns the last progress.

        Raises NotStreamingError if the mode does not stream and bronze ends before the target.
        """
        if not self._streams and target > self.progress.captured_to:
            raise NotStreamingError("snapshot.mode does not stream: bronze stays where its snapshot was taken.")
        progress = self._run(max(target, self._durable.closing), report)
        self.requests.tell()
        return progress

    def _run(self, target: Lsn, report: Callable[[CaptureStep], None]) -> Progress:
        wait_flushed(self._conn, target, self.settings.flush_timeout_seconds)
        while self.progress.captured_to < target:
            written = self._pass(self._end_of_pass(target), target, report)
            assert written, "no chunks are being read"
        progress = self.progress
        if progress.is_open and not progress.is_reading:  # the source wrote nothing since the snapshots were read
            progress = self._durable.hold(progress.closed())
            if progress.untold or not self.requests.any_readable:
                progress = self._durable.save(progress)
        return progress

    def _follow(self, report: Callable[[CaptureStep], None]) -> bool:
        """One pass of the stream, if there is something; False if it has to wait for the chunks that are read."""
        target = self.target()
        return self.is_idle(target) or self._pass(self._end_of_pass(target), target, report)

    def _end_of_pass(self, target: Lsn) -> Lsn:
        return min(target, Lsn(self.progress.captured_to + self.settings.max_pass_bytes))

    def _pass(self, end: Lsn, target: Lsn, report: Callable[[CaptureStep], None]) -> bool:
        """False, and nothing was done, if it has to wait for chunks that are being read."""
        require_unpromoted(self._conn, was_standby=self._on_standby)
        slot = self._beginning.require_slot(self.progress)
        written = self._stream.read(self.progress, end, slot, closes=self._durable.is_closed_by(end))
        if written is None:
            return False
        self._durable.came(written)  # whatever becomes of the slot
        advance(self._conn, self.settings.slot, written.captured_to)
        if written.coverage is not None and written.coverage.wanted and not written.awaited:
            self._look()
        report(CaptureStep(written, target, dict(written.counts).get("changes", 0)))
        return True
