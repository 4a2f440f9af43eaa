"""How capture begins and goes on: publication, slot, and what is to be read whole before the stream.

Invariant: bronze and slot fit together, or capture does not go on. Where changes were lost, all tables are read anew
and the loss is told, if ``snapshot.mode`` says so; else the loss is an error.
"""

from __future__ import annotations

import logging
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING

from walhouse.bronze.coverage import Coverage
from walhouse.bronze.progress import Progress
from walhouse.bronze.requests.notifications import INITIAL, Event, Notification
from walhouse.bronze.snapshots.reading import WholeKind, WholeReading, WholeTable
from walhouse.bronze.snapshots.whole import Opening
from walhouse.config.values import AutocreateMode
from walhouse.errors import (
    PublicationChangedError,
    PublicationMissingError,
    SlotGapError,
    SlotInvalidatedError,
    SlotMissingError,
    SnapshotUnfinishedError,
    SourceError,
)
from walhouse.lsn import Lsn
from walhouse.pgoutput.transactions import NOTHING_YET
from walhouse.postgres.catalog import read_relations
from walhouse.postgres.identity import require_same_commit
from walhouse.postgres.probe import SentCommit, last_commit_sent
from walhouse.postgres.publication import (
    add_captured_tables,
    ensure_publication,
    find_publication,
    read_publication,
)
from walhouse.postgres.publication_change import is_unaltered, require_unchanged
from walhouse.postgres.slot import create_slot, drop_slot, find_slot, require_all_from, require_usable
from walhouse.postgres.wal import readable_lsn

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from walhouse.bronze.settings import CaptureSettings
    from walhouse.config.filters import NameFilter
    from walhouse.lakehouse.layout import LakeLayout
    from walhouse.names import TableName
    from walhouse.postgres.connection import Connection
    from walhouse.postgres.identity import SourceIdentity
    from walhouse.postgres.slot import SlotState

log = logging.getLogger("walhouse.capture")

LOSSES = (SlotMissingError, SlotInvalidatedError, SlotGapError, PublicationChangedError, PublicationMissingError)
"""What means that changes are gone that bronze does not have."""


class Beginning:
    """Decides what a start is to do."""

    def __init__(self, layout: LakeLayout, settings: CaptureSettings, conn: Connection) -> None:
        self._layout = layout
        self._settings = settings
        self._conn = conn

    def first(self, source: SourceIdentity) -> Opening | Progress:
        """What begins a lake: the publication, and tables to read; without any, the progress before the first pass."""
        self._ensure_publication()
        tables = self._captured()
        slot = self._slot()

        def progress_at(at: Lsn) -> Progress:
            publication, coverage = self._published(tables)
            return Progress(0, at, source, self._settings.slot, publication, coverage=coverage)

        if self._settings.snapshots.mode.reads_data(begun=False, unfinished=False):
            reading = self._reading(tables)
            name = None if slot is not None else self._settings.slot
            return Opening(reading, name, lambda at: self._with(progress_at(at), reading))
        if slot is None:
            return progress_at(create_slot(self._conn, self._settings.slot, failover=self._settings.failover))
        assert slot.confirmed_flush_lsn is not None, "a logical slot has a position"
        return progress_at(slot.confirmed_flush_lsn)

    def going_on(self, progress: Progress, *, starts: bool) -> Opening | None:
        """What is to be read before the stream goes on; None if nothing is. ``starts``: a command began just now.

        Raises the errors of the slot and of the publication, SnapshotUnfinishedError.
        """
        mode = self._settings.snapshots.mode
        streams = mode.streams()
        settings = self._settings
        try:
            if streams or progress.is_open:
                self.require_slot(progress)
            if starts and streams and settings.publication_mode is AutocreateMode.FILTERED:
                add_captured_tables(self._conn, settings.publication, settings.selection)
            if mode.reads_after_loss():
                state = read_publication(self._conn, settings.publication)
                require_unchanged(self._conn, progress.publication, state, settings.selection, reads=True)
        except LOSSES as loss:
            if not mode.reads_after_loss():
                raise
            return self._after_loss(progress, loss)
        reading = progress.queue.whole[0] if progress.queue.whole else None
        if reading is not None and progress.is_reading:
            if reading.kind is WholeKind.INITIAL and not mode.reads_data(begun=True, unfinished=True):
                raise SnapshotUnfinishedError(
                    f"The initial snapshot of this lake is not read to its end ({len(reading.tables)} tables are left),"
                    " and snapshot.mode does not allow to go on with it.",
                    tables=len(reading.tables),
                )
            return Opening(reading, None, lambda _: progress)
        if starts and mode.reads_data(begun=True, unfinished=False):
            tables = self._captured()
            reading = self._reading(tables)
            if streams:
                return Opening(reading, None, lambda _: self._with(progress, reading))
            return self._from_here(progress, tables, reading)
        return None

    def require_slot(self, progress: Progress) -> SlotState:
        """The slot, if it goes on where bronze ends. Raises the errors of the slot, SlotMissingError, SlotGapError."""
        slot = find_slot(self._conn, self._settings.slot)
        if slot is None:
            raise SlotMissingError(
                f"The replication slot {self._settings.slot} does not exist, and bronze continues from "
                f"{progress.captured_to}.",
                todo=self._renamed(progress),
                slot=self._settings.slot,
                lsn=str(progress.captured_to),
            )
        require_usable(slot, database=self._settings.connection.database)
        require_all_from(slot, progress.captured_to)
        return slot

    def require_same_past(self, progress: Progress) -> None:
        """Where the slot stands before the end of bronze, it sends again what bronze has of there.

        That is so after a crash; and where the server was set back with its files and went on, there is something else.
        Not asked where the slot is lost (``going_on`` tells), of a standby that is not there yet, and where the
        publication was altered since, which by this name may not have been there then. Raises SourceChangedError.
        """
        try:
            slot = self.require_slot(progress)
        except LOSSES:
            return
        name, end, last = self._settings.publication, progress.captured_to, progress.last
        if slot.confirmed_flush_lsn == end or not last.lsn or readable_lsn(self._conn) < end:
            return
        publication = find_publication(self._conn, name)
        if publication is None or not is_unaltered(progress.publication, publication.fingerprint):
            return
        sent = last_commit_sent(self._settings.connection, self._conn, slot.name, name, end)
        is_after_slot = slot.confirmed_flush_lsn is not None and last.lsn >= slot.confirmed_flush_lsn
        require_same_commit(sent, SentCommit(Lsn(last.lsn), last.commit_ts) if is_after_slot else None, end)

    def _renamed(self, progress: Progress) -> str | None:
        """What to do if it is only the name that is another."""
        if progress.slot == self._settings.slot or find_slot(self._conn, progress.slot) is None:
            return None
        return f"The slot that bronze was begun with is there, {progress.slot}: set slot.name back."

    def _after_loss(self, progress: Progress, loss: SourceError) -> Opening:
        """All tables anew, from a slot that holds what comes after them."""
        if isinstance(loss, SlotInvalidatedError):
            drop_slot(self._conn, self._settings.slot)
        self._ensure_publication()
        tables = self._captured()
        return self._from_here(progress, tables, self._reading(tables, wanted=False), loss)

    def _from_here(
        self,
        progress: Progress,
        tables: Mapping[TableName, int],
        reading: WholeReading,
        loss: SourceError | None = None,
    ) -> Opening:
        """The tables anew, and the stream from there on, whatever was before."""

        def progress_at(at: Lsn) -> Progress:
            publication, coverage = self._published(tables)
            jumped = replace(
                self._with(progress, reading),
                captured_to=at,
                publication=publication,
                messages=(),
                last=NOTHING_YET,
                coverage=coverage,
            )
            if loss is None:
                return jumped
            log.warning("Changes from %s to %s are lost; all tables are read anew.", progress.captured_to, at)
            facts = {"reason": loss.problem, "lost_from": str(progress.captured_to), "lost_to": str(at)}
            return jumped.telling(Notification(reading.request, Event.CHANGES_LOST, INITIAL, facts))

        slot = find_slot(self._conn, self._settings.slot)
        return Opening(reading, self._settings.slot if slot is None else None, progress_at)

    @staticmethod
    def _with(progress: Progress, reading: WholeReading) -> Progress:
        """The reading comes before all others; an initial one that was not finished is part of it."""
        others = (each for each in progress.queue.whole if each.kind is not WholeKind.INITIAL)
        return replace(progress, queue=replace(progress.queue, whole=(reading, *others)))

    def _reading(self, captured: Mapping[TableName, int], *, wanted: bool = True) -> WholeReading:
        """``wanted``: only tables of ``snapshot.include.collection.list``; where changes were lost, all count."""
        snapshots = self._settings.snapshots
        chosen = [table for table in captured if not wanted or snapshots.tables.matches(str(table))]
        ordered = in_order(chosen, snapshots.order)
        statements = snapshots.statements
        tables = (WholeTable(table, statements.get(str(table)), owed=captured[table]) for table in ordered)
        return WholeReading(str(uuid.uuid4()), WholeKind.INITIAL, tuple(tables))

    def _captured(self) -> dict[TableName, int]:
        """The tables that are captured now, with their OIDs. Raises NameCollisionError."""
        catalog = read_relations(self._conn, self._settings.publication, self._settings.selection)
        self._layout.require_distinct(relation.name for relation in catalog.values())
        return {relation.name: oid for oid, relation in catalog.items()}

    def _published(self, tables: Mapping[TableName, int]) -> tuple[str, Coverage]:
        """The publication's fingerprint, the slot being there; and what bronze has when it begins with these tables.

        One that was made after these were chosen, and before the slot, is neither read with them nor in the stream.
        """
        state = read_publication(self._conn, self._settings.publication)
        names = {oid: name for name, oid in tables.items()}
        return state.fingerprint, Coverage.of(names, state.existing)

    def _ensure_publication(self) -> None:
        settings = self._settings
        ensure_publication(
            self._conn,
            settings.publication,
            settings.publication_mode,
            settings.selection,
            via_root=settings.via_partition_root,
        )

    def _slot(self) -> SlotState | None:
        slot = find_slot(self._conn, self._settings.slot)
        return None if slot is None else require_usable(slot, database=self._settings.connection.database)


def in_order(tables: Iterable[TableName], order: Sequence[NameFilter]) -> list[TableName]:
    """Tables of the first filter first, and by name among those of one filter. Without any by name."""

    def place(table: TableName) -> tuple[int, TableName]:
        matching = (number for number, each in enumerate(order) if each.matches(str(table)))
        return next(matching, len(order)), table

    return sorted(tables, key=place)
