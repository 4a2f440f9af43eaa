"""How long transactions stay open on the server while something is measured, as ``pg_stat_activity`` shows them."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from benchmarks.background import repeated

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg

_PERIOD_SECONDS: Final = 0.02
_OPEN: Final = """
    SELECT coalesce(max(age) FILTER (WHERE NOT of_slot), 0)::float8,
        coalesce(max(age) FILTER (WHERE of_slot), 0)::float8
    FROM pg_stat_activity, LATERAL (
        SELECT extract(epoch FROM clock_timestamp() - xact_start) AS age, query LIKE '%pg_logical_slot_%' AS of_slot
    ) AS seen
    WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND datname = current_database()"""


class LongestTransaction:
    """The longest that was seen; a look each few milliseconds, so it is a lower bound."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.of_slot = 0.0
        """The same of those that read the slot, which Debezium reads outside of transactions."""


@contextmanager
def longest_transaction(dsn: str) -> Iterator[LongestTransaction]:
    """Watch the sessions of one database while the context lasts."""
    longest = LongestTransaction()

    def look(connection: psycopg.Connection[Any]) -> None:
        row = connection.execute(_OPEN).fetchone()
        if row is not None:
            longest.seconds, longest.of_slot = max(longest.seconds, row[0]), max(longest.of_slot, row[1])

    with repeated(dsn, look, pause_seconds=_PERIOD_SECONDS):
        yield longest
