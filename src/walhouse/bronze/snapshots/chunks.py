"""One pass that reads chunks of a table, each in a transaction and a snapshot of its own.

Invariant: the chunks' rows, what describes them and the progress that counts them are one Delta commit.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from walhouse.bronze.masking import MaskBook
from walhouse.bronze.rows import progress_row, relation_rows, snapshot_rows
from walhouse.lsn import Lsn
from walhouse.pgoutput.copy_text import images_of_copy
from walhouse.postgres.connection import connect
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
    from walhouse.postgres.key_chunks import KeyChunk


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
        masks, last = MaskBook(self.masks), Lsn(0)
        for chunk in chunks:
            relation, rows = chunk.table.relation, 0
            for snapshot, blocks in read_chunk(connection, chunk, on_standby=self.on_standby):
                images = images_of_copy(blocks, len(relation.columns))
                rows_of_chunk = snapshot_rows(
                    images,
                    relation,
                    pass_number=self.progress.pass_number,
                    snapshot_id=self.snapshot_id,
                    visibility=str(snapshot.visibility),
                    chunk=chunk.number,
                    first_row=rows,
                    at=snapshot.lsn,
                    captured_at=self.captured_at,
                )
                yield masks.masked(rows_of_chunk, {relation.version: relation})
                rows += len(images)
                last = max(last, snapshot.lsn)
        # what the snapshots saw is safe only now; an error here, and none of it counts
        wait_flushed(connection, last, self.flush_timeout_seconds)
