"""What a standby needs to be captured from, and what a source that takes no writes must have already.

Invariant: a check reads only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from walhouse.postgres.connection import one_row
from walhouse.postgres.finding import Finding, error, ok, warning
from walhouse.postgres.standby import is_standby

if TYPE_CHECKING:
    from collections.abc import Iterator

    from walhouse.postgres.connection import Connection

OLDEST_STANDBY: Final = 16

_SETTINGS: Final = """
    SELECT current_setting('hot_standby_feedback')::bool, current_setting('primary_slot_name'),
        EXISTS (SELECT FROM pg_stat_wal_receiver)"""


def takes_no_writes(connection: Connection) -> bool:
    """Whether the server would refuse to write here: a standby, or a session that is read-only."""
    return bool(one_row(connection, "SELECT current_setting('transaction_read_only')::bool")[0])


def standby_problems(connection: Connection) -> Iterator[Finding]:
    """Nothing if the server is no standby."""
    if not is_standby(connection):
        return
    version = connection.info.server_version // 10000
    if version < OLDEST_STANDBY:
        yield error(
            "standby",
            f"PostgreSQL {version} cannot decode its WAL on a standby.",
            f"Give the address of the primary, or upgrade to {OLDEST_STANDBY} or later.",
        )
        return
    feedback, slot, streaming = one_row(connection, _SETTINGS)
    if not feedback:
        yield error(
            "hot_standby_feedback",
            "It is off: the primary's vacuum removes what decoding needs here, and the slot is invalidated.",
            "ALTER SYSTEM SET hot_standby_feedback = on, then SELECT pg_reload_conf(), on this standby.",
        )
    elif not slot:
        yield warning(
            "primary_slot_name",
            "The standby has no slot on its primary, which forgets what is needed here while the standby is away.",
            "Make one there by pg_create_physical_replication_slot, and set primary_slot_name here.",
        )
    else:
        yield ok("hot_standby_feedback", f"on, and the primary keeps it by the slot {slot}")
    if not streaming:
        yield warning(
            "standby",
            "The standby has no WAL receiver now: incremental snapshots and proofs have to wait for one.",
            "Let it follow its primary by streaming (primary_conninfo).",
        )
    else:
        yield ok("standby", "follows its primary; a new slot waits until that logs which transactions run")
