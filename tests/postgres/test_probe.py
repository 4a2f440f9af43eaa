"""What a slot would send: the last commit of a range, as it is told by its Begin."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from walhouse.postgres.probe import SentCommit, last_commit_sent
from walhouse.postgres.slot import advance, create_slot, required_slot
from walhouse.postgres.wal import insert_lsn, wait_flushed

if TYPE_CHECKING:
    from tests.fixtures_server import Database
    from walhouse.postgres.connection import Connection

pytestmark = pytest.mark.server


def test_the_last_commit_of_a_range_is_the_one_that_began_its_record_last_and_the_slot_stays(
    database: Database, connection: Connection
) -> None:
    database.execute("CREATE TABLE t (id int)", "CREATE PUBLICATION p FOR TABLE t", "CREATE TABLE unpublished (id int)")
    slot = f"{database.name}_slot"
    create_slot(connection, slot)

    def last() -> SentCommit | None:
        end = wait_flushed(connection, insert_lsn(connection))
        return last_commit_sent(database.settings, connection, slot, "p", end)

    assert last() is None
    with database.connect() as late, late.transaction():  # begins first, commits last
        late.execute("INSERT INTO t VALUES (1)")
        database.execute("INSERT INTO t VALUES (2)")
        first = last()
    second = last()
    assert first is not None
    assert second is not None
    assert first < second
    [(seconds,)] = database.execute("SELECT extract(epoch FROM now())")
    assert 0 <= float(seconds) * 10**6 - second.commit_ts < 60 * 10**6
    database.execute("INSERT INTO unpublished SELECT generate_series(1, 1000)")
    assert last() == second
    assert last_commit_sent(database.settings, connection, slot, "p", second.lsn) == first, "it starts at that place"
    assert (required_slot(connection, slot).confirmed_flush_lsn or 0) <= first.lsn
    advance(connection, slot, insert_lsn(connection))
    assert last() is None
