"""The ``source`` block and the times of an event.

Invariant: what only people need stands here as Debezium has it; order and identity are ``commit_lsn`` and ``seq``.
Source: Debezium documentation, PostgreSQL connector, "Data change events", the ``source`` field.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql.types import LongType, StringType, StructType

from walhouse.changes.facts import NOTHING
from walhouse.names import string_literal
from walhouse.pgoutput.row import CHUNK_ID, Op

if TYPE_CHECKING:
    from walhouse.changes.facts import Facts
    from walhouse.names import TableName
    from walhouse.silver.settings import SilverSettings

_TEXT, _LONG = StringType(), LongType()

SOURCE: Final = (
    StructType()
    .add("version", _TEXT)
    .add("connector", _TEXT)
    .add("name", _TEXT)
    .add("ts_ms", _LONG)
    .add("snapshot", _TEXT)
    .add("db", _TEXT)
    .add("sequence", _TEXT)
    .add("ts_us", _LONG)
    .add("ts_ns", _LONG)
    .add("schema", _TEXT)
    .add("table", _TEXT)
    .add("txId", _LONG)
    .add("lsn", _LONG)
    .add("xmin", _LONG)
    .add("origin", _TEXT)
    .add("origin_lsn", _LONG)
)
"""Fields of ``source``, in the order of Debezium's schema."""

XID_EPOCH: Final = 1 << 32
"""The stream's transaction ids have 32 bits; a snapshot's and our own ``xid`` have 64."""


_OF_CHUNK: Final = f"coalesce(startswith(snapshot.id, '{CHUNK_ID}'), false)"

CAPTURE_TIMES: Final = (
    "unix_millis(captured_at) AS ts_ms",
    "unix_micros(captured_at) AS ts_us",
    "unix_micros(captured_at) * 1000L AS ts_ns",
)
"""The times of an event itself: when it was captured."""


def source(settings: SilverSettings, table: TableName, facts: Facts = NOTHING) -> str:
    """``source`` of a change or snapshot row, as SQL; of a logical message with empty schema and table.

    ``facts``: which snapshot rows are the first and the last of their table, and of all.
    """
    is_read = f"op = '{Op.READ.value}'"
    # a chunk's row has a place of its own, but Debezium tells no position of it
    lsn = _unless_of_chunk(facts, "NULL", f"CASE WHEN {is_read} THEN commit_lsn ELSE lsn END")
    committed = "coalesce(commit_ts, captured_at)"
    sequence = f"concat('[', coalesce(concat('\"', previous_end, '\"'), 'null'), ',\"', {lsn}, '\"]')"
    of_chunk = "concat('[\"', commit_lsn, '\",\"', commit_lsn, '\"]')"
    values = {
        "version": string_literal(settings.version),
        "connector": "'postgresql'",
        "name": string_literal(settings.topic_prefix),
        "ts_ms": f"unix_millis({committed})",
        "snapshot": f"CASE WHEN {is_read} THEN {_marker(facts)} ELSE 'false' END",
        "db": string_literal(settings.database),
        "sequence": _unless_of_chunk(facts, of_chunk, sequence),
        "ts_us": f"unix_micros({committed})",
        "ts_ns": f"unix_micros({committed}) * 1000L",
        "schema": string_literal(table.schema),
        "table": string_literal(table.table),
        "txId": f"CASE WHEN {is_read} THEN xid ELSE xid % {XID_EPOCH}L END",
        "lsn": lsn,
        "xmin": "slot_xmin",
        "origin": "origin.name",
        "origin_lsn": "origin.lsn",
    }
    fields = ", ".join(f"'{field.name}', {values[field.name]}" for field in SOURCE.fields)
    return f"named_struct({fields})"


def _marker(facts: Facts) -> str:
    """Of a snapshot row: of several that hold, the last of all, the first of all, the last of the table."""
    return _unless_of_chunk(facts, "'incremental'", _marker_of_whole(facts))


def _unless_of_chunk(facts: Facts, of_chunk: str, value: str) -> str:
    """The value, and another one for rows of chunks with a snapshot of their own."""
    return value if facts.chunks is None else f"CASE WHEN {_OF_CHUNK} THEN {of_chunk} ELSE {value} END"


def _marker_of_whole(facts: Facts) -> str:
    if facts.snapshot_seqs is None:
        return "'true'"
    first, last = facts.snapshot_seqs
    markers = [
        (last, "last", facts.ends_snapshot),
        (first, "first", facts.begins_snapshot),
        (last, "last_in_data_collection", True),
        (first, "first_in_data_collection", True),
    ]
    branches = " ".join(f"WHEN {seq} THEN '{marker}'" for seq, marker, holds in markers if holds)
    return f"CASE seq {branches} ELSE 'true' END"
