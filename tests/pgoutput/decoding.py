"""Running the decoder in tests: plans, selections, and rows as dictionaries without their nulls."""

from __future__ import annotations

import tracemalloc
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tests.pgoutput.encoder import Frame, copy_blocks
from walhouse.lsn import Lsn, LsnRange
from walhouse.pgoutput.decoder import DecodedCounts, Decoder, DecoderPlan
from walhouse.pgoutput.frames import Frames, frames_from_copy
from walhouse.pgoutput.image import unpack_row
from walhouse.pgoutput.row import ROW

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from walhouse.names import TableName
    from walhouse.pgoutput.relation import RelationDescription

PASS = 7
CAPTURED_AT = 1_700_000_000_000_000
NEXT_XID = 5 * 2**32 + 1_000_000


@dataclass(frozen=True)
class Selection:
    """Captures all tables but ``left_out``, and of each table all columns but ``dropped`` and not in the key."""

    left_out: frozenset[TableName] = frozenset()
    dropped: Mapping[TableName, frozenset[str]] = field(default_factory=dict)
    reverse: bool = False

    def captures(self, name: TableName) -> bool:
        return name not in self.left_out

    def kept_columns(self, name: TableName, columns: Sequence[str], key: Sequence[str]) -> Sequence[int]:
        dropped = self.dropped.get(name, frozenset())
        kept = [place for place, column in enumerate(columns) if column in key or column not in dropped]
        return kept[::-1] if self.reverse else kept


def plan(
    start: int = 0,
    end: int = 2**62,
    *,
    relations: Mapping[int, RelationDescription] | None = None,
    known: Iterable[int] = (),
    seen: Iterable[int] = (),
    next_xid: int = NEXT_XID,
) -> DecoderPlan:
    return DecoderPlan(
        window=LsnRange(Lsn(start), Lsn(end)),
        pass_number=PASS,
        captured_at=CAPTURED_AT,
        next_xid=next_xid,
        relations=relations or {},
        types={},
        known_versions=frozenset(known),
        seen_messages=frozenset(seen),
    )


def frames_of(frames: Sequence[Frame]) -> Frames:
    return frames_from_copy(copy_blocks(frames))


def decode(
    frames: Sequence[Frame],
    the_plan: DecoderPlan | None = None,
    selection: Selection | None = None,
    cuts: Sequence[int] = (),
) -> tuple[list[dict[str, Any]], DecodedCounts]:
    """Rows and counts of frames that are decoded in pieces, cut at these indexes."""
    decoder = Decoder(the_plan or plan(), selection or Selection())
    bounds = [0, *sorted(min(cut, len(frames)) for cut in cuts), len(frames)]
    rows: list[dict[str, Any]] = []
    for low, high in pairwise(bounds):
        for batch in decoder.decode(frames_of(frames[low:high])):
            rows += rows_of(batch)
    return rows, decoder.finish()


def rows_of(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """Rows as dictionaries without nulls; times as microseconds since the Unix epoch."""
    assert batch.schema == ROW
    batch.validate(full=True)
    table = pa.Table.from_batches([batch])
    for name in ("commit_ts", "captured_at"):
        table = table.set_column(table.schema.get_field_index(name), name, table[name].cast(pa.int64()))
    rows = [{name: value for name, value in row.items() if value is not None} for row in table.to_pylist()]
    return [row | {name: unpack_row(row[name]) for name in ("before", "after") if name in row} for row in rows]


def peak_of(work: Callable[[], object]) -> int:
    """How many bytes Python and numpy, and Arrow, took at most while this ran; their peaks need not be at one time."""
    usual = pa.default_memory_pool()
    pool = pa.proxy_memory_pool(usual)
    pa.set_memory_pool(pool)
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1] + (pool.max_memory() or 0)
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(usual)
