"""How far the stream is behind its source while something else is done: the age of the oldest commit that is not in
bronze yet.

Invariant: a commit counts as lagging from when its writer knew of it until the pass that has it is durable.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from benchmarks.background import repeated
from benchmarks.table import TABLE, Source

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import psycopg

_PAUSE_SECONDS: Final = 0.1
_CHANGES: Final = 50
_UPDATE: Final = f"""
    UPDATE {TABLE} SET quantity = (quantity + 1) %% 500
    WHERE id IN (SELECT (SELECT min(id) FROM {TABLE}) + 1000 + n * 37 FROM generate_series(1, %s) AS n)"""


class Moment(NamedTuple):
    """A time, in seconds since 1970, and a position in the WAL: of a commit's end, or up to which bronze is."""

    at: float
    lsn: int


@contextmanager
def steady_writer(source: Source) -> Iterator[list[Moment]]:
    """Commits 50 changes each tenth of a second while the context lasts, and notes when and where each was."""
    written: list[Moment] = []

    def commit(connection: psycopg.Connection[Any]) -> None:
        connection.execute(_UPDATE.encode(), [_CHANGES])
        row = connection.execute("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn").fetchone()
        assert row is not None
        written.append(Moment(time.time(), int(row[0])))

    with repeated(source.dsn, commit, pause_seconds=_PAUSE_SECONDS):
        yield written


def longest_lag(written: Sequence[Moment], passes: Sequence[Moment]) -> float:
    """Seconds: over all passes but the first, how old the oldest commit was that only this pass has brought.

    Raises ValueError if no pass has brought any.
    """
    lags: list[float] = []
    for before, after in pairwise(passes):
        brought = [commit.at for commit in written if before.lsn < commit.lsn <= after.lsn]
        if brought:
            lags.append(after.at - min(brought))
    return max(lags)
