"""One writer at a time on a lake that a catalog manages."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.fixtures_house import write_configuration
from walhouse.api import Walhouse
from walhouse.errors import LakeLockedError, SourceUnreachableError
from walhouse.lakehouse.layout import LakeLayout
from walhouse.postgres.sole_writer import SoleWriter

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.fixtures_server import Database

pytestmark = pytest.mark.server

LAKE = "`main`.`bronze`.`wal`"


def end_holders(database: Database) -> None:
    """End the sessions that hold an advisory lock, as a server's idle_session_timeout does."""
    database.execute(
        "SELECT pg_terminate_backend(l.pid, 5000) FROM pg_locks l JOIN pg_database d ON d.oid = l.database"
        " WHERE l.locktype = 'advisory' AND d.datname = current_database()"
    )


def test_a_second_writer_is_refused_with_the_first_ones_session_and_let_in_after_it(database: Database) -> None:
    with SoleWriter(database.settings, LAKE), SoleWriter(database.settings, "another lake"):
        with pytest.raises(LakeLockedError) as refused, SoleWriter(database.settings, LAKE):
            pass
        sessions = database.execute("SELECT pid FROM pg_stat_activity WHERE application_name = 'walhouse'")
        assert (refused.value.fields["pid"],) in sessions
    with SoleWriter(replace(database.settings, read_only=True), LAKE):
        pass


def test_a_writer_whose_session_was_lost_keeps_nobody_out(database: Database) -> None:
    with SoleWriter(database.settings, LAKE):
        end_holders(database)
        with SoleWriter(database.settings, LAKE):
            pass


def test_a_writer_whose_session_was_lost_is_told_and_gets_the_lock_again_unless_another_has_it(
    database: Database,
) -> None:
    with SoleWriter(database.settings, LAKE) as writer:
        writer.require_held()
        end_holders(database)
        with pytest.raises(SourceUnreachableError, match="lock of the lake of `main`"):
            writer.require_held()
        with SoleWriter(database.settings, LAKE), pytest.raises(LakeLockedError):
            writer.regain()
        writer.regain()
        writer.require_held()
        with pytest.raises(LakeLockedError), SoleWriter(database.settings, LAKE):
            pass


@pytest.mark.spark
@pytest.mark.usefixtures("spark")  # a catalog is refused where no session is active
@pytest.mark.parametrize("work", [Walhouse.capture, Walhouse.silver, Walhouse.gold, Walhouse.run, Walhouse.verify])
def test_nothing_is_written_to_a_catalog_beside_another_writer(
    work: Callable[[Walhouse], object], database: Database, tmp_path: Path
) -> None:
    """As a notebook and the job would: both may insert the rows that gold lacks: appends do not conflict."""
    lake = LakeLayout(path=None, catalog="main")
    conf = write_configuration(tmp_path, database, lake, lake_path=None, lake_catalog="main")
    with SoleWriter(database.settings, str(lake.bronze)), Walhouse.open(conf) as house, pytest.raises(LakeLockedError):
        work(house)
