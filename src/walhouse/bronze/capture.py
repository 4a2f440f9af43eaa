"""Capture: from the replication slot into bronze, pass by pass.

Invariant (the order of one pass): read one bounded range of the WAL, append it and its progress row in one Delta
commit, read the progress back from bronze, and only then advance the slot, to just that.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from walhouse.bronze.append import append
from walhouse.bronze.progress import Progress, reached, read_progress
from walhouse.bronze.requests.channels import SignalChannels
from walhouse.bronze.requests.notifications import Event, Notification, notify
from walhouse.bronze.requests.signals import follow
from walhouse.bronze.snapshots.incremental import IncrementalSnapshots
from walhouse.bronze.snapshots.initial import InitialPass
from walhouse.bronze.snapshots.queue import QueuedTable
from walhouse.bronze.source import WalRangePlan, load
from walhouse.bronze.table import ensure_bronze
from walhouse.config.connector import SnapshotMode
from walhouse.errors import SlotGapError, SlotMissingError
from walhouse.lsn import Lsn, LsnRange
from walhouse.pgoutput.decoder import DecoderPlan
from walhouse.postgres.catalog import read_relations, read_types
from walhouse.postgres.heartbeat import Heartbeat
from walhouse.postgres.identity import read_identity, require_continued, require_unpromoted
from walhouse.postgres.key_chunks import keys_condition
from walhouse.postgres.probe import has_frames
from walhouse.postgres.publication import (
    captured_tables,
    has_more_tables,
    publishes_roots,
    read_publication,
    require_unchanged,
)
from walhouse.postgres.replica_identity import set_identities
from walhouse.postgres.slot import advance, find_slot, require_usable
from walhouse.postgres.standby import is_standby
from walhouse.postgres.wal import current_xid, flushed_lsn, insert_lsn, oldest_running, wait_flushed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pyspark.sql import SparkSession

    from walhouse.bronze.settings import CaptureSettings
    from walhouse.changes.relations import RelationCatalog
    from walhouse.lakehouse.layout import LakeLayout
    from walhouse.names import TableName
    from walhouse.pgoutput.relation import RelationDescription
    from walhouse.postgres.connection import Connection
    from walhouse.postgres.key_chunks import Key
    from walhouse.postgres.slot import SlotState


_TELL_SECONDS: Final = 5
"""How often it is told how far a snapshot is."""

_REPAIR: Final = "repair"
"""How the request is called that reads rows again which lack a value."""

_REPAIRS: Final = 5
"""How often rows are read again that still lack it, as one does that the publication's row filter hides."""


class CaptureStep(NamedTuple):
    """What is reported after each pass."""

    progress: Progress
    target: Lsn
    rows: int


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
        self._snapshots = IncrementalSnapshots(spark, layout, settings, relations, conn)
        self._channels = SignalChannels(spark, layout, settings.signals)
        self._untold: list[Notification] = []
        self._told_at = float("-inf")
        ensure_bronze(spark, layout)
        self._progress = read_progress(spark, layout)
        self._on_standby = is_standby(conn)
        self._closing = Lsn(0)
        """Where the stream must be before layers may use the chunks that were read."""

    def begin(self) -> Progress:
        """Make sure that bronze and slot fit together; take the initial snapshot if bronze is empty.

        Raises SourceChangedError, SlotMissingError, SlotGapError and the other errors of the slot, ConfigurationError
        and ReplicaIdentityError if the identities that were asked for cannot be set.
        """
        source = read_identity(self._settings.connection)
        if self._progress is not None:
            known_to = reached(self._spark, self._layout, self._progress)
            require_continued(self._settings.connection, self._progress.source, source, known_to)
            self._progress = replace(self._progress, source=source)
        self._set_identities()
        if self._progress is None:
            self._progress = InitialPass(self._spark, self._layout, self._settings, self._conn).run(source)
        self._relations.refresh(self._progress.pass_number)
        self._require_slot(self._progress)
        advance(self._conn, self._settings.slot, self._progress.captured_to)
        if self._progress.is_open:
            self._closing = insert_lsn(self._conn).page_aligned()
        return self._progress

    def _set_identities(self) -> None:
        """Before tables are published: without a usable identity, published ones take no updates and deletes."""
        settings = self._settings
        if settings.identities.entries:
            via_root = publishes_roots(self._conn, settings.publication, otherwise=settings.via_partition_root)
            tables = captured_tables(self._conn, settings.selection, via_root=via_root)
            set_identities(self._conn, tables, settings.identities)

    def target(self) -> Lsn:
        """The server's flushed LSN: nothing before it can be lost in a crash of the server. A heartbeat comes first."""
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
        """Passes until every commit that starts before ``target`` is in bronze. Returns the last progress."""
        progress = self._require_begun()
        target = max(target, self._closing)
        wait_flushed(self._conn, target, self._settings.flush_timeout_seconds)
        while progress.captured_to < target:
            end = min(target, Lsn(progress.captured_to + self._settings.max_pass_bytes))
            progress = self._pass(progress, end)
            report(CaptureStep(progress, target, dict(progress.counts).get("changes", 0)))
        if progress.is_open:  # the source wrote nothing since the chunks were read
            progress = self._progress = replace(progress, is_open=False)
            if not self.has_chunks:
                progress = self._save(progress)
        return progress

    @property
    def progress(self) -> Progress:
        """How far bronze is."""
        return self._require_begun()

    @property
    def has_chunks(self) -> bool:
        """Whether there is a table to be read by chunks, and it may be."""
        head = self._require_begun().queue.head
        return head is not None and (head.not_before is None or oldest_running(self._conn) >= head.not_before)

    def read_chunks(self, report: Callable[[CaptureStep], None]) -> Progress:
        """One pass of chunks, and the stream up to where their rows belong."""
        step = self._snapshots.step(self._require_begun())
        if step.rows is None:
            progress = self._save(step.progress)
        else:
            self._progress = step.progress
            self._relations.refresh(step.progress.pass_number)
            self._closing = insert_lsn(self._conn).page_aligned()
            report(CaptureStep(step.progress, self._closing, step.rows))
            progress = self.run(self._closing, report)
        self._tell(step.notifications, at_once=not self.has_chunks)
        return progress

    def _tell(self, notifications: Iterable[Notification], *, at_once: bool = True) -> None:
        """Write notifications, those of chunks not more often than each few seconds."""
        self._untold += notifications
        now = time.monotonic()
        if at_once or now - self._told_at > _TELL_SECONDS:
            untold, self._untold, self._told_at = self._untold, [], now
            notify(self._spark, self._layout, self._settings.connector, untold)

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
        """Do what signals ask for that have come since the last time."""
        progress = self._require_begun()
        found = self._channels.read(progress)
        told: list[Notification] = []
        if found.signals:
            catalog = read_relations(self._conn, self._settings.publication, self._settings.selection)
            captured = [each.name for each in catalog.values() if each.name != self._settings.signals.table]
            for signal in found.signals:
                answer = follow(signal, progress.queue, captured)
                progress = replace(progress, queue=answer.queue)
                told += answer.notifications
            self._save(replace(progress, signals=found.position))
            self._channels.forget(found)
        else:
            self._progress = replace(progress, signals=found.position)
        if told:
            self._tell(told)

    def _save(self, progress: Progress) -> Progress:
        """Make a state durable that no rows go with."""
        self._progress = self._snapshots.save(progress)
        return self._progress

    def _pass(self, progress: Progress, end: Lsn) -> Progress:
        require_unpromoted(self._conn, was_standby=self._on_standby)
        slot = self._require_slot(progress)
        upcoming = replace(
            progress.next(end, self._publication(progress)), is_open=progress.is_open and end < self._closing
        )
        catalog = read_relations(self._conn, self._settings.publication, self._settings.selection)
        added = self._added(progress.publication, upcoming.publication, catalog)
        upcoming = replace(upcoming, queue=progress.queue.add(added))
        self._layout.require_distinct(relation.name for relation in catalog.values())
        known = self._relations.versions
        announced = tuple(relation for relation in catalog.values() if relation.version not in known)
        plan = WalRangePlan(
            settings=self._settings.connection,
            slot=self._settings.slot,
            publication=self._settings.publication,
            decoder=DecoderPlan(
                window=LsnRange(progress.captured_to, end),
                pass_number=upcoming.pass_number,
                captured_at=time.time_ns() // 1000,
                next_xid=current_xid(self._conn),
                relations=catalog,
                types=read_types(self._conn),
                known_versions=known | {relation.version for relation in announced},
                seen_messages=frozenset(progress.messages),
                last=progress.last,
                transactions=self._settings.transactions,
                slot_xmin=slot.catalog_xmin if self._settings.tells_xmin else None,
            ),
            selection=self._settings.selection,
            messages=self._settings.messages,
            masks=self._settings.masks,
            announced=announced,
            progress=upcoming,
        )
        rows = load(self._spark, plan)
        if len(catalog) > 1:
            # so that who reads one table skips the files of the others; one table's rows come in this order anyway,
            # and are written while they are read
            rows = rows.sortWithinPartitions("schema_name", "table_name", "commit_lsn", "seq")
        written = append(self._spark, self._layout, rows, upcoming)
        self._progress = written  # it is in bronze, whatever becomes of the slot
        self._relations.refresh(written.pass_number)
        advance(self._conn, self._settings.slot, written.captured_to)
        if added:
            self._tell(
                Notification(each.request, Event.STARTED, data={"data_collections": str(each.table)}) for each in added
            )
        return written

    def _added(self, old: str, new: str, catalog: Mapping[int, RelationDescription]) -> list[QueuedTable]:
        """Tables that were added to the publication since the last pass: what they hold already was never sent.

        What transactions that run now wrote before the change is not sent either: their end is waited for.
        """
        if self._settings.snapshot_mode is SnapshotMode.NO_DATA or not has_more_tables(old, new):
            return []
        known = self._relations.oids
        xid = current_xid(self._conn)
        return [
            QueuedTable(f"added-{oid}", relation.name, not_before=xid)
            for oid, relation in catalog.items()
            if oid not in known and relation.name != self._settings.signals.table
        ]

    def _publication(self, progress: Progress) -> str:
        """The publication's fingerprint. Raises PublicationChangedError if changes may be missing."""
        state = read_publication(self._conn, self._settings.publication)
        require_unchanged(self._conn, progress.publication, state)
        return state.fingerprint

    def _require_slot(self, progress: Progress) -> SlotState:
        slot = find_slot(self._conn, self._settings.slot)
        if slot is None:
            raise SlotMissingError(
                f"The replication slot {self._settings.slot} does not exist, and bronze continues from "
                f"{progress.captured_to}.",
                todo="The changes since then cannot be had any more: begin a new lake, or find who dropped the slot.",
                slot=self._settings.slot,
                lsn=str(progress.captured_to),
            )
        require_usable(slot, database=self._settings.connection.database)
        if slot.confirmed_flush_lsn is None or slot.confirmed_flush_lsn > progress.captured_to:
            raise SlotGapError(
                f"The replication slot {slot.name} stands at {slot.confirmed_flush_lsn}, later than bronze, which ends "
                f"at {progress.captured_to}: the changes between are gone from the slot.",
                todo="Find who advanced the slot. Begin a new lake, or restore bronze to a version that has them.",
                slot=slot.name,
                bronze_lsn=str(progress.captured_to),
                slot_lsn=str(slot.confirmed_flush_lsn),
            )
        return slot

    def _require_begun(self) -> Progress:
        assert self._progress is not None, "begin() comes first"
        return self._progress
