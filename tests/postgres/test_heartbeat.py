"""The statement of each beat runs on the source; only what means that capture cannot go on ends it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from walhouse.errors import SourceError
from walhouse.postgres.connection import connect
from walhouse.postgres.heartbeat import Heartbeat, beat

if TYPE_CHECKING:
    from tests.fixtures_server import Database

pytestmark = pytest.mark.server


def test_what_a_beat_writes_is_there(database: Database) -> None:
    database.execute("CREATE TABLE beats (at timestamptz)")
    with connect(database.settings) as connection:
        beat(connection, "INSERT INTO beats VALUES (now())")
    assert database.execute("SELECT count(*) FROM beats") == [(1,)]


def test_a_beat_comes_once_in_an_interval(database: Database) -> None:
    database.execute("CREATE TABLE beats (at timestamptz)")
    hourly, constant = (Heartbeat("INSERT INTO beats VALUES (now())", seconds) for seconds in (3600, 0))
    with connect(database.settings) as connection:
        for _ in range(3):
            hourly.beat_if_due(connection)
        assert database.execute("SELECT count(*) FROM beats") == [(1,)]
        for _ in range(3):
            constant.beat_if_due(connection)
    assert database.execute("SELECT count(*) FROM beats") == [(4,)]


def test_a_beat_that_fails_is_a_warning_without_its_words(database: Database, caplog: pytest.LogCaptureFixture) -> None:
    with connect(database.settings) as connection, caplog.at_level(logging.WARNING):
        beat(connection, "SELECT 1 / 0 AS hunter2")
        assert connection.execute("SELECT 1").fetchone() == (1,)
    assert "22012" in caplog.text
    assert "hunter2" not in caplog.text


def test_a_beat_without_its_table_ends_capture(database: Database) -> None:
    with connect(database.settings) as connection, pytest.raises(SourceError):
        beat(connection, "INSERT INTO missing VALUES (1)")
