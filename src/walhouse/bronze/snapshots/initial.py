"""The first pass: where capture begins.

Invariant: the stream begins exactly where the snapshot ends. Every row of the initial snapshot is read in one exported
snapshot that a replication slot's creation made, which sees just the commits that start before the slot's consistent
point; the stream is captured from that very point.

If the configured slot exists already (the user's, or ours after a crash in mid-snapshot), a temporary slot exports the
snapshot; what the configured slot still holds from before it is part of the snapshot and is passed over.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from walhouse.bronze.append import append
from walhouse.bronze.progress import Progress
from walhouse.bronze.snapshots.queue import SnapshotQueue
from walhouse.bronze.source import SnapshotPlan, load
from walhouse.config.connector import SnapshotMode
from walhouse.postgres.catalog import read_relations
from walhouse.postgres.publication import ensure_publication, read_publication
from walhouse.postgres.slot import create_slot, created_slot, find_slot, require_usable
from walhouse.postgres.snapshot import Chunk, LockHolder, imported_snapshot, locked_tables, plan_chunks, visibility_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import SparkSession

    from walhouse.bronze.settings import CaptureSettings
    from walhouse.lakehouse.layout import LakeLayout
    from walhouse.lsn import Lsn
    from walhouse.pgoutput.relation import RelationDescription
    from walhouse.postgres.connection import Connection
    from walhouse.postgres.identity import SourceIdentity


class InitialPass:
    """Begins capture in an empty bronze."""

    def __init__(self, spark: SparkSession, layout: LakeLayout, settings: CaptureSettings, conn: Connection) -> None:
        self._spark = spark
        self._layout = layout
        self._settings = settings
        self._conn = conn

    def run(self, source: SourceIdentity) -> Progress:
        """Publication, slot, snapshot rows and the first progress row. Returns the progress as bronze has it."""
        ensure_publication(
            self._conn,
            self._settings.publication,
            self._settings.publication_mode,
            self._settings.selection,
            via_root=self._settings.via_partition_root,
        )
        relations = self._relations()
        self._layout.require_distinct(relation.name for relation in relations.values())
        if self._settings.snapshot_mode is SnapshotMode.NO_DATA:
            return self._without_data(source, relations)
        return self._with_data(source)

    def _relations(self) -> Mapping[int, RelationDescription]:
        return read_relations(self._conn, self._settings.publication, self._settings.selection)

    def _progress(self, source: SourceIdentity, at: Lsn) -> Progress:
        publication = read_publication(self._conn, self._settings.publication)
        return Progress(1, at, source, self._settings.slot, publication.fingerprint)

    def _slot_exists(self) -> Lsn | None:
        slot = find_slot(self._conn, self._settings.slot)
        if slot is None:
            return None
        require_usable(slot, database=self._settings.connection.database)
        return slot.confirmed_flush_lsn

    def _without_data(self, source: SourceIdentity, relations: Mapping[int, RelationDescription]) -> Progress:
        begin = self._slot_exists()
        if begin is None:
            begin = create_slot(self._conn, self._settings.slot)
        progress = self._progress(source, begin)
        return self._append(
            self._plan(
                exported="", groups=(), relations=relations.values(), visibility="", at=begin, progress=progress
            ),
            progress,
        )

    def _with_data(self, source: SourceIdentity) -> Progress:
        tables = sorted(relation.name for relation in self._relations().values())
        temporary = self._slot_exists() is not None
        slot = f"{self._settings.slot[:50]}_snapshot" if temporary else self._settings.slot
        # The locks come before the slot: no ALTER or TRUNCATE can then fall between the snapshot and its reading.
        with (
            locked_tables(self._settings.connection, tables) as locks,
            created_slot(self._settings.connection, slot, temporary=temporary) as exported,
            imported_snapshot(self._settings.connection, exported.name) as reading,
        ):
            relations = self._relations()
            chunks = [
                chunk
                for relation in sorted(relations.values(), key=lambda each: each.name)
                for chunk in plan_chunks(
                    reading, relation, self._settings.snapshot_chunk_pages, publication=self._settings.publication
                )
            ]
            at = exported.consistent_point
            in_a_table = Counter(chunk.table for chunk in chunks)
            queue = SnapshotQueue(next_chunk=max(in_a_table.values(), default=0))
            progress = replace(self._progress(source, at), queue=queue)
            visibility = str(visibility_of(reading))
            groups = group_chunks(chunks, self._settings.snapshot_chunk_pages)
            return self._append(
                self._plan(
                    exported=exported.name,
                    groups=groups,
                    relations=relations.values(),
                    visibility=visibility,
                    at=at,
                    progress=progress,
                    locks=locks,
                ),
                progress,
            )

    def _plan(
        self,
        *,
        exported: str,
        groups: tuple[tuple[Chunk, ...], ...],
        relations: Iterable[RelationDescription],
        visibility: str,
        at: Lsn,
        progress: Progress,
        locks: LockHolder | None = None,
    ) -> SnapshotPlan:
        return SnapshotPlan(
            settings=self._settings.connection,
            exported=exported,
            groups=groups,
            relations=tuple(relations),
            snapshot_id=f"initial-{at}",
            visibility=visibility,
            at=at,
            pass_number=progress.pass_number,
            captured_at=time.time_ns() // 1000,
            progress=progress,
            lock_holder=locks,
            masks=self._settings.masks,
            for_events=True,
        )

    def _append(self, plan: SnapshotPlan, progress: Progress) -> Progress:
        rows = load(self._spark, plan)
        if self._settings.snapshot_parallelism:
            rows = rows.coalesce(self._settings.snapshot_parallelism)
        return append(self._spark, self._layout, rows, progress)


def group_chunks(chunks: Iterable[Chunk], pages: int) -> tuple[tuple[Chunk, ...], ...]:
    """Chunks for one task each: many small tables share a task, so that a thousand of them are not a thousand tasks."""
    groups: list[list[Chunk]] = []
    size = 0
    for chunk in chunks:
        weight = max(chunk.pages, 1)
        if not groups or size + weight > pages:
            groups.append([])
            size = 0
        groups[-1].append(chunk)
        size += weight
    return tuple(tuple(group) for group in groups)
