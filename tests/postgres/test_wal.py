"""Where the WAL stands: targets are flushed, and never inside a page header."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from tests.postgres.wire import read_stream
from walhouse.errors import WalNotFlushedError
from walhouse.lsn import LONG_PAGE_HEADER, PAGE_HEADER, PAGE_SIZE, Lsn
from walhouse.postgres.connection import connect
from walhouse.postgres.peek import peek_blocks
from walhouse.postgres.slot import create_slot
from walhouse.postgres.wal import (
    above_all_running,
    committed_xid,
    current_xid,
    flushed_lsn,
    insert_lsn,
    oldest_running,
    readable_lsn,
    wait_flushed,
)

if TYPE_CHECKING:
    from tests.fixtures_server import Database
    from walhouse.postgres.connection import Connection

pytestmark = pytest.mark.server


def _switch(database: Database) -> None:
    """After this the insert position stands right behind a page's header."""
    database.execute("SELECT pg_switch_wal()")


def test_right_after_a_page_header_the_page_s_start_is_waited_for(database: Database) -> None:
    """The server's insert position is ahead of the flushed one for seconds then, with no record between."""
    with closing(connect(database.settings, read_only=True)) as connection:
        for _ in range(20):
            _switch(database)
            target = insert_lsn(connection)
            if target % PAGE_SIZE:
                break
        assert target % PAGE_SIZE
        assert wait_flushed(connection, target, timeout_seconds=2) >= target.page_aligned()


def test_a_commit_right_behind_a_page_header_lies_in_just_one_range(database: Database) -> None:
    """The flushed position is the page's start; the commit's, behind the header, is in the range that begins there."""
    database.execute("CREATE TABLE t (id int PRIMARY KEY)", "CREATE PUBLICATION p FOR TABLE t")
    with closing(connect(database.settings)) as connection, database.connect() as writer:
        start = create_slot(connection, "walhouse_page")
        writer.execute("BEGIN")
        writer.execute("INSERT INTO t VALUES (1)")
        _switch(database)
        middle = flushed_lsn(connection)
        writer.execute("COMMIT")
        end = wait_flushed(connection, insert_lsn(connection))
        ranges = ((start, middle), (middle, end))
        found = [
            [
                lsn
                for lsn in read_stream(peek_blocks(database.settings, "walhouse_page", "p", upto)).commits
                if lsn >= low
            ]
            for low, upto in ranges
        ]
    assert [len(commits) for commits in found] == [0, 1]
    assert middle <= found[1][0] < end


def test_wal_of_an_open_transaction_is_flushed_without_anything_to_be_decoded(database: Database) -> None:
    """Nothing flushes it by itself for many seconds; a logical message would, but it would land in bronze."""
    database.execute("CREATE TABLE t (id int PRIMARY KEY)", "CREATE PUBLICATION p FOR ALL TABLES")
    with closing(connect(database.settings)) as connection, database.connect() as writer:
        create_slot(connection, "walhouse_nudge")
        writer.execute("BEGIN")
        writer.execute("INSERT INTO t VALUES (1)")
        target = insert_lsn(connection)
        start = time.monotonic()
        assert wait_flushed(connection, target, timeout_seconds=8) >= target.page_aligned()
        assert time.monotonic() - start < 3
        writer.execute("ROLLBACK")
        end = wait_flushed(connection, insert_lsn(connection))
    assert read_stream(peek_blocks(database.settings, "walhouse_nudge", "p", end)).kinds in {"", "BC"}


def test_the_last_bytes_of_a_record_behind_a_page_header_are_waited_for(database: Database) -> None:
    """The WAL writer flushes the page before, and not these: they end where a segment's first page has its header."""
    database.execute("CREATE TABLE t (pad text)", "ALTER TABLE t ALTER pad SET STORAGE EXTERNAL")
    with closing(connect(database.settings)) as connection, database.connect() as writer:
        writer.execute("BEGIN")
        target = _ended_behind_a_header(writer, connection)
        assert wait_flushed(connection, target, timeout_seconds=8) >= target
        writer.execute("ROLLBACK")


def _ended_behind_a_header(writer: Connection, connection: Connection) -> Lsn:
    """The end of a record of which 8 or 16 bytes are behind the header of the page that it reaches into."""
    overhead = 0
    for _ in range(200):
        before = insert_lsn(connection)
        to_page_end = PAGE_SIZE - before % PAGE_SIZE
        length = max(1, min(to_page_end + 8 - overhead, 1500))
        writer.execute("INSERT INTO t VALUES (repeat('x', %s))", (length,))
        after = insert_lsn(connection)
        if after // PAGE_SIZE == before // PAGE_SIZE:
            overhead = after - before - length
        elif after.page_aligned() == after and PAGE_HEADER < after % PAGE_SIZE <= LONG_PAGE_HEADER:
            return after
    raise AssertionError("no record ended right behind a page's header")


def _cut(writer: Connection, connection: Connection) -> Lsn:
    """A flushed position over which a record reaches: the WAL writer flushes whole pages of an open transaction."""
    for attempt in range(100):
        writer.execute("INSERT INTO t VALUES (%s, repeat('x', 7000)) ON CONFLICT DO NOTHING", (attempt,))
        time.sleep(0.25)  # the WAL writer's pause, and a little
        if (flushed := flushed_lsn(connection)) % PAGE_SIZE == 0 and flushed < insert_lsn(connection).page_aligned():
            return flushed
    raise AssertionError("no record was flushed in part")


def test_a_record_that_is_flushed_in_part_is_not_waited_for_when_the_wal_is_read(database: Database) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, v text)", "CREATE PUBLICATION p FOR ALL TABLES")
    with closing(connect(database.settings)) as connection, database.connect(autocommit=False) as writer:
        create_slot(connection, "walhouse_part")
        cut = _cut(writer, connection)
        start = time.monotonic()
        end = readable_lsn(connection)
        assert end > cut
        list(peek_blocks(database.settings, "walhouse_part", "p", end))
        assert time.monotonic() - start < 3
        writer.rollback()


def test_who_may_not_write_commits_nothing_and_reads_up_to_the_flushed_position_as_it_is(database: Database) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, v text)")
    with closing(connect(database.settings, read_only=True)) as connection:
        for _ in range(3):  # the server's own work may flush the rest in just this moment
            with database.connect(autocommit=False) as writer:
                cut = _cut(writer, connection)
                start = time.monotonic()
                readable = readable_lsn(connection)
                assert time.monotonic() - start < 2
                writer.rollback()
            if readable == cut:
                break
        assert readable == cut


@pytest.mark.parametrize("read_only", [False, True])
def test_a_position_that_is_never_flushed_is_a_named_error_in_time(database: Database, read_only: bool) -> None:
    with closing(connect(database.settings, read_only=read_only)) as connection:
        beyond = Lsn(insert_lsn(connection) + 2**40)
        with pytest.raises(WalNotFlushedError, match=str(beyond)):
            wait_flushed(connection, beyond, timeout_seconds=0.5)


def test_the_current_xid_is_above_all_others_and_not_used_up_by_asking(database: Database) -> None:
    with closing(connect(database.settings)) as connection:
        ((used,),) = database.execute("SELECT pg_current_xact_id()::text")
        assert current_xid(connection) == current_xid(connection) > int(used)


def test_asking_for_a_committed_xid_commits_it_and_who_may_not_write_is_given_none(database: Database) -> None:
    with closing(connect(database.settings)) as connection:
        xid = committed_xid(connection)
    assert database.execute(f"SELECT pg_xact_status('{xid}'::xid8)") == [("committed",)]
    with closing(connect(database.settings, read_only=True)) as connection:
        assert committed_xid(connection) is None


def test_a_bound_above_all_that_run_is_above_those_that_began_after_the_last_one_that_ended(
    database: Database,
) -> None:
    with database.connect(autocommit=False) as running, connect(database.settings) as connection:
        [(xid,)] = running.execute("SELECT pg_current_xact_id()::text::int8").fetchall()
        assert current_xid(connection) <= xid, "nothing has ended since: an xmax is no bound"
        assert above_all_running(connection) > xid
        assert oldest_running(connection) <= xid
        running.commit()
        assert oldest_running(connection) > xid
