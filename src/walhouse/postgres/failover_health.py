"""What a slot needs so that capture goes on from a standby that takes its server's place.

Invariant: a check reads only. Source: PostgreSQL documentation, "Replication Slot Synchronization".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from walhouse.postgres.connection import one_row
from walhouse.postgres.finding import Finding, error, ok, warning
from walhouse.postgres.slot import refusal_of_failover

if TYPE_CHECKING:
    from collections.abc import Iterator

    from walhouse.postgres.connection import Connection
    from walhouse.postgres.slot import SlotState

SUBJECT = "connector.slot.failover"

_AWAY: Final = """
    SELECT name FROM (SELECT trim(both '" ' FROM unnest(string_to_array(
        current_setting('synchronized_standby_slots'), ','))) AS name) AS named
    WHERE NOT EXISTS (SELECT FROM pg_replication_slots WHERE slot_name = name AND active)"""
"""Slots that the server waits for, and nobody reads."""


def failover_problems(connection: Connection, name: str, state: SlotState | None) -> Iterator[Finding]:
    """``state``: of the slot, if there is one already."""
    if (reason := refusal_of_failover(connection)) is not None:
        yield warning(SUBJECT, f"The slot will not survive a failover: {reason}.", "Leave slot.failover out.")
        return
    if state is not None and not state.failover:
        yield warning(
            SUBJECT,
            f"The slot {name} was made without it.",
            f"ALTER_REPLICATION_SLOT {name} (FAILOVER), over a replication connection.",
        )
        return
    (standbys,) = one_row(connection, "SELECT current_setting('synchronized_standby_slots')")
    away = connection.execute(_AWAY).fetchall() if standbys else []
    if away:
        yield error(
            SUBJECT,
            f"Nothing is captured before {', '.join(slot for (slot,) in away)} has it, and no standby follows by that"
            " slot now.",
            "Bring the standby back, or take its slot out of synchronized_standby_slots.",
        )
    elif standbys:
        yield ok(SUBJECT, f"nothing is captured before {standbys} has it")
    else:
        yield warning(
            SUBJECT,
            "Changes can be captured before a standby has them; where that standby takes over, bronze would have what"
            " the source has not, and is refused to go on.",
            "Set synchronized_standby_slots to the physical slots of the standbys that may take over.",
        )
