"""The columns of a bronze row, as Arrow sees them.

Invariant: everything that lands in bronze has exactly this schema, in this order. ``walhouse.bronze.table`` holds the
same list as Delta columns, and a test compares them.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Mapping


class Kind(StrEnum):
    """What a bronze row is."""

    CHANGE = "change"
    SNAPSHOT = "snapshot"
    BASE = "base"
    MESSAGE = "message"
    TRANSACTION = "transaction"
    RELATION = "relation"
    PROGRESS = "progress"


class Op(StrEnum):
    """Debezium's operation codes, as bronze carries them, and one of its own."""

    CREATE = "c"
    UPDATE = "u"
    DELETE = "d"
    TRUNCATE = "t"
    READ = "r"
    BASE = "b"
    """The reading of a whole table begins here: what follows stands in place of all that was before. No event."""
    MESSAGE = "m"


class BeforeKind(StrEnum):
    """Which old tuple PostgreSQL sent: only the identity columns (K), or the whole row (O, replica identity full)."""

    KEY = "K"
    FULL = "O"


TEXTS: Final = pa.list_(pa.field("element", pa.string()))

MICROS: Final = pa.timestamp("us", tz="UTC")

ROW: Final = pa.schema(
    [
        # what a row is, and where it stands
        pa.field("pass", pa.int64()),
        pa.field("captured_to", pa.int64()),
        pa.field("kind", pa.string()),
        pa.field("op", pa.string()),
        pa.field("schema_name", pa.string()),
        pa.field("table_name", pa.string()),
        pa.field("commit_lsn", pa.int64()),
        pa.field("seq", pa.int64()),
        pa.field("lsn", pa.int64()),
        pa.field("xid", pa.int64()),
        pa.field("commit_ts", MICROS),
        pa.field("previous_end", pa.int64()),
        pa.field("slot_xmin", pa.int64()),
        pa.field("captured_at", MICROS),
        pa.field("relation_version", pa.int64()),
        # the change
        pa.field("before_kind", pa.string()),
        pa.field("before", pa.string()),
        pa.field("after", pa.string()),
        pa.field("unchanged", TEXTS),
        # what only some rows have
        pa.field(
            "snapshot",
            pa.struct(
                [pa.field("id", pa.string()), pa.field("chunk", pa.int64()), pa.field("visibility", pa.string())]
            ),
        ),
        pa.field(
            "message",
            pa.struct(
                [
                    pa.field("prefix", pa.string()),
                    pa.field("content", pa.binary()),
                    pa.field("transactional", pa.bool_()),
                ]
            ),
        ),
        pa.field("origin", pa.struct([pa.field("name", pa.string()), pa.field("lsn", pa.int64())])),
        pa.field("relation", pa.string()),
        pa.field("progress", pa.string()),
    ]
)
"""All columns. ``before`` and ``after`` are images, see ``walhouse.pgoutput.image``; ``relation`` and ``progress`` hold
the JSON of a RelationDescription and of a Progress."""


def batch(length: int, columns: Mapping[str, pa.Array | None]) -> pa.RecordBatch:
    """A batch of ROW with these columns, and NULL in all others."""
    arrays = [columns.get(field.name) for field in ROW]
    filled = [
        pa.nulls(length, field.type) if array is None else array for field, array in zip(ROW, arrays, strict=True)
    ]
    return pa.RecordBatch.from_arrays(filled, schema=ROW)


MESSAGE_SEQ: Final = -1
"""``seq`` of a non-transactional message, which belongs to no commit."""

TRANSACTION_SEQ: Final = -2
"""``seq`` of the row that says that there was a transaction: before all of its changes."""

CHUNK_ID: Final = "incremental-"
"""How the id of a snapshot begins whose chunks are each read in a snapshot of their own."""

SNAPSHOT_SEQ: Final = -(2**62)
"""``seq`` of the first row of a snapshot's chunk 0. Row ``r`` of chunk ``c`` has ``SNAPSHOT_SEQ + c * 2**32 + r``:
unique, and before every change at the same commit LSN, since a commit that starts at a snapshot's LSN is not part of
it."""
