"""One pass over the WAL: a bounded range of it, with what describes it and the progress that it amounts to.

Invariant: the range begins where bronze ends; its rows and its progress are one Delta commit. Nothing is read whose
publication may have left changes out.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from walhouse.bronze.append import Order, append
from walhouse.bronze.reader import BronzeReader
from walhouse.bronze.requests.notifications import Event, Notification
from walhouse.bronze.snapshots.queue import QueuedTable
from walhouse.bronze.snapshots.reading import WholeKind, WholeReading, WholeTable
from walhouse.bronze.source import WalRangePlan
from walhouse.lsn import LsnRange
from walhouse.pgoutput.decoder import DecoderPlan
from walhouse.postgres.catalog import read_types
from walhouse.postgres.pieces import cut
from walhouse.postgres.publication import has_more_tables, read_publication, require_unchanged
from walhouse.postgres.wal import above_all_running, current_xid

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from walhouse.bronze.progress import Progress
    from walhouse.lsn import Lsn
    from walhouse.pgoutput.relation import RelationDescription
    from walhouse.postgres.slot import SlotState


@dataclass(frozen=True, slots=True)
class Stream(BronzeReader):
    """Reads the WAL into one lake."""

    def read(self, progress: Progress, end: Lsn, slot: SlotState, *, closes: bool) -> Progress | None:
        """The range from where ``progress`` ends up to ``end``; the progress after it, as bronze has it.

        ``closes``: with it the rows of all snapshots are of use. None, and nothing is read, if there are new tables or
        columns while a pass of chunks is at work: those that it describes come first, and the queue is its own.
        Raises PublicationChangedError, NameCollisionError, and the errors of the slot and of frames.
        """
        publication, catalog = self._published(progress)
        upcoming = progress.next(end, publication)
        upcoming = upcoming.closed() if closes else upcoming
        announced = self._announced(catalog.values())
        if progress.awaited and (announced or upcoming.publication != progress.publication):
            return None
        upcoming = self._with_added(upcoming, self._added(progress.publication, upcoming.publication, catalog))
        self._layout.require_distinct(relation.name for relation in catalog.values())
        window = LsnRange(progress.captured_to, end)
        plan = WalRangePlan(
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
        )
        # one table's rows come in their order anyway, and are written while they are read
        return append(self._spark, self._layout, plan, upcoming, Order(by_table=len(catalog) > 1)).progress

    def _with_added(self, upcoming: Progress, added: Sequence[RelationDescription]) -> Progress:
        """The progress with tables to be read that were added to the publication: what they hold was never sent.

        What transactions that run now wrote before the change is not sent either: their end is waited for, by the
        table's chunks, or by the slot that exports its snapshot. Without a key, layers have to wait for the rows, too:
        no change finds its row before.
        """
        xid = above_all_running(self._conn) if added else None
        for relation in added:
            request, queue = f"added-{relation.oid}", upcoming.queue
            note = Notification(request, Event.STARTED, data={"data_collections": str(relation.name)})
            if relation.row_key:
                queue = queue.add([QueuedTable(request, relation.name, not_before=xid)])
                upcoming = replace(upcoming, queue=queue).telling(note)
            else:
                reading = WholeReading(request, WholeKind.BLOCKING, (WholeTable(relation.name),), began=time.time())
                queue = replace(queue, whole=(reading, *queue.whole))
                upcoming = replace(upcoming, queue=queue).telling(note).opened()
        return upcoming

    def _added(self, old: str, new: str, catalog: Mapping[int, RelationDescription]) -> list[RelationDescription]:
        """Tables that were added to the publication since the last pass."""
        reads = self._settings.snapshots.mode.reads_data(begun=False, unfinished=False)
        if not reads or not has_more_tables(old, new):
            return []
        known = self._relations.oids
        return [
            relation
            for oid, relation in catalog.items()
            if oid not in known and relation.name != self._settings.signals.table
        ]

    def _published(self, progress: Progress) -> tuple[str, dict[int, RelationDescription]]:
        """The publication's fingerprint and the tables that it has, of one moment: a table that the one had and the
        other had not would be known from then on, but never read.
        """
        while True:
            publication, catalog = self._publication(progress), self._catalog()
            if self._publication(progress) == publication:
                return publication, catalog

    def _publication(self, progress: Progress) -> str:
        """The publication's fingerprint. Raises PublicationChangedError if changes may be missing."""
        state = read_publication(self._conn, self._settings.publication)
        require_unchanged(self._conn, progress.publication, state)
        return state.fingerprint
