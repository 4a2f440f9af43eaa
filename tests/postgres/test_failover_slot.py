"""Slots that survive a failover of their server."""

from __future__ import annotations

import time
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

import pytest

from tests.fixtures_standby import database_on_both, setting_on, standby_of
from walhouse.errors import SlotMismatchError, StandbyAwayError
from walhouse.postgres.connection import connect
from walhouse.postgres.failover_health import SUBJECT, failover_problems
from walhouse.postgres.finding import Severity
from walhouse.postgres.peek import peek_blocks
from walhouse.postgres.probe import has_frames
from walhouse.postgres.slot import create_slot, created_slot, find_slot, required_slot
from walhouse.postgres.wal import readable_lsn

if TYPE_CHECKING:
    from fixtures.server import EmbeddedServer
    from tests.fixtures_server import Database
    from tests.fixtures_standby import Followed
    from walhouse.postgres.connection import Connection
    from walhouse.postgres.finding import Finding

pytestmark = pytest.mark.server


def has_such_slots(connection: Connection) -> bool:
    return connection.info.server_version >= 170000


@pytest.mark.parametrize("exports", [True, False], ids=["with a snapshot", "without"])
def test_a_slot_that_is_to_survive_a_failover_does_where_the_server_has_such_slots_and_else_says_so(
    exports: bool, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    name = f"{database.name}_slot"
    with closing(connect(database.settings)) as connection:
        if exports:
            with created_slot(database.settings, name, failover=True):
                pass
        else:
            create_slot(connection, name, failover=True)
        state = find_slot(connection, name)
        assert state is not None
        assert state.failover is has_such_slots(connection)
        told = [record.getMessage() for record in caplog.records if "will not survive a failover" in record.message]
        assert bool(told) is not state.failover


def test_a_slot_survives_a_failover_only_if_that_is_asked_for_and_it_is_to_stay(database: Database) -> None:
    names = f"{database.name}_plain", f"{database.name}_temporary"
    with closing(connect(database.settings)) as connection:
        create_slot(connection, names[0])
        with created_slot(database.settings, names[1], temporary=True, failover=True):
            states = [find_slot(connection, name) for name in names]
    assert [state is not None and state.failover for state in states] == [False, False]


def finding(connection: Connection, name: str) -> Finding:
    [found] = failover_problems(connection, name, find_slot(connection, name))
    assert found.subject == SUBJECT
    return found


def test_what_would_keep_capture_from_going_on_after_a_failover_is_found_before_it(followed: Followed) -> None:
    name = f"{followed.primary.name}_slot"
    with closing(connect(followed.primary.settings)) as connection:
        if not has_such_slots(connection):
            assert "has no such slots" in finding(connection, name).problem
            return
        assert "before a standby has them" in finding(connection, name).problem
        create_slot(connection, name)
        found = finding(connection, name)
        assert "was made without it" in found.problem
        with followed.primary.connect(replication="database") as replication:
            replication.execute(found.todo.split(",")[0].encode())
        with setting_on(followed.primary, synchronized_standby_slots=followed.server.slot):
            assert finding(connection, name).severity is Severity.OK
    with closing(connect(followed.standby.settings)) as connection:
        assert "is a standby" in finding(connection, "none").problem


def test_a_standby_that_is_away_is_named_and_not_waited_for_without_a_word_nor_taken_for_lost_changes(
    followed_server: EmbeddedServer,
) -> None:
    with standby_of(followed_server) as standby, database_on_both(followed_server, standby) as both:
        primary, name = both.primary, f"{both.primary.name}_slot"
        with ExitStack() as here:
            connection = here.enter_context(closing(connect(primary.settings)))
            if not has_such_slots(connection):
                pytest.skip("no slot survives its server before PostgreSQL 17")
            here.enter_context(both.keeping_slots())
            primary.execute("CREATE TABLE t (id int PRIMARY KEY)", "CREATE PUBLICATION p FOR TABLE t")
            create_slot(connection, name, failover=True)
            both.catch_up()
            standby.stop()
            assert finding(connection, name).severity is Severity.ERROR
            primary.execute("INSERT INTO t VALUES (1)")
            end = readable_lsn(connection)
            for ask in (
                lambda: list(peek_blocks(primary.settings, name, "p", end)),
                lambda: has_frames(primary.settings, connection, name, "p", end),
            ):
                with pytest.raises(StandbyAwayError, match=f'"{standby.slot}" specified in'):
                    ask()
            standby.restart()
            both.catch_up()
            assert has_frames(primary.settings, connection, name, "p", end)


def wait_for_copy(connection: Connection, name: str, *, there: bool) -> None:
    deadline = time.monotonic() + 60
    while (find_slot(connection, name) is not None) is not there:
        assert time.monotonic() < deadline, f"the standby's copy of {name} does not {'come' if there else 'go'}"
        time.sleep(0.1)


def test_the_copy_that_a_standby_keeps_is_told_from_a_slot_of_its_own(followed: Followed) -> None:
    name = f"{followed.primary.name}_slot"
    with closing(connect(followed.primary.settings)) as connection:
        if not has_such_slots(connection):
            pytest.skip("no slot has copies before PostgreSQL 17")
        create_slot(connection, name, failover=True)
    settings = followed.standby.settings
    with (
        followed.keeping_slots(),
        setting_on(followed.standby, sync_replication_slots="on"),
        closing(connect(settings)) as connection,
    ):
        wait_for_copy(connection, name, there=True)
        with pytest.raises(SlotMismatchError, match="copy that this standby keeps"):
            required_slot(connection, name)
        followed.primary.execute(f"SELECT pg_drop_replication_slot('{name}')")
        wait_for_copy(connection, name, there=False)
