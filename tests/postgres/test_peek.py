"""Peeking: whole ranges, any publication name, and not a word of the server passed over."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from tests.postgres.wire import copy_rows, read_stream
from walhouse.errors import DecodingNoticeError, PublicationMissingError, TemporarySpaceError
from walhouse.names import quote_postgres
from walhouse.postgres import copy_out, peek
from walhouse.postgres.peek import peek_blocks
from walhouse.postgres.probe import has_frames
from walhouse.postgres.slot import create_slot, required_slot
from walhouse.postgres.wal import insert_lsn, wait_flushed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from psycopg import sql

    from tests.fixtures_server import Database
    from walhouse.config.connection import ConnectionSettings
    from walhouse.lsn import Lsn
    from walhouse.pgoutput.blocks import Blocks
    from walhouse.postgres.connection import Connection

pytestmark = pytest.mark.server


@pytest.fixture
def slot(database: Database, connection: Connection) -> str:
    """A slot, and a publication ``p`` of a table ``t``."""
    database.execute("CREATE TABLE t (id int PRIMARY KEY, v text)", "CREATE PUBLICATION p FOR TABLE t")
    create_slot(connection, f"{database.name}_slot")
    return f"{database.name}_slot"


def _flushed(connection: Connection) -> Lsn:
    return wait_flushed(connection, insert_lsn(connection))


@pytest.mark.parametrize("publication", ['a "quoted" one', "x,y", "Größe", "'); DROP TABLE t; --", "back\\slash"])
def test_any_name_of_a_publication_is_right(
    database: Database, connection: Connection, slot: str, publication: str
) -> None:
    """The plug-in reads its option as a list of identifiers, so a bare name with a comma would be two."""
    database.execute(f"CREATE PUBLICATION {quote_postgres(publication)} FOR TABLE t")
    create_slot(connection, f"{slot}_2")
    database.execute("INSERT INTO t VALUES (1, 'x')")
    end = _flushed(connection)
    assert read_stream(peek_blocks(database.settings, f"{slot}_2", publication, end)).rows("t") == [("1", "x")]


def test_a_publication_that_is_missing_while_decoding_is_an_error_on_every_version(
    database: Database, connection: Connection, slot: str
) -> None:
    """To some versions that is only a warning: the peek has no rows, and they would be lost if the slot then moved."""
    database.execute("DROP PUBLICATION p", "INSERT INTO t VALUES (1, 'x')")
    end = _flushed(connection)
    before = required_slot(connection, slot).confirmed_flush_lsn
    with pytest.raises((DecodingNoticeError, PublicationMissingError), match="p"):
        list(peek_blocks(database.settings, slot, "p", end))
    with pytest.raises((DecodingNoticeError, PublicationMissingError), match="p"):
        has_frames(database.settings, connection, slot, "p", end)
    # what it keeps for itself, restart_lsn, goes on when the server comes upon a record of running transactions
    assert required_slot(connection, slot).confirmed_flush_lsn == before


def test_no_blocks_are_handed_on_before_the_server_has_said_all(
    database: Database, connection: Connection, slot: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader that took all lists so far for a complete range must not get the last one before the warning."""
    database.execute("DROP PUBLICATION p", "INSERT INTO t VALUES (1, 'x')")
    monkeypatch.setattr(copy_out, "BLOCKS", 1)
    taken: list[Blocks] = []
    with pytest.raises((DecodingNoticeError, PublicationMissingError)):
        taken.extend(peek_blocks(database.settings, slot, "p", _flushed(connection)))
    assert b"\xff\xff" not in [block for blocks in taken for block in blocks]


def test_blocks_are_handed_on_before_the_next_are_received(
    database: Database, connection: Connection, slot: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A block may be a row of a hundred MiB."""
    database.execute("INSERT INTO t SELECT n, 'x' FROM generate_series(1, 10) n")
    received: list[int] = []

    def watched(connection: Connection, statement: sql.Composed) -> Iterator[Blocks]:
        for blocks in copy_out.copied_blocks(connection, statement):
            received.append(len(blocks))
            yield blocks

    monkeypatch.setattr(peek, "copied_blocks", watched)
    monkeypatch.setattr(copy_out, "BLOCKS", 1)
    handed_on = 0
    for blocks in peek_blocks(database.settings, slot, "p", _flushed(connection)):
        handed_on += 1
        assert [len(blocks), len(received)] == [received[-1], handed_on]
    assert handed_on > 10


@pytest.mark.parametrize("bound", ["BLOCKS", "BYTES"])
def test_lists_of_blocks_are_bounded_and_together_are_the_range(
    database: Database, connection: Connection, slot: str, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    """Memory is bounded whatever the size of the range."""
    database.execute("INSERT INTO t SELECT n, repeat('x', 100) FROM generate_series(1, 5000) n")
    end = _flushed(connection)
    (whole,) = peek_blocks(database.settings, slot, "p", end)
    monkeypatch.setattr(copy_out, bound, 100 if bound == "BLOCKS" else 20_000)
    pieces = list(peek_blocks(database.settings, slot, "p", end))
    assert len(pieces) > 20
    assert max(map(len, pieces)) <= 160
    assert [block for piece in pieces for block in piece] == list(whole)
    assert len(read_stream(pieces).rows("t")) == 5000


def test_a_range_has_whole_transactions_that_start_before_its_end(
    database: Database, connection: Connection, slot: str
) -> None:
    database.execute(*(f"INSERT INTO t VALUES ({number}, 'x'), ({number + 100}, 'y')" for number in range(4)))
    end = _flushed(connection)
    commits = read_stream(peek_blocks(database.settings, slot, "p", end)).commits
    assert len(commits) == 4
    for count, commit in enumerate(commits):
        # as the end of any range is: one right behind a page header lets in the record that begins there
        stream = read_stream(peek_blocks(database.settings, slot, "p", commit.page_aligned()))
        assert stream.commits == commits[:count]
        assert len(stream.rows("t")) == 2 * count


def test_positions_are_those_of_the_replication_stream(database: Database, connection: Connection, slot: str) -> None:
    """A change has the position of its record, before its commit's."""
    database.execute("INSERT INTO t VALUES (1, 'x')")
    rows = copy_rows(peek_blocks(database.settings, slot, "p", _flushed(connection)))
    lsns = {bytes(data or b"")[:1]: int.from_bytes(lsn or b"") for lsn, _, data in rows}
    assert lsns[b"I"] < lsns[b"C"]
    assert set(lsns) == {b"B", b"R", b"I", b"C"}


def test_logical_messages_come(database: Database, connection: Connection, slot: str) -> None:
    database.execute(
        "SELECT pg_logical_emit_message(true, 'inside', 'x')", "SELECT pg_logical_emit_message(false, 'alone', 'x')"
    )
    stream = read_stream(peek_blocks(database.settings, slot, "p", _flushed(connection)))
    assert stream.messages == ["inside", "alone"]


def test_a_range_beyond_the_servers_temporary_space_says_so(
    database: Database, connection: Connection, slot: str, role: Callable[[str], ConnectionSettings]
) -> None:
    """The server keeps the whole range in temporary files before its first row is sent."""
    settings = role("REPLICATION")
    database.execute(
        f"ALTER ROLE {settings.user} SET temp_file_limit = '256kB'",
        f"ALTER ROLE {settings.user} SET work_mem = '64kB'",
        "INSERT INTO t SELECT n, repeat('x', 100) FROM generate_series(1, 10000) n",
    )
    with pytest.raises(TemporarySpaceError, match="temp_file_limit"):
        list(peek_blocks(settings, slot, "p", _flushed(connection)))


def test_a_transaction_that_the_server_spills_to_its_disk_comes_whole_when_it_commits_and_not_before(
    database: Database, connection: Connection, slot: str, role: Callable[[str], ConnectionSettings]
) -> None:
    settings = role("REPLICATION")
    database.execute(f"ALTER ROLE {settings.user} SET logical_decoding_work_mem = '64kB'")

    def inserts() -> int:
        rows = copy_rows(peek_blocks(settings, slot, "p", _flushed(connection)))
        return sum(bytes(data or b"")[:1] == b"I" for _, _, data in rows)

    with database.connect() as other, other.transaction():
        other.execute("INSERT INTO t SELECT n, repeat('x', 100) FROM generate_series(1, 10000) n")
        database.flush_wal()
        assert inserts() == 0
    assert inserts() == 10_000
    deadline = time.monotonic() + 20
    while database.execute(f"SELECT spill_txns FROM pg_stat_replication_slots WHERE slot_name = '{slot}'") == [(0,)]:
        assert time.monotonic() < deadline, "the server kept it in memory: the test shows nothing"
        time.sleep(0.1)


def test_an_open_transaction_does_not_keep_others_from_being_read(
    database: Database, connection: Connection, slot: str
) -> None:
    """It holds the position back from which the server decodes, but not what it sends."""
    with database.connect() as open_one, open_one.transaction():
        open_one.execute("INSERT INTO t VALUES (1, 'open')")
        database.execute("INSERT INTO t VALUES (2, 'x')")
        assert read_stream(peek_blocks(database.settings, slot, "p", _flushed(connection))).rows("t") == [("2", "x")]
    stream = read_stream(peek_blocks(database.settings, slot, "p", _flushed(connection)))
    assert stream.rows("t") == [("2", "x"), ("1", "open")]


def test_a_reader_that_stops_in_the_middle_leaves_the_slot_free(
    database: Database, connection: Connection, slot: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    database.execute("INSERT INTO t SELECT n, repeat('x', 1000) FROM generate_series(1, 20000) n")
    end = _flushed(connection)
    monkeypatch.setattr(copy_out, "BLOCKS", 10)
    blocks = peek_blocks(database.settings, slot, "p", end)
    next(blocks)
    blocks.close()  # type: ignore[attr-defined]  # a generator, which its type does not tell
    assert has_frames(database.settings, connection, slot, "p", end)
    assert len(read_stream(peek_blocks(database.settings, slot, "p", end)).rows("t")) == 20000


def test_reading_needs_nothing_of_spark() -> None:
    code = "import sys, walhouse.postgres.peek, walhouse.postgres.snapshot; sys.exit('pyspark' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": "src"})
