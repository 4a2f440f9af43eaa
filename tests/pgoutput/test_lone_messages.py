"""Where a real server puts a non-transactional message, on which the decoder's rule for keeping one rests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.pgoutput.decoding import Selection, plan, rows_of
from walhouse.lsn import Lsn
from walhouse.pgoutput.blocks import Blocks
from walhouse.pgoutput.decoder import Decoder
from walhouse.pgoutput.frames import frames_from_copy

if TYPE_CHECKING:
    import psycopg

    from tests.fixtures_server import Database

PEEK = """
COPY (SELECT lsn, xid, data FROM pg_logical_slot_peek_binary_changes('{slot}', '{upto}', NULL,
      'proto_version', '1', 'publication_names', 'p', 'messages', 'true')) TO STDOUT (FORMAT binary)
"""

CONFIRMED = "SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = '{slot}'"


def position(connection: psycopg.Connection[Any], query: str = "SELECT pg_current_wal_insert_lsn()::text") -> Lsn:
    row = connection.execute(query.encode()).fetchone()
    assert row
    return Lsn.parse(row[0])


def peek(connection: psycopg.Connection[Any], slot: str, start: Lsn, end: Lsn, seen: set[int]) -> list[dict[str, Any]]:
    """One range, as a capture pass reads it."""
    decoder = Decoder(plan(start, end, seen=seen, next_xid=2**32), Selection())
    with connection.cursor().copy(PEEK.format(slot=slot, upto=end).encode()) as copy:
        frames = frames_from_copy(Blocks.of(bytes(block) for block in copy))
    rows = [row for batch in decoder.decode(frames) for row in rows_of(batch)]
    decoder.finish()
    return [row for row in rows if row["kind"] != "relation"]


@pytest.mark.server
@pytest.mark.parametrize("advance", [True, False], ids=["slot advanced", "slot left behind"])
def test_a_lone_message_lands_exactly_once_wherever_in_its_record_a_range_ends(
    database: Database, advance: bool
) -> None:
    with database.connect() as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY)")
        connection.execute("CREATE PUBLICATION p FOR ALL TABLES")
        for distance in range(0, 73, 8):
            slot = f"{database.name}_{distance}"
            connection.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [slot])
            start = position(connection, CONFIRMED.format(slot=slot))
            connection.execute("INSERT INTO t VALUES (%s)", [2 * distance])
            border = Lsn(position(connection) + distance)
            connection.execute("SELECT pg_logical_emit_message(false, 'p', 'forty bytes of content, more or less ...')")
            connection.execute("INSERT INTO t VALUES (%s)", [2 * distance + 1])
            end = position(connection)
            first = peek(connection, slot, start, border, set())
            if advance:
                connection.execute("SELECT pg_replication_slot_advance(%s, %s::pg_lsn)", [slot, str(border)])
            seen = {row["commit_lsn"] for row in first if row["seq"] == -1}
            second = peek(connection, slot, border, end, seen)
            found = [row["op"] for row in first + second]
            assert found == ["c", "m", "c"], (distance, first, second)
            connection.execute("SELECT pg_drop_replication_slot(%s)", [slot])
