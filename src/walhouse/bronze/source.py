"""PostgreSQL read by Spark tasks: one bounded range of the WAL, and the chunks of a snapshot.

Invariant: what a task needs, the connection's secret among it, travels inside the pickled plan; never as an option,
so that neither a query plan nor a log can show it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from walhouse.bronze.failure import in_task
from walhouse.bronze.masking import MaskBook
from walhouse.bronze.rows import ChunkRows, base_rows, progress_row, relation_rows, snapshot_rows
from walhouse.bronze.snapshots.queue import REPAIR, QueuedTable
from walhouse.bronze.table import COLUMNS
from walhouse.bronze.worker import without_pandas
from walhouse.lakehouse.session import started_here
from walhouse.pgoutput.copy_text import images_of_copy
from walhouse.pgoutput.decoder import Decoder, DecoderPlan
from walhouse.pgoutput.frames import frames_from_copy
from walhouse.pgoutput.row import MESSAGE_SEQ
from walhouse.postgres.connection import LOCK_TIMEOUT_SECONDS
from walhouse.postgres.pieces import pieces_blocks
from walhouse.postgres.snapshot import Chunk, LockHolder, chunk_blocks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from walhouse.bronze.progress import Progress
    from walhouse.config.connection import ConnectionSettings
    from walhouse.config.filters import NameFilter
    from walhouse.config.masks import Masks
    from walhouse.lsn import Lsn
    from walhouse.names import TableName
    from walhouse.pgoutput.blocks import Blocks
    from walhouse.pgoutput.relation import RelationDescription
    from walhouse.pgoutput.selection import TableSelection


@dataclass(frozen=True)
class WalRangePlan:
    """One range of the WAL: what to peek, how to decode it, and the progress that it amounts to."""

    settings: ConnectionSettings
    slot: str
    publication: str
    pieces: tuple[Lsn, ...]
    """Where the pieces end in which the server decodes the range."""
    decoder: DecoderPlan
    selection: TableSelection
    messages: NameFilter
    masks: Masks
    announced: tuple[RelationDescription, ...]
    """Descriptions that the catalog has and bronze lacks: a new column shows here before any change has it."""
    progress: Progress
    completes: bool
    """Whether rows that came without all of their values may be read."""

    def batches(self, part: int) -> Iterator[pa.RecordBatch]:
        """Announced relations, then the range's rows, then the progress row."""
        del part
        captured_at, window = self.decoder.captured_at, self.decoder.window
        if self.announced:
            yield relation_rows(self.announced, self.progress.pass_number, window.end, captured_at)
        decoder = Decoder(self.decoder, self.selection)
        masks = MaskBook(self.masks)
        lone_messages = {lsn for lsn in self.decoder.seen_messages if lsn >= window.end}

        def finished(rows: pa.RecordBatch) -> pa.RecordBatch:
            lone_messages.update(_lone_messages(rows, window.end))
            return masks.masked(without_unwanted_messages(rows, self.messages), decoder.relations)

        for blocks in pieces_blocks(self.settings, self.slot, self.publication, window.start, self.pieces):
            yield from map(finished, decoder.decode(frames_from_copy(blocks)))
        counts = {name: int(value) for name, value in asdict(decoder.finish()).items() if value is not None}
        counts["relations"] += len(self.announced)
        incomplete = sorted(decoder.incomplete) if self.completes else ()
        progress = replace(
            self.progress,
            queue=self.progress.queue.with_finished(QueuedTable(REPAIR, table, own=True) for table in incomplete),
            counts=tuple(counts.items()),
            messages=tuple(sorted(lone_messages)),
            last=decoder.last,
            coverage=None if self.progress.coverage is None else self.progress.coverage.with_lacking(decoder.left_out),
        )
        yield progress_row(progress, captured_at)

    @property
    def parts(self) -> int:
        """A slot has one reader at a time."""
        return 1


@dataclass(frozen=True)
class SnapshotPlan:
    """A snapshot: groups of chunks, each group read by one task, and the rows that complete it."""

    settings: ConnectionSettings
    exported: str
    """Name of the exported snapshot that every task reads in."""
    groups: tuple[tuple[Chunk, ...], ...]
    relations: tuple[RelationDescription, ...]
    snapshot_id: str
    visibility: str
    at: Lsn
    pass_number: int
    captured_at: int
    progress: Progress | None
    masks: Masks
    for_events: bool
    """Whether the rows have what events show of masked columns, too; a proof compares what gold holds."""
    xid: int | None = None
    """A transaction of the snapshot's time, for ``source.txId``; not the reader's own, which stays open."""
    lock_holder: LockHolder | None = None
    """Who keeps the tables from being rewritten until they are read."""
    lock_timeout_seconds: float = LOCK_TIMEOUT_SECONDS
    """How long a task waits for a table's lock."""
    bases: tuple[tuple[TableName, int], ...] = ()
    """Tables whose reading begins, each with a number of a chunk of its own."""
    announced: tuple[RelationDescription, ...] = ()
    """Those of ``relations`` that bronze lacks."""
    expressions: tuple[str, ...] | None = None
    """SQL for each column in place of the column itself (a proof asks for a float's bits)."""

    @property
    def parts(self) -> int:
        """One task a group, and one for the relation and progress rows."""
        return len(self.groups) + 1

    def batches(self, part: int) -> Iterator[pa.RecordBatch]:
        """The rows of one part."""
        if part < len(self.groups):
            for chunk in self.groups[part]:
                yield from self._chunk(chunk)
            return
        if self.announced:
            yield relation_rows(self.announced, self.pass_number, self.at, self.captured_at)
        if self.bases:
            described = {relation.name: relation for relation in self.relations}
            yield base_rows(
                [(described[table], number) for table, number in self.bases],
                pass_number=self.pass_number,
                snapshot_id=self.snapshot_id,
                visibility=self.visibility,
                at=self.at,
                captured_at=self.captured_at,
            )
        if self.progress is not None:
            yield progress_row(self.progress, self.captured_at)

    def _chunk(self, chunk: Chunk) -> Iterator[pa.RecordBatch]:
        relation = next(each for each in self.relations if each.name == chunk.table)
        rows = 0
        masks = MaskBook(self.masks)
        for blocks in chunk_blocks(
            self.settings,
            self.exported,
            relation,
            chunk,
            expressions=self.expressions,
            lock_holder=self.lock_holder,
            lock_timeout_seconds=self.lock_timeout_seconds,
        ):
            part = ChunkRows(chunk.number, self.visibility, self.at, rows, len(blocks))
            rows += part.rows
            yield self._rows(blocks, relation, part, masks)

    def _rows(self, blocks: Blocks, relation: RelationDescription, part: ChunkRows, masks: MaskBook) -> pa.RecordBatch:
        rows = snapshot_rows(
            images_of_copy(blocks, len(relation.columns)),
            relation,
            [part],
            pass_number=self.pass_number,
            snapshot_id=self.snapshot_id,
            xid=self.xid,
            captured_at=self.captured_at,
        )
        return masks.masked(rows, {relation.version: relation}, for_events=self.for_events)


def _lone_messages(rows: pa.RecordBatch, end: Lsn) -> list[int]:
    """LSNs of the non-transactional messages at or past the range's end: they may be sent again in the next range."""
    of_no_commit = pc.equal(rows["seq"], MESSAGE_SEQ)
    late = pc.and_kleene(of_no_commit, pc.greater_equal(rows["commit_lsn"], int(end)))
    lsns: list[int] = rows["commit_lsn"].filter(late).to_pylist()
    return lsns


def without_unwanted_messages(rows: pa.RecordBatch, wanted: NameFilter) -> pa.RecordBatch:
    """Without the messages whose prefix the configuration leaves out. A batch has few prefixes, if any."""
    prefixes = pc.struct_field(rows["message"], "prefix")
    unwanted = [
        prefix for prefix in pc.unique(prefixes).to_pylist() if prefix is not None and not wanted.matches(prefix)
    ]
    if not unwanted:
        return rows
    keep = pc.invert(pc.is_in(prefixes, pa.array(unwanted, pa.string())))
    return rows.filter(keep)


class Plan(Protocol):
    """What is read: a number of parts, each by one task."""

    @property
    def parts(self) -> int:
        """How many parts."""
        ...

    def batches(self, part: int) -> Iterator[pa.RecordBatch]:
        """The rows of one part."""
        ...


LARGE: Final = 32 * 1024 * 1024
"""Bytes of a batch. Lists of blocks end with the one that reaches 16 MiB: only a long row makes more of them."""


def letting_go(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The batches, with an empty one before and after each large one.

    PySpark's worker keeps the first batch to the end, and each until the next one is there: of several rows of
    100 MiB in a row it would hold one while the next is received. Whatever makes the batches must not keep them either.
    """
    for batch in batches:
        if batch.nbytes < LARGE:
            yield batch
            continue
        nothing = pa.RecordBatch.from_pylist([], batch.schema)
        yield nothing
        yield batch
        del batch
        yield nothing


def load(spark: SparkSession, plan: Plan) -> DataFrame:
    """The rows of a plan, as a DataFrame with bronze's columns. Nothing is read until an action runs."""

    def rows(part: int) -> Iterator[pa.RecordBatch]:
        return letting_go(plan.batches(part))

    return by_part(spark, plan.parts, rows, COLUMNS)


def by_part(
    spark: SparkSession, parts: int, read: Callable[[int], Iterator[pa.RecordBatch]], columns: StructType | str
) -> DataFrame:
    """What ``read`` gives for each part, from 0 on, in a task for each; it is pickled with what it holds.

    Errors of ours that it raises are carried to the driver (``on_driver``).
    """

    ours = started_here(spark)

    def read_postgresql(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if ours:
            without_pandas()
        with in_task():
            for batch in numbers:
                for part in batch["id"].to_pylist():
                    yield from read(part)

    return spark.range(0, parts, 1, parts).mapInArrow(read_postgresql, columns)
