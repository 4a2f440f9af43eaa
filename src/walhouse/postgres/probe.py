"""Asking whether there is anything to capture, without capturing it.

Invariant: the answer is about whole ranges; nothing is read past the first transaction, and the slot is not moved.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from walhouse.names import quote_postgres
from walhouse.postgres.peek import listening, require_silence
from walhouse.postgres.slot import ended_by_loss, slot_errors, when_free

if TYPE_CHECKING:
    from walhouse.config.connection import ConnectionSettings
    from walhouse.lsn import Lsn
    from walhouse.postgres.connection import Connection

_PROBE: Final = """
    SELECT FROM pg_logical_slot_peek_binary_changes(%s, %s::pg_lsn, 1, 'proto_version', '1',
        'publication_names', %s, 'messages', 'true') LIMIT 1"""


def has_frames(settings: ConnectionSettings, connection: Connection, slot: str, publication: str, upto: Lsn) -> bool:
    """True if the slot would send anything of what committed before ``upto``. Raises the errors of the slot."""

    def ask() -> bool:
        notices: list[str] = []
        reading = slot_errors(settings, slot, publication)
        with ended_by_loss(settings, slot), listening(connection, notices), reading:
            row = connection.execute(_PROBE, [slot, str(upto), quote_postgres(publication)]).fetchone()
        require_silence(notices, slot, upto)
        return row is not None

    return when_free(ask)
