"""SQL of a user's stays between the parentheses that it is put into, as the server reads it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import psycopg
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from walhouse.postgres.expression import leaves_its_parentheses

if TYPE_CHECKING:
    from walhouse.postgres.connection import Connection

pytestmark = pytest.mark.server

PIECES = [
    *"()'\"$;\\ \n\r-/*,=eEaxU&1",
    *("--", "/*", "*/", "$$", "$a$", "$1", "E'", "e'", "U&'", "date'", "a$$", "''", "\\'", "OR", "true", "false"),
    *(" OR (true", ") OR (true --", "null::text", "'\n'", "é"),
]


@pytest.mark.parametrize(
    "escaping",
    [
        "false /* /* */ ' */ ) OR (true --'",
        "(select 1 as a$$) is null) OR (true --$$)",
        "null::date = date'\\') OR (true --'",
        "false and 'a\\') OR (true --'",
        "false); SELECT 1 WHERE (true",
        "true)",
        "'open",
        '"open',
        "/* open",
        "$a$ open $b$",
        "(true",
    ],
)
def test_what_would_leave_its_parentheses_or_leaves_something_open_is_found(escaping: str) -> None:
    assert leaves_its_parentheses(escaping)


@pytest.mark.parametrize(
    "staying",
    [
        "name = ')'",
        "a = E'\\')' AND b = 'it''s )'",
        '"a)" = 1 AND (b IN (1, 2)) -- )',
        "a /* ( /* ) */ */ = $$)$$ OR b = $q$ $$ ) $q$",
        "E'a'\n -- c )\n '\\'' = ''",
        "E'a'\n'\\') OR (true --' = ''",
        "price$ > 1 AND date'2024-01-01' < d",
        "",
    ],
)
def test_what_stays_is_let_through(staying: str) -> None:
    assert not leaves_its_parentheses(staying)


@pytest.mark.parametrize("text", ["E'' " + "-" * 5000, "E''" + " --\n" * 2000 + "x", "E'" + "\\'" * 5000, "'" * 9999])
def test_it_takes_no_time_whatever_it_is_given(text: str) -> None:
    """A signal's condition is looked at by capture itself."""
    began = time.process_time()
    leaves_its_parentheses(text)
    assert time.process_time() - began < 1


@settings(max_examples=1500, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join))
@example("false /* /* */ ' */ ) OR (true --'")
def test_what_is_let_through_selects_nothing_behind_false(connection: Connection, text: str) -> None:
    """The server is the judge: whatever it accepts stays within the parentheses."""
    if leaves_its_parentheses(text) or not text.strip():
        return
    statement = f"SELECT 1 WHERE false AND ({text}\n)"
    try:
        with connection.transaction():
            rows = connection.execute(statement.replace("%", "%%").encode()).fetchall()
    except psycopg.Error:
        return
    assert rows == []
