"""An error of the server is told in its words only where they are the server's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from walhouse.errors import SourceError, TemporarySpaceError
from walhouse.postgres.connection import source_errors

if TYPE_CHECKING:
    from walhouse.postgres.connection import Connection

pytestmark = pytest.mark.server


@pytest.mark.parametrize("state", ["57014", "42501", "08006", "XX000", "P0001"])
def test_what_a_function_of_a_users_says_is_withheld_whatever_its_sqlstate(state: str, connection: Connection) -> None:
    """It may quote a row."""
    raising = f"DO $$ BEGIN RAISE EXCEPTION 'a SECRET' USING ERRCODE = '{state}'; END $$"
    with pytest.raises(SourceError) as raised, source_errors(table="public.t"):
        connection.execute(raising.encode())
    assert "SECRET" not in str(raised.value)
    assert "SECRET" not in repr(raised.value.__cause__)


def test_what_the_server_says_of_a_statement_that_a_function_makes_is_withheld(connection: Connection) -> None:
    """It may be made of a row's values."""
    with pytest.raises(SourceError, match="refused a statement") as raised, source_errors(table="public.t"):
        connection.execute("""DO $$ BEGIN EXECUTE 'SELECT "a SECRET"'; END $$""")
    assert "SECRET" not in f"{raised.value} {raised.value.__cause__!r}"


@pytest.mark.parametrize(
    ("state", "kind", "advice"),
    [
        ("disk_full", TemporarySpaceError, "lake.max_pass_bytes"),
        ("out_of_memory", SourceError, "max_locks_per_transaction"),
    ],
)
def test_what_the_server_lacks_is_told_with_what_to_do(
    connection: Connection, state: str, kind: type[SourceError], advice: str
) -> None:
    with pytest.raises(kind, match="server") as raised, source_errors():
        connection.execute(f"DO $$ BEGIN RAISE EXCEPTION '' USING ERRCODE = '{state}'; END $$".encode())
    assert advice in raised.value.todo_text


def test_the_servers_own_words_are_told(connection: Connection) -> None:
    with pytest.raises(SourceError, match=r"no_such_table"), source_errors():
        connection.execute("SELECT FROM no_such_table")
