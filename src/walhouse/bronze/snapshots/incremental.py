"""Reading queued tables by chunks, while the stream goes on between two passes.

Invariant: a pass of chunks moves the queue forward in the same Delta commit that has their rows. It leaves bronze open:
its rows may have positions that the stream has not reached, so a pass over the WAL up to there must follow.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from pyspark.sql import Observation
from pyspark.sql import functions as F  # noqa: N812  (the name everybody knows it by)

from walhouse.bronze.append import append
from walhouse.bronze.requests.notifications import Event, Notification, ScanStatus
from walhouse.bronze.snapshots.chunks import KeyChunksPlan
from walhouse.bronze.source import load
from walhouse.errors import (
    AuthenticationError,
    ConditionError,
    LockTimeoutError,
    PublicationError,
    RecoveryConflictError,
    SourceError,
    SourceUnreachableError,
    StandbyNotStreamingError,
    TableChangedError,
    WalNotFlushedError,
)
from walhouse.pgoutput.row import CHUNK_ID, Kind
from walhouse.postgres.catalog import read_relations
from walhouse.postgres.key_chunks import KeyChunk, chunk_ends, keyed_table, largest_key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from walhouse.bronze.progress import Progress
    from walhouse.bronze.settings import CaptureSettings
    from walhouse.bronze.snapshots.queue import QueuedTable, SnapshotQueue
    from walhouse.changes.relations import RelationCatalog
    from walhouse.lakehouse.layout import LakeLayout
    from walhouse.pgoutput.relation import RelationDescription
    from walhouse.postgres.connection import Connection
    from walhouse.postgres.key_chunks import KeyedTable

_OF_THE_SERVER: Final = (
    SourceUnreachableError,
    AuthenticationError,
    LockTimeoutError,
    PublicationError,
    WalNotFlushedError,
    RecoveryConflictError,
    StandbyNotStreamingError,
)
"""What is no fault of the table: the table stays queued, and the error is the run's."""

_ATTEMPTS: Final = 5
"""How often a pass is planned anew because the table's columns changed meanwhile."""


@dataclass(frozen=True, slots=True)
class ChunksRead:
    """What one step did: the progress after it, which is in bronze if ``rows`` is not None, and what to tell."""

    progress: Progress
    rows: int | None
    notifications: tuple[Notification, ...]


class IncrementalSnapshots:
    """Reads the queue of one lake, a few chunks of its first table at a time."""

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

    def step(self, progress: Progress) -> ChunksRead:
        """Read the next chunks of the first table, or find out that it cannot be read and go on without it.

        Raises what is no fault of the table: SourceUnreachableError, LockTimeoutError and their like.
        """
        head = progress.queue.head
        assert head is not None, "there must be something to read"
        for attempt in range(_ATTEMPTS):
            try:
                return self._read(progress, head)
            except TableChangedError:
                if attempt == _ATTEMPTS - 1:
                    raise
            except _OF_THE_SERVER:
                raise
            except SourceError as error:
                return self._skipped(progress, ScanStatus.SQL_EXCEPTION, error.problem)
        raise AssertionError("the last attempt returns or raises")

    def _read(self, progress: Progress, head: QueuedTable) -> ChunksRead:
        catalog = read_relations(self._conn, self._settings.publication, self._settings.selection)
        relation = next((each for each in catalog.values() if each.name == head.table), None)
        if relation is None:
            return self._skipped(
                progress, ScanStatus.UNKNOWN_SCHEMA, "the table is not captured, or not there any more"
            )
        if not relation.row_key:
            return self._skipped(progress, ScanStatus.NO_PRIMARY_KEY, "changes do not tell its rows apart")
        _require_readable_by(relation, head.key)
        table = keyed_table(
            self._conn,
            relation,
            head.key or relation.row_key,
            publication=self._settings.publication,
            condition=head.condition,
        )
        upto = head.upto or largest_key(self._conn, table)
        if upto is None:
            return self._skipped(progress, ScanStatus.EMPTY)
        return self._pass(progress, replace(head, upto=upto), table)

    def _pass(self, progress: Progress, head: QueuedTable, table: KeyedTable) -> ChunksRead:
        assert head.upto is not None
        size, count = self._settings.chunk_rows, self._settings.chunks_in_a_pass
        ends = chunk_ends(self._conn, table, head.after, head.upto, size=size, count=count)
        first = progress.queue.next_chunk
        chunks = [
            KeyChunk(table, first + place, after, end)
            for place, (after, end) in enumerate(zip((head.after, *ends[:-1]), ends, strict=True))
        ]
        read = replace(head, after=ends[-1], chunks=head.chunks + len(chunks))
        done = read.after == read.upto
        queue = progress.queue.with_head(read, chunks=len(chunks))
        upcoming = replace(
            progress.next(progress.captured_to, progress.publication),
            messages=progress.messages,
            queue=queue.after_finished_head() if done else queue,
            is_open=True,
        )
        written, rows = self._append(upcoming, f"{CHUNK_ID}{head.request}", chunks)
        told = [_told(written.queue, read, Event.IN_PROGRESS)]
        if done:
            told += _ended(
                written.queue,
                read,
                ScanStatus.SUCCEEDED,
                rows=self._rows_since(written.queue.next_chunk - read.chunks, head),
            )
        return ChunksRead(written, rows, tuple(told))

    def save(self, progress: Progress) -> Progress:
        """A pass of the progress row alone."""
        upcoming = progress.next(progress.captured_to, progress.publication)
        return self._append(replace(upcoming, messages=progress.messages), "", ())[0]

    def _append(self, upcoming: Progress, snapshot_id: str, chunks: Sequence[KeyChunk]) -> tuple[Progress, int]:
        """The progress as bronze has it, and how many rows the chunks had."""
        relations = {chunk.table.relation.version: chunk.table.relation for chunk in chunks}
        known = self._relations.versions
        plan = KeyChunksPlan(
            settings=self._settings.connection,
            groups=_groups(chunks, self._settings.snapshot_workers),
            snapshot_id=snapshot_id,
            announced=tuple(relation for version, relation in relations.items() if version not in known),
            captured_at=time.time_ns() // 1000,
            progress=upcoming,
            masks=self._settings.masks,
            flush_timeout_seconds=self._settings.flush_timeout_seconds,
        )
        seen = Observation()
        rows = load(self._spark, plan).observe(
            seen, F.count(F.when(F.col("kind") == Kind.SNAPSHOT.value, 1)).alias("rows")
        )
        return append(self._spark, self._layout, rows, upcoming), int(seen.get["rows"])

    def _rows_since(self, first_chunk: int, head: QueuedTable) -> int:
        """How many rows bronze has of this reading of the table: its chunks are numbered without a gap."""
        bronze = self._spark.table(str(self._layout.bronze)).where(F.col("kind") == Kind.SNAPSHOT.value)
        of_table = (F.col("schema_name") == head.table.schema) & (F.col("table_name") == head.table.table)
        of_request = F.col("snapshot.id") == f"{CHUNK_ID}{head.request}"
        return bronze.where(of_table & of_request & (F.col("snapshot.chunk") >= first_chunk)).count()

    def _skipped(self, progress: Progress, status: ScanStatus, reason: str | None = None) -> ChunksRead:
        head = progress.queue.tables[0]
        queue = progress.queue.after_head()
        told = _ended(queue, head, status, rows=0, reason=reason)
        return ChunksRead(replace(progress, queue=queue), None, tuple(told))


def _require_readable_by(relation: RelationDescription, key: Sequence[str] | None) -> None:
    """Raises ConditionError if rows would be left out that have no value there."""
    columns = {column.name: column for column in relation.columns}
    for name in key or ():
        if name not in columns or columns[name].nullable is not False:
            wrong = "is no captured column" if name not in columns else "may be NULL, and such rows would be left out"
            raise ConditionError(f"The surrogate key {name} of {relation.name} {wrong}.", table=str(relation.name))


def _groups(chunks: Sequence[KeyChunk], workers: int) -> tuple[tuple[KeyChunk, ...], ...]:
    """Neighbours together, one group a worker: rows that are near each other by key are then in one file."""
    size = max(1, -(-len(chunks) // workers))
    return tuple(tuple(chunks[start : start + size]) for start in range(0, len(chunks), size))


def _ended(
    queue: SnapshotQueue, table: QueuedTable, status: ScanStatus, *, rows: int, reason: str | None = None
) -> list[Notification]:
    """The table's reading has ended; so has the request, if it was its last table."""
    facts = {"scanned_collection": str(table.table), "total_rows_scanned": str(rows), "status": status.value}
    if reason is not None:
        facts["reason"] = reason
    told = [Notification(table.request, Event.TABLE_SCAN_COMPLETED, data={**_tables(queue, table), **facts})]
    if all(each.request != table.request for each in queue.tables):
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
