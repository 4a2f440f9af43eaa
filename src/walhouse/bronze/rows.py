"""Bronze rows that are not decoded from the stream: snapshot rows, relation rows, the progress row.

Invariant: every batch has exactly the schema ``ROW``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from walhouse.pgoutput.row import MICROS, ROW, SNAPSHOT_SEQ, Kind, Op, batch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from walhouse.bronze.progress import Progress
    from walhouse.lsn import Lsn
    from walhouse.pgoutput.relation import RelationDescription


def progress_row(progress: Progress, captured_at: int) -> pa.RecordBatch:
    """The one row that says that everything before ``captured_to`` is in bronze."""
    return batch(
        1,
        {
            "pass": pa.array([progress.pass_number], pa.int64()),
            "captured_to": pa.array([progress.captured_to], pa.int64()),
            "kind": pa.array([Kind.PROGRESS.value]),
            "captured_at": pa.array([captured_at], pa.int64()).cast(MICROS),
            "progress": pa.array([progress.to_json()]),
        },
    )


def relation_rows(
    relations: Sequence[RelationDescription], pass_number: int, at: Lsn, captured_at: int
) -> pa.RecordBatch:
    """One row a relation version, as the catalog described it at an LSN."""
    count = len(relations)
    return batch(
        count,
        {
            "pass": pa.repeat(pa.scalar(pass_number, pa.int64()), count),
            "kind": pa.array([Kind.RELATION.value] * count, pa.string()),
            "schema_name": pa.array([relation.schema for relation in relations], pa.string()),
            "table_name": pa.array([relation.table for relation in relations], pa.string()),
            "commit_lsn": pa.repeat(pa.scalar(int(at), pa.int64()), count),
            "captured_at": pa.repeat(pa.scalar(captured_at, pa.int64()), count).cast(MICROS),
            "relation_version": pa.array([relation.version for relation in relations], pa.int64()),
            "relation": pa.array([relation.to_json() for relation in relations], pa.string()),
        },
    )


def base_rows(
    tables: Sequence[tuple[RelationDescription, int]],
    *,
    pass_number: int,
    snapshot_id: str,
    visibility: str,
    at: Lsn,
    captured_at: int,
) -> pa.RecordBatch:
    """One row a table whose reading begins: ``tables`` are descriptions with the number of a chunk of its own."""
    relations, chunks = [each for each, _ in tables], [chunk for _, chunk in tables]
    count = len(tables)
    snapshots = [{"id": snapshot_id, "chunk": chunk, "visibility": visibility} for chunk in chunks]
    return batch(
        count,
        {
            "pass": pa.repeat(pa.scalar(pass_number, pa.int64()), count),
            "kind": pa.array([Kind.BASE.value] * count, pa.string()),
            "op": pa.array([Op.BASE.value] * count, pa.string()),
            "schema_name": pa.array([relation.schema for relation in relations], pa.string()),
            "table_name": pa.array([relation.table for relation in relations], pa.string()),
            "commit_lsn": pa.repeat(pa.scalar(int(at), pa.int64()), count),
            "seq": pa.array([SNAPSHOT_SEQ + (chunk << 32) for chunk in chunks], pa.int64()),
            "lsn": pa.repeat(pa.scalar(int(at), pa.int64()), count),
            "captured_at": pa.repeat(pa.scalar(captured_at, pa.int64()), count).cast(MICROS),
            "relation_version": pa.array([relation.version for relation in relations], pa.int64()),
            "snapshot": pa.array(snapshots, ROW.field("snapshot").type),
        },
    )


@dataclass(frozen=True, slots=True)
class ChunkRows:
    """Some rows of a snapshot's chunk, which follow each other: what each of them says of the chunk."""

    chunk: int
    visibility: str
    at: Lsn
    first_row: int
    rows: int


def snapshot_rows(
    images: pa.StringArray,
    relation: RelationDescription,
    parts: Sequence[ChunkRows],
    *,
    pass_number: int,
    snapshot_id: str,
    xid: int | None,
    captured_at: int,
) -> pa.RecordBatch:
    """Rows that chunks read, those of ``parts`` one after the other: ``images`` are in the relation's column order.

    ``xid``: of the transaction that the snapshot is told under, see ``SnapshotPlan``.
    """
    count = len(images)
    counts = np.array([each.rows for each in parts], np.int64)
    assert counts.sum() == count, "each row is of one chunk"

    def constant(value: object, kind: pa.DataType) -> pa.Array:
        return pa.repeat(pa.scalar(value, kind), count)

    def of_parts(values: Sequence[int]) -> pa.Array:
        return pa.array(np.repeat(np.array(values, np.int64), counts))

    # a row's number is that of its chunk's first one here, and its place after that
    starts = [SNAPSHOT_SEQ + (each.chunk << 32) + each.first_row for each in parts]
    sequence = np.arange(count, dtype=np.int64) + np.repeat(
        np.array(starts, np.int64) - (counts.cumsum() - counts), counts
    )
    snapshots = [{"id": snapshot_id, "chunk": each.chunk, "visibility": each.visibility} for each in parts]
    at = of_parts([int(each.at) for each in parts])
    return batch(
        count,
        {
            "pass": constant(pass_number, pa.int64()),
            "kind": constant(Kind.SNAPSHOT.value, pa.string()),
            "op": constant(Op.READ.value, pa.string()),
            "schema_name": constant(relation.schema, pa.string()),
            "table_name": constant(relation.table, pa.string()),
            "commit_lsn": at,
            "seq": pa.array(sequence),
            "lsn": at,
            "xid": constant(xid, pa.int64()),
            "captured_at": constant(captured_at, pa.int64()).cast(MICROS),
            "relation_version": constant(relation.version, pa.int64()),
            "after": images,
            "snapshot": pa.array(snapshots, ROW.field("snapshot").type).take(of_parts(range(len(parts)))),
        },
    )
