"""Which transactions a snapshot has seen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from walhouse.postgres.visibility import Visibility

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fixtures_server import Server

XID = st.integers(3, 2**62).filter(lambda xid: 3 <= xid % 2**32 < 2**32 - 100)
"""In each epoch the server gives the first three to nobody, and refuses them as a snapshot's bounds."""


@st.composite
def snapshots(draw: st.DrawFn) -> Visibility:
    xmin = draw(XID)
    running = draw(st.frozensets(st.integers(xmin, xmin + 50), max_size=10))
    return Visibility(xmin, draw(st.integers(max(running, default=xmin), xmin + 60)) + 1, running)


@given(snapshots())
def test_a_snapshot_survives_its_text_form(snapshot: Visibility) -> None:
    assert Visibility.parse(str(snapshot)) == snapshot


@given(snapshots(), XID)
def test_what_runs_or_begins_later_is_unseen_and_all_else_is_seen(snapshot: Visibility, other: int) -> None:
    for xid in (*range(snapshot.xmin - 2, snapshot.xmax + 3), other):
        assert snapshot.sees(xid) == (xid not in snapshot.xip and xid < snapshot.xmax)


@pytest.mark.parametrize("text", ["", "1:2", "1:2:3,", "1:2:a", "1:2:3 ", "-1:2:"])
def test_what_is_no_snapshot_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a snapshot"):
        Visibility.parse(text)


@pytest.mark.server
@settings(max_examples=25)
@given(snapshot=snapshots())
def test_it_is_the_servers_own_rule(connection: psycopg.Connection[Any], snapshot: Visibility) -> None:
    xids = list(range(snapshot.xmin - 2, snapshot.xmax + 3))
    query = "SELECT pg_visible_in_snapshot(x::text::xid8, %s) FROM unnest(%s::int8[]) x"
    seen = connection.execute(query, [str(snapshot), xids]).fetchall()
    assert [(snapshot.sees(xid),) for xid in xids] == seen


@pytest.fixture(scope="module")
def connection(server: Server) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(server.dsn, autocommit=True) as opened:
        yield opened
