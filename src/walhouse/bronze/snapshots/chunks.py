"""One pass that reads chunks of a table, each in a transaction and a snapshot of its own.

Invariant: the chunks' rows, what describes them and the progress that counts them are one Delta commit.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from walhouse.bronze.masking import MaskBook
from walhouse.bronze.rows import ChunkRows, progress_row, relation_rows, snapshot_rows
from walhouse.lsn import Lsn
from walhouse.pgoutput.blocks import Blocks
from walhouse.pgoutput.copy_text import images_of_copy
from walhouse.postgres.connection import connect
from walhouse.postgres.copy_out import BLOCKS, BYTES
from walhouse.postgres.key_chunks import read_chunk
from walhouse.postgres.wal import wait_flushed

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from walhouse.bronze.progress import Progress
    from walhouse.config.connection import ConnectionSettings
    from walhouse.config.masks import Masks
    from walhouse.pgoutput.relation import RelationDescription
    from walhouse.postgres.connection import Connection
    from walhouse.postgres.key_chunks import ChunkSnapshot, KeyChunk


@dataclass(frozen=True)
class KeyChunksPlan:
    """Groups of chunks, each group read by one task, and the rows that complete the pass."""

    settings: ConnectionSettings
    groups: tuple[tuple[KeyChunk, ...], ...]
    snapshot_id: str
    announced: tuple[RelationDescription, ...]
    """Descriptions that the chunks' rows need and bronze lacks."""
    captured_at: int
    progress: Progress
    masks: Masks
    flush_timeout_seconds: float
    on_standby: bool

    @property
    def parts(self) -> int:
        """One task a group, and one for the relation and progress rows."""
        return len(self.groups) + 1

    def batches(self, part: int) -> Iterator[pa.RecordBatch]:
        """The rows of one part."""
        if part < len(self.groups):
            with closing(connect(self.settings)) as connection:
                yield from self._group(connection, self.groups[part])
            return
        progress = self.progress
        if self.announced:
            yield relation_rows(self.announced, progress.pass_number, progress.captured_to, self.captured_at)
        yield progress_row(progress, self.captured_at)

    def _group(self, connection: Connection, chunks: tuple[KeyChunk, ...]) -> Iterator[pa.RecordBatch]:
        # a standby that was restarted stands behind what it had shown for a moment: its rows would be older than bronze
        wait_flushed(connection, self.progress.captured_to, self.flush_timeout_seconds)
        masks, last, gathered = MaskBook(self.masks), Lsn(0), Gathered()
        for chunk in chunks:
            for snapshot, blocks in read_chunk(connection, chunk, on_standby=self.on_standby):
                last = max(last, snapshot.lsn)
                gathered.add(chunk, snapshot, blocks)
                if gathered.is_too_much:
                    yield self._batch(gathered, masks, chunk.table.relation)
            if gathered.is_full:  # its transaction is over: what becomes of the rows is not the source's concern
                yield self._batch(gathered, masks, chunk.table.relation)
        if len(gathered.blocks):
            yield self._batch(gathered, masks, chunks[-1].table.relation)
        # what the snapshots saw is safe only now; an error here, and none of it counts
        wait_flushed(connection, last, self.flush_timeout_seconds)

    def _batch(self, gathered: Gathered, masks: MaskBook, relation: RelationDescription) -> pa.RecordBatch:
        blocks, parts = gathered.take()
        rows = snapshot_rows(
            images_of_copy(blocks, len(relation.columns)),
            relation,
            parts,
            pass_number=self.progress.pass_number,
            snapshot_id=self.snapshot_id,
            xid=None,
            captured_at=self.captured_at,
        )
        return masks.masked(rows, {relation.version: relation})


class Gathered:
    """Rows of neighbouring chunks that become one batch: chunks may be small, and a batch has its price."""

    def __init__(self) -> None:
        self.blocks = Blocks()
        self._parts: list[ChunkRows] = []
        self._last: ChunkRows | None = None

    def add(self, chunk: KeyChunk, snapshot: ChunkSnapshot, blocks: Blocks) -> None:
        """The next rows of a chunk, one a block; they are taken: none is left."""
        before = self._last
        first = before.first_row + before.rows if before is not None and before.chunk == chunk.number else 0
        self._last = ChunkRows(chunk.number, str(snapshot.visibility), snapshot.lsn, first, len(blocks))
        self._parts.append(self._last)
        self.blocks.take_from(blocks)

    @property
    def is_full(self) -> bool:
        """Whether it is a batch of the size that one large chunk has."""
        return self.blocks.size >= BYTES or len(self.blocks) >= BLOCKS

    @property
    def is_too_much(self) -> bool:
        """Whether the rest of a chunk is too much for the same batch."""
        return 2 * self.blocks.size >= 3 * BYTES or 2 * len(self.blocks) >= 3 * BLOCKS

    def take(self) -> tuple[Blocks, list[ChunkRows]]:
        """All so far."""
        taken = self.blocks, self._parts
        self.blocks, self._parts = Blocks(), []
        return taken
