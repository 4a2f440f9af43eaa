"""One pass over the WAL: a bounded range of it, with what describes it and the progress that it amounts to.

Invariant: the range begins where bronze ends; its rows and its progress are one Delta commit. Nothing is read whose
publication may have left changes out.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from walhouse.bronze.append import Order, append
from walhouse.bronze.coverage import Attempts, Coverage
from walhouse.bronze.reader import BronzeReader
from walhouse.bronze.requests.notifications import Event, Notification
from walhouse.bronze.snapshots.queue import ADDED, QueuedTable
from walhouse.bronze.snapshots.reading import WholeKind, WholeReading, WholeTable
from walhouse.bronze.source import WalRangePlan
from walhouse.lsn import LsnRange
from walhouse.pgoutput.decoder import DecoderPlan
from walhouse.postgres.catalog import read_types
from walhouse.postgres.pieces import cut
from walhouse.postgres.publication import read_publication
from walhouse.postgres.publication_change import (
    attached_to_published,
    freed_of_filters,
    has_more_tables,
    made_again,
    require_unchanged,
)
from walhouse.postgres.wal import above_all_running, current_xid

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from walhouse.bronze.progress import Progress
    from walhouse.lsn import Lsn
    from walhouse.pgoutput.relation import RelationDescription
    from walhouse.postgres.publication import PublicationState
    from walhouse.postgres.slot import SlotState


@dataclass(frozen=True, slots=True)
class Stream(BronzeReader):
    """Reads the WAL into one lake."""

    _attempts: Attempts = field(default_factory=Attempts)

    def read(self, progress: Progress, end: Lsn, slot: SlotState, *, closes: bool) -> Progress | None:
        """The range from where ``progress`` ends up to ``end``; the progress after it, as bronze has it.

        ``closes``: with it the rows of all snapshots are of use. None, and nothing is read, if there are new tables or
        columns while a pass of chunks is at work: those that it describes come first, and the queue is its own.
        Raises PublicationChangedError, NameCollisionError, and the errors of the slot and of frames.
        """
        publication, catalog = self._published(progress)
        upcoming = replace(
            progress.next(end, publication.fingerprint), coverage=self._looked(progress, publication, catalog)
        )
        upcoming = upcoming.closed() if closes else upcoming
        announced, added = self._announced(catalog.values()), self._added(upcoming, catalog)
        if progress.awaited and (announced or added or upcoming.publication != progress.publication):
            return None
        upcoming = self._with_added(upcoming, added)
        self._layout.require_distinct(relation.name for relation in catalog.values())
        plan = self._plan(progress, upcoming, slot, catalog, announced)
        # one table's rows come in their order anyway, and are written while they are read
        return append(self._spark, self._layout, plan, upcoming, Order(by_table=len(catalog) > 1)).progress

    def _plan(
        self,
        progress: Progress,
        upcoming: Progress,
        slot: SlotState,
        catalog: Mapping[int, RelationDescription],
        announced: tuple[RelationDescription, ...],
    ) -> WalRangePlan:
        """The range from where ``progress`` ends up to where ``upcoming`` does."""
        window = LsnRange(progress.captured_to, upcoming.captured_to)
        return WalRangePlan(
            settings=self._settings.connection,
            slot=self._settings.slot,
            publication=self._settings.publication,
            pieces=cut(window, slot),
            decoder=DecoderPlan(
                window=window,
                pass_number=upcoming.pass_number,
                captured_at=time.time_ns() // 1000,
                next_xid=current_xid(self._conn),
                relations=catalog,
                types=read_types(self._conn),
                known_versions=self._relations.versions | {relation.version for relation in announced},
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
            completes=self._reads,
        )

    def look(self, progress: Progress) -> tuple[Progress, Sequence[RelationDescription]] | None:
        """By a look at the source: the progress with tables in the queue that are to be read, and what these are; None
        if there is none.

        At each start, as nothing may have come to be streamed; and after a pass that left out changes of a table that
        is captured by now. Raises PublicationChangedError, NameCollisionError.
        """
        if not self._reads:
            return None
        publication, catalog = self._published(progress)
        coverage = self._looked(progress, publication, catalog)
        looked = replace(progress, publication=publication.fingerprint, coverage=coverage)
        added = self._added(looked, catalog)
        self._layout.require_distinct(relation.name for relation in added)
        return (self._with_added(looked, added), added) if added else None

    def _with_added(self, upcoming: Progress, added: Sequence[RelationDescription]) -> Progress:
        """The progress with tables to be read of which rows are missing.

        What transactions that run now wrote before the change is not sent either: their end is waited for, by the
        table's chunks, or by the slot that exports its snapshot. Without a key, layers have to wait for the rows, too:
        no change finds its row before. Of a table that bronze has rows of, under this name, nobody sent what was
        deleted meanwhile: it is read whole, in place of all that was known.
        """
        if not added:
            return upcoming
        assert upcoming.coverage is not None, "a look came before"
        coverage = upcoming.coverage.without_lacking(relation.oid for relation in added)
        upcoming, filled = replace(upcoming, coverage=coverage), self._filled()
        by_chunks = [each for each in added if each.row_key and self._layout.lake_name(each.name) not in filled]
        whole = [relation for relation in added if relation not in by_chunks]
        xid = above_all_running(self._conn) if by_chunks else None
        for relation in by_chunks:
            request = f"{ADDED}-{relation.oid}"
            table = QueuedTable(request, relation.name, not_before=xid, own=True, owed=relation.oid)
            queue = upcoming.queue.add([table])
            upcoming = replace(upcoming, queue=queue).telling(_started(request, [relation]))
        for relation in added:
            self._attempts.begin(relation.oid)
        return _with_whole(upcoming, whole) if whole else upcoming

    def _looked(
        self, progress: Progress, state: PublicationState, catalog: Mapping[int, RelationDescription]
    ) -> Coverage:
        """What is captured and what is lacking, by a look at the source."""
        before, old, new = progress.coverage, progress.publication, state.fingerprint
        names = {oid: relation.name for oid, relation in catalog.items()}
        has_more = has_more_tables(old, new)
        if before is None:  # of an earlier version: what bronze describes was captured
            captured = {relation.oid: relation.name for relation in self._relations.current()}
            lacking = set[int]()
        else:
            captured, lacking = before.names, {*before.lacking}
        other = {oid: name for oid, name in names.items() if captured.get(oid) != name}
        filled = self._filled() if other else frozenset[str]()
        for oid, name in other.items():
            if has_more or oid in captured or self._layout.lake_name(name) in filled:
                lacking.add(oid)
        lacking |= made_again(old, new) | freed_of_filters(self._conn, old, new)
        lacking |= attached_to_published(self._conn, new, other.keys() - lacking)
        return Coverage.of(names, state.existing, lacking)

    def _filled(self) -> frozenset[str]:
        """The lake's names of tables of which bronze has rows: two of the source's may have one after the other."""
        return frozenset(map(self._layout.lake_name, self._relations.by_table()))

    def _added(self, progress: Progress, catalog: Mapping[int, RelationDescription]) -> list[RelationDescription]:
        """Captured tables that are to be read, and may be now."""
        if not self._reads or progress.coverage is None:
            return []
        wanted = sorted(progress.coverage.wanted & catalog.keys())
        return [catalog[oid] for oid in wanted if self._attempts.is_due(oid)]

    @property
    def _reads(self) -> bool:
        """Whether ``snapshot.mode`` wants rows of before."""
        return self._settings.snapshots.mode.reads_data(begun=False, unfinished=False)

    def _published(self, progress: Progress) -> tuple[PublicationState, dict[int, RelationDescription]]:
        """The publication and the tables that it has, of one moment: a table that the one had and the other had not
        would be known from then on, but never read.
        """
        while True:
            state, catalog = self._publication(progress), self._catalog()
            if self._publication(progress).fingerprint == state.fingerprint:
                return state, catalog

    def _publication(self, progress: Progress) -> PublicationState:
        """The publication. Raises PublicationChangedError if changes may be missing."""
        state = read_publication(self._conn, self._settings.publication)
        require_unchanged(self._conn, progress.publication, state, self._settings.selection, reads=self._reads)
        return state


def _with_whole(upcoming: Progress, relations: Sequence[RelationDescription]) -> Progress:
    """With a reading of these tables; layers wait for it if one has no key."""
    request, queue = f"{ADDED}-{relations[0].oid}", upcoming.queue
    upcoming = upcoming.telling(_started(request, relations))
    tables = tuple(WholeTable(relation.name, owed=relation.oid) for relation in relations)
    reading = WholeReading(request, WholeKind.BLOCKING, tables, own=True)
    if all(relation.row_key for relation in relations):
        return replace(upcoming, queue=replace(queue, whole=(*queue.whole, reading)))
    reading = replace(reading, began=time.time())
    return replace(upcoming, queue=replace(queue, whole=(reading, *queue.whole))).opened()


def _started(request: str, relations: Sequence[RelationDescription]) -> Notification:
    names = ",".join(str(relation.name) for relation in relations)
    return Notification(request, Event.STARTED, data={"data_collections": names})
