"""Pieces of a range: together they are the range, however it is cut, and they cost nobody a slot."""

from __future__ import annotations

import logging
import time
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.fixtures_standby import setting_on
from walhouse.errors import DecodingNoticeError, PublicationMissingError, SlotInUseError, SlotInvalidatedError
from walhouse.lsn import PAGE_SIZE, Lsn, LsnRange
from walhouse.pgoutput.frames import frames_from_copy
from walhouse.postgres.connection import connect
from walhouse.postgres.peek import peek_blocks
from walhouse.postgres.pieces import cut, pieces_blocks
from walhouse.postgres.slot import create_slot, required_slot
from walhouse.postgres.wal import insert_lsn, wait_flushed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tests.fixtures_server import Database
    from walhouse.config.connection import ConnectionSettings
    from walhouse.pgoutput.blocks import Blocks
    from walhouse.postgres.connection import Connection
    from walhouse.postgres.slot import SlotState

pytestmark = pytest.mark.server


@pytest.fixture
def slot(database: Database, connection: Connection) -> str:
    """A slot, and a publication ``p`` of the tables ``t`` and ``u``."""
    for table in ("t", "u"):
        database.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, v text)")
    database.execute("CREATE PUBLICATION p FOR TABLE t, u")
    create_slot(connection, f"{database.name}_slot")
    return f"{database.name}_slot"


def _window(connection: Connection, slot: str) -> tuple[LsnRange, SlotState]:
    state = required_slot(connection, slot)
    assert state.confirmed_flush_lsn is not None
    return LsnRange(state.confirmed_flush_lsn, wait_flushed(connection, insert_lsn(connection))), state


def _frames(lists: Iterable[Blocks]) -> list[tuple[int, bytes]]:
    """LSN and message of each frame. A peek describes a relation before its first change, so each piece does."""
    found = []
    for blocks in lists:
        frames = frames_from_copy(blocks)
        for number in range(len(frames)):
            message = frames.buffer[frames.starts[number] : frames.ends[number]].tobytes()
            if not message.startswith(b"R"):
                found.append((int(frames.lsn[number]), message))
    return found


def _write(database: Database) -> None:
    """Transactions of one and of many pages, in order of commits that is not that of their begins, and switches."""
    with database.connect() as late:
        late.execute("BEGIN")
        late.execute("INSERT INTO u SELECT n, repeat('late', 20) FROM generate_series(1, 300) n")
        for number in range(40):
            database.execute(f"INSERT INTO t VALUES ({number}, '{'x' * (number * 97 % 3000)}')")
            database.execute(f"SELECT pg_logical_emit_message({number % 2 == 0}, 'm', '{'y' * (number * 53)}')")
            if number % 13 == 5:
                database.execute("SELECT pg_switch_wal()")
        database.execute("INSERT INTO u SELECT n, repeat('many', 30) FROM generate_series(1000, 2000) n", "TRUNCATE t")
        late.execute("COMMIT")
    database.execute("UPDATE u SET v = 'last' WHERE id < 50")


@pytest.mark.parametrize("size", [PAGE_SIZE, 3 * PAGE_SIZE, 16 * 2**20])
def test_pieces_are_the_range_whatever_their_size(
    database: Database, connection: Connection, slot: str, size: int
) -> None:
    """Each commit comes once, each message without a transaction too, in the order of a single peek."""
    _write(database)
    window, state = _window(connection, slot)
    ends = cut(window, state, size=size)
    assert len(ends) > 2
    whole = _frames(peek_blocks(database.settings, slot, "p", window.end))
    assert len(whole) > 1500
    assert _frames(pieces_blocks(database.settings, slot, "p", window.start, ends)) == whole
    assert required_slot(connection, slot) == state


def test_a_range_is_cut_at_starts_of_pages_and_ends_where_it_ends(
    connection: Connection, database: Database, slot: str
) -> None:
    _, state = _window(connection, slot)
    window = LsnRange(Lsn(10 * PAGE_SIZE + 100), Lsn(14 * PAGE_SIZE + 1))
    state = replace(state, restart_lsn=window.start)
    size = 2 * PAGE_SIZE
    assert cut(window, state, size=size) == (Lsn(12 * PAGE_SIZE), window.end)
    longer = LsnRange(window.start, Lsn(16 * PAGE_SIZE))
    assert cut(longer, state, size=size) == (Lsn(12 * PAGE_SIZE), Lsn(14 * PAGE_SIZE), longer.end)
    assert cut(LsnRange(window.start, Lsn(12 * PAGE_SIZE)), state, size=size) == (Lsn(12 * PAGE_SIZE),)


def test_a_range_is_one_piece_where_copies_of_the_slot_would_not_do(
    connection: Connection, database: Database, slot: str
) -> None:
    _, state = _window(connection, slot)
    assert state.restart_lsn is not None
    window = LsnRange(state.restart_lsn, Lsn(state.restart_lsn + 2**30))
    assert len(cut(window, state)) == 8
    assert cut(window, replace(state, failover=True)) == (window.end,)
    assert cut(window, replace(state, on_standby=True)) == (window.end,)
    long_open = replace(state, restart_lsn=Lsn(state.restart_lsn - 2**28))
    assert cut(window, long_open) == (window.end,)


def test_copies_are_gone_afterwards_also_if_the_reader_stops(
    database: Database, connection: Connection, slot: str
) -> None:
    _write(database)
    window, state = _window(connection, slot)
    blocks = pieces_blocks(database.settings, slot, "p", window.start, cut(window, state, size=PAGE_SIZE))
    next(blocks)
    names = {name for (name,) in connection.execute("SELECT slot_name FROM pg_replication_slots WHERE temporary")}
    assert len({name for name in names if name.startswith(f"{slot}_ahead_")}) == 2
    blocks.close()  # type: ignore[attr-defined]  # a generator, which its type does not tell
    left = "SELECT FROM pg_replication_slots WHERE temporary AND starts_with(slot_name, %s)"
    deadline = time.monotonic() + 20
    while connection.execute(left, [f"{slot}_ahead_"]).fetchone() is not None:  # a session needs a moment to end
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert required_slot(connection, slot) == state


def test_without_slots_to_spare_the_range_is_read_at_once(
    database: Database, connection: Connection, slot: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The last free slot is left to others."""
    _write(database)
    window, state = _window(connection, slot)
    ends = cut(window, state, size=PAGE_SIZE)
    query = "SELECT current_setting('max_replication_slots')::int - count(*)::int FROM pg_replication_slots"
    row = connection.execute(query).fetchone()
    assert row is not None
    with closing(connect(database.settings)) as holder, caplog.at_level(logging.INFO, "walhouse.capture"):
        for number in range(row[0] - 2):
            holder.execute("SELECT pg_create_physical_replication_slot(%s, false, true)", [f"{slot}_{number}"])
        found = _frames(pieces_blocks(database.settings, slot, "p", window.start, ends))
    assert found == _frames(peek_blocks(database.settings, slot, "p", window.end))
    assert "in one piece" in caplog.text


def test_a_user_who_may_have_one_connection_reads_the_range_at_once(
    database: Database, connection: Connection, slot: str, role: Callable[[str], ConnectionSettings]
) -> None:
    """A small range needs no more than one, so a large one must not either."""
    _write(database)
    window, state = _window(connection, slot)
    settings = role("REPLICATION CONNECTION LIMIT 1")
    found = _frames(pieces_blocks(settings, slot, "p", window.start, cut(window, state, size=PAGE_SIZE)))
    assert found == _frames(peek_blocks(database.settings, slot, "p", window.end))


def test_what_is_wrong_in_a_later_piece_is_an_error(database: Database, connection: Connection, slot: str) -> None:
    _write(database)
    database.execute("DROP PUBLICATION p", "INSERT INTO u VALUES (100000, 'x')")
    window, state = _window(connection, slot)
    with pytest.raises((DecodingNoticeError, PublicationMissingError), match="p"):
        list(pieces_blocks(database.settings, slot, "p", window.start, cut(window, state, size=PAGE_SIZE)))


def test_a_slot_that_is_lost_while_it_is_read_is_told_so(database: Database, connection: Connection, slot: str) -> None:
    """The server ends the sessions that read it, or copies of it, as if an administrator had."""
    _write(database)
    window, state = _window(connection, slot)
    blocks = pieces_blocks(database.settings, slot, "p", window.start, cut(window, state, size=PAGE_SIZE))
    next(blocks)
    with setting_on(database, max_slot_wal_keep_size="1MB"):
        for _ in range(3):
            database.execute("INSERT INTO t VALUES (-1) ON CONFLICT DO NOTHING", "SELECT pg_switch_wal()")
        database.execute("CHECKPOINT")
        with pytest.raises(SlotInvalidatedError, match="wal_removed"):
            list(blocks)


def test_another_reader_of_the_slot_is_an_error_as_ever(database: Database, connection: Connection, slot: str) -> None:
    """Copies could be made of a slot that is in use."""
    _write(database)
    window, state = _window(connection, slot)
    with closing(connect(database.settings, replication=True)) as reader:
        reader.pgconn.send_query(
            f"START_REPLICATION SLOT {slot} LOGICAL 0/0 (proto_version '1', publication_names 'p')".encode()
        )
        while required_slot(connection, slot).active_pid is None:
            time.sleep(0.02)
        with pytest.raises(SlotInUseError):
            list(pieces_blocks(database.settings, slot, "p", window.start, cut(window, state, size=PAGE_SIZE)))
