"""The slot: what is wrong with it has a name, and it goes where it is told and no further."""

from __future__ import annotations

import threading
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tests.postgres.wire import read_stream
from walhouse.errors import (
    LockTimeoutError,
    NoFreeSlotError,
    PrivilegeError,
    SlotError,
    SlotInUseError,
    SlotInvalidatedError,
    SlotMismatchError,
    SlotMissingError,
)
from walhouse.lsn import Lsn
from walhouse.postgres.connection import connect, source_errors
from walhouse.postgres.peek import peek_blocks
from walhouse.postgres.slot import (
    advance,
    create_slot,
    created_slot,
    drop_slot,
    find_slot,
    required_slot,
    retained_bytes,
)
from walhouse.postgres.snapshot import imported_snapshot
from walhouse.postgres.wal import flushed_lsn, insert_lsn, wait_flushed

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fixtures_server import Database, Server
    from walhouse.config.connection import ConnectionSettings
    from walhouse.pgoutput.blocks import Blocks
    from walhouse.postgres.connection import Connection

pytestmark = pytest.mark.server


def _name(database: Database) -> str:
    return f"{database.name}_slot"


def _peek(settings: ConnectionSettings, slot: str, publication: str = "p") -> list[Blocks]:
    return list(peek_blocks(settings, slot, publication, Lsn(2**62)))


def _commits(database: Database, connection: Connection, slot: str) -> list[Lsn]:
    end = wait_flushed(connection, insert_lsn(connection))
    return read_stream(peek_blocks(database.settings, slot, "p", end)).commits


def test_a_missing_slot_is_named_wherever_it_is_missed(database: Database, connection: Connection) -> None:
    assert find_slot(connection, "no_such_slot") is None
    with pytest.raises(SlotMissingError, match="no_such_slot"):
        _peek(database.settings, "no_such_slot")
    with pytest.raises(SlotMissingError, match="no_such_slot"):
        advance(connection, "no_such_slot", Lsn(1))
    assert drop_slot(connection, "no_such_slot") is False


@pytest.mark.parametrize(
    ("creation", "word"),
    [
        ("pg_create_physical_replication_slot('{}')", "physical"),
        pytest.param(
            "pg_create_logical_replication_slot('{}', 'test_decoding')", "test_decoding", marks=pytest.mark.contrib
        ),
        ("pg_create_logical_replication_slot('{}', 'pgoutput', false, true)", "two_phase"),
    ],
)
def test_a_slot_of_another_kind_is_refused(
    database: Database, connection: Connection, creation: str, word: str
) -> None:
    """A slot with two-phase commit sends transactions that are prepared only, even under the first protocol version."""
    name = _name(database)
    database.execute(f"SELECT {creation.format(name)}")
    with pytest.raises(SlotMismatchError, match=word):
        required_slot(connection, name)
    drop_slot(connection, name)


def test_a_refusal_without_a_reason_is_looked_into(database: Database, server: Server) -> None:
    """The server has one SQLSTATE for a physical slot, one of another database, and one that is invalidated."""
    name = _name(database)
    database.execute("CREATE PUBLICATION p", f"SELECT pg_create_physical_replication_slot('{name}')")
    with pytest.raises(SlotMismatchError, match="physical"):
        _peek(database.settings, name)
    database.execute(f"SELECT pg_drop_replication_slot('{name}')")
    database.execute(f"SELECT pg_create_logical_replication_slot('{name}', 'pgoutput')")
    with pytest.raises(SlotMismatchError, match="database"):
        _peek(server.settings("postgres"), name)


def test_an_invalidated_slot_is_told_from_all_others(database: Database, connection: Connection) -> None:
    name = _name(database)
    database.execute("CREATE PUBLICATION p", "CREATE TABLE t (id int)")
    create_slot(connection, name)
    try:
        database.execute("ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'", "SELECT pg_reload_conf()")
        for _ in range(3):
            database.execute("INSERT INTO t VALUES (1)", "SELECT pg_switch_wal()")
        database.execute("CHECKPOINT")
        with pytest.raises(SlotInvalidatedError, match="wal_removed"):
            _peek(database.settings, name)
        with pytest.raises(SlotInvalidatedError):
            advance(connection, name, flushed_lsn(connection))
    finally:
        database.execute("ALTER SYSTEM RESET max_slot_wal_keep_size", "SELECT pg_reload_conf()")


def _start_reading(database: Database, slot: str) -> psycopg.Connection[Any]:
    reader = database.connect(replication="database")
    reader.pgconn.send_query(
        f"START_REPLICATION SLOT {slot} LOGICAL 0/0 (proto_version '1', publication_names 'p')".encode()
    )
    result = reader.pgconn.get_result()
    assert result is not None
    assert result.status == psycopg.pq.ExecStatus.COPY_BOTH
    return reader


def test_a_slot_that_another_process_reads_is_named_with_that_process(
    database: Database, connection: Connection
) -> None:
    name = _name(database)
    database.execute("CREATE PUBLICATION p")
    create_slot(connection, name)
    with closing(_start_reading(database, name)) as reader:
        with pytest.raises(SlotInUseError) as caught:
            _peek(database.settings, name)
        assert caught.value.fields["pid"] == reader.info.backend_pid


def test_a_slot_whose_reader_is_leaving_is_waited_for(database: Database, connection: Connection) -> None:
    """After a client is killed its slot stays in use for up to two seconds."""
    name = _name(database)
    database.execute("CREATE PUBLICATION p")
    create_slot(connection, name)
    for action in (
        lambda: _peek(database.settings, name),
        lambda: advance(connection, name, insert_lsn(connection)),
        lambda: drop_slot(connection, name),
    ):
        database.execute("CREATE TABLE IF NOT EXISTS t (id int)", "INSERT INTO t VALUES (1)")
        reader = _start_reading(database, name)
        leaving = threading.Timer(0.4, reader.close)
        leaving.start()
        action()
        leaving.join()


def test_a_new_slot_s_snapshot_and_its_stream_meet_without_gap_or_overlap(database: Database) -> None:
    """Eight rows before, one while the slot is made, eight after: each is in one of the two, and in one only."""
    name = _name(database)
    database.execute("CREATE TABLE t (id int PRIMARY KEY)", "CREATE PUBLICATION p FOR TABLE t")
    stop = threading.Event()

    def write() -> None:
        with database.connect() as writer:
            number = 0
            while not stop.is_set():
                writer.execute("INSERT INTO t VALUES (%s)", [number])
                number += 1

    writers = threading.Thread(target=write)
    writers.start()
    time.sleep(0.1)
    with created_slot(database.settings, name) as exported:
        time.sleep(0.1)
        with imported_snapshot(database.settings, exported.name) as reading:
            before = {row[0] for row in reading.execute("SELECT id FROM public.t").fetchall()}
    stop.set()
    writers.join()
    with closing(connect(database.settings)) as connection:
        end = wait_flushed(connection, insert_lsn(connection))
        assert required_slot(connection, name).confirmed_flush_lsn == exported.consistent_point, "and not before it"
    stream = read_stream(peek_blocks(database.settings, name, "p", end))
    after = {int(row[0]) for row in stream.rows("t")}
    assert before
    assert after
    assert before.isdisjoint(after)
    assert before | after == {row[0] for row in database.execute("SELECT id FROM t")}
    assert min(stream.commits) >= exported.consistent_point


def _create(settings: ConnectionSettings, connection: Connection, name: str, *, snapshot: bool) -> None:
    if snapshot:
        with created_slot(settings, name, lock_timeout_seconds=0.3):
            pass
    else:
        create_slot(connection, name)


@pytest.mark.parametrize("snapshot", [False, True])
def test_a_transaction_that_does_not_end_is_waited_for_in_vain_with_a_limit(database: Database, snapshot: bool) -> None:
    """Making a slot waits for all running transactions; a statement timeout does not end that, a lock timeout does."""
    name = _name(database)
    database.execute("CREATE TABLE t (id int)")
    with (
        database.connect() as other,
        closing(connect(database.settings, lock_timeout_seconds=0.3)) as connection,
    ):
        other.execute("BEGIN")
        other.execute("INSERT INTO t VALUES (1)")
        with pytest.raises(LockTimeoutError) as caught:
            _create(database.settings, connection, name, snapshot=snapshot)
        assert caught.value.fields["pids"] == [other.info.backend_pid]
        assert find_slot(connection, name) is None


def test_a_prepared_transaction_that_is_waited_for_is_named(database: Database) -> None:
    name = _name(database)
    database.execute("CREATE TABLE t (id int)")
    database.execute(f"BEGIN; INSERT INTO t VALUES (1); PREPARE TRANSACTION '{name}'")
    try:
        with (
            pytest.raises(LockTimeoutError, match=f"'{name}' in {database.name}"),
            created_slot(database.settings, name, lock_timeout_seconds=0.3),
        ):
            pass
    finally:
        database.execute(f"ROLLBACK PREPARED '{name}'")


def test_a_slot_that_exists_is_not_made_again(database: Database, connection: Connection) -> None:
    name = _name(database)
    create_slot(connection, name)
    with pytest.raises(SlotError, match="exists already"), created_slot(database.settings, name):
        pass
    with pytest.raises(SlotError, match="exists already"):
        create_slot(connection, name)


def test_no_free_slot_is_an_error_that_names_the_setting(database: Database, connection: Connection) -> None:
    with database.connect() as holder:
        ((free,),) = database.execute(
            "SELECT current_setting('max_replication_slots')::int - count(*) FROM pg_replication_slots"
        )
        for number in range(free):
            holder.execute("SELECT pg_create_physical_replication_slot(%s, false, true)", [f"{database.name}_{number}"])
        with pytest.raises(NoFreeSlotError, match="max_replication_slots"):
            create_slot(connection, _name(database))
        with pytest.raises(NoFreeSlotError, match="max_replication_slots"), created_slot(database.settings, "one_more"):
            pass


def test_the_slot_goes_where_it_is_told_and_never_back(database: Database, connection: Connection) -> None:
    name = _name(database)
    database.execute("CREATE TABLE t (id int PRIMARY KEY)", "CREATE PUBLICATION p FOR TABLE t")
    create_slot(connection, name)
    database.execute(*(f"INSERT INTO t VALUES ({number})" for number in range(5)))
    commits = _commits(database, connection, name)
    assert advance(connection, name, commits[2]) == commits[2]
    assert _commits(database, connection, name) == commits[2:]
    assert advance(connection, name, commits[0]) == commits[2]
    assert _commits(database, connection, name) == commits[2:]
    state = required_slot(connection, name)
    assert state.confirmed_flush_lsn == commits[2]
    assert state.plugin == "pgoutput"
    assert state.database == database.name
    assert not state.temporary
    assert state.restart_lsn is not None


def test_peeking_moves_nothing(database: Database, connection: Connection) -> None:
    name = _name(database)
    database.execute("CREATE TABLE t (id int PRIMARY KEY)", "CREATE PUBLICATION p FOR TABLE t")
    create_slot(connection, name)
    database.execute("INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (2)")
    before = required_slot(connection, name)
    assert _commits(database, connection, name) == _commits(database, connection, name) != []
    assert required_slot(connection, name) == before


def test_the_server_says_how_much_it_keeps_for_the_slot(database: Database, connection: Connection) -> None:
    assert retained_bytes(connection, "no_such_slot") is None
    name = _name(database)
    create_slot(connection, name)
    first = retained_bytes(connection, name)
    database.execute("SELECT pg_logical_emit_message(true, 'm', repeat('x', 100000))")
    second = retained_bytes(connection, name)
    assert first is not None
    assert second is not None
    assert second - first > 100_000


def test_the_replication_attribute_is_enough_for_all_but_reading_tables(
    database: Database, role: Callable[[str], ConnectionSettings]
) -> None:
    """Creating, peeking, copying, advancing, exporting and importing need no other right; SELECT is for tables only."""
    settings, name = role("REPLICATION"), _name(database)
    database.execute(
        "CREATE TABLE public.t (id int PRIMARY KEY)",
        "CREATE TABLE public.hidden (id int PRIMARY KEY)",
        f"GRANT SELECT ON t TO {settings.user}",
        "CREATE PUBLICATION p FOR TABLE t, hidden",
        "INSERT INTO t VALUES (1)",
    )
    with created_slot(settings, name) as exported, imported_snapshot(settings, exported.name) as reading:
        assert reading.execute("SELECT id FROM public.t").fetchall() == [(1,)]
        with pytest.raises(PrivilegeError), source_errors(settings):
            reading.execute("SELECT id FROM public.hidden")
    database.execute("INSERT INTO hidden VALUES (2)")
    with closing(connect(settings)) as connection:
        end = wait_flushed(connection, insert_lsn(connection))
        assert read_stream(peek_blocks(settings, name, "p", end)).rows("hidden") == [("2",)]
        assert advance(connection, name, end) == end
        assert drop_slot(connection, name) is True
