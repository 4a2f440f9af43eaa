"""A temporary copy of a slot, which may be ahead of it: where a later part of a range is decoded from.

Invariant: the slot itself is never moved here, and a copy ends with its session, whatever happens.
Source: PostgreSQL documentation, "Replication Management Functions", pg_copy_logical_replication_slot.
"""

from __future__ import annotations

from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from walhouse.errors import NoFreeSlotError, SlotError
from walhouse.lsn import Lsn
from walhouse.postgres.connection import connect, one_row
from walhouse.postgres.peek import decoded_blocks
from walhouse.postgres.slot import slot_errors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from walhouse.config.connection import ConnectionSettings
    from walhouse.pgoutput.blocks import Blocks
    from walhouse.postgres.connection import Connection

_SPARE: Final = 1
"""Free slots that are left to others."""

_NAME_BYTES: Final = 40
"""Of the slot's name, which is ASCII: with the rest a copy's name stays under PostgreSQL's 63."""


@dataclass(frozen=True, slots=True)
class SlotCopy:
    """The copy, and the session that it belongs to."""

    settings: ConnectionSettings
    connection: Connection
    name: str

    def decoded(self, start: Lsn, publication: str, upto: Lsn) -> Iterator[Blocks]:
        """The blocks of all commits that start in ``[start, upto)``, which no earlier call may have passed.

        Returns when they are decoded. Raises as ``decoded_blocks``.
        """
        with slot_errors(self.settings, self.name):
            query = "SELECT end_lsn::text FROM pg_replication_slot_advance(%s, %s::pg_lsn)"
            reached = Lsn.parse(one_row(self.connection, query, [self.name, str(start)])[0])
        if reached != start:
            raise SlotError(
                f"The server moved the temporary slot {self.name} to {reached} in place of {start}.",
                safe="Nothing of this range was committed and the slot that it is a copy of was not moved.",
                slot=self.name,
            )
        return decoded_blocks(self.settings, self.connection, self.name, publication, upto)


@contextmanager
def copied_slot(settings: ConnectionSettings, slot: str) -> Iterator[SlotCopy]:
    """A copy that lasts as long as the context. Raises NoFreeSlotError also where it would take the last free one, and
    the errors of a connection and of a slot.
    """
    with closing(connect(settings)) as connection:
        name = f"{slot[:_NAME_BYTES]}_ahead_{connection.info.backend_pid}"
        _require_spare(connection, slot)
        with slot_errors(settings, slot):
            one_row(connection, "SELECT pg_copy_logical_replication_slot(%s, %s, true)", [slot, name])
        yield SlotCopy(settings, connection, name)


def _require_spare(connection: Connection, slot: str) -> None:
    query = "SELECT current_setting('max_replication_slots')::int - count(*) FROM pg_replication_slots"
    if one_row(connection, query)[0] <= _SPARE:
        raise NoFreeSlotError(
            f"The server has no free replication slot to copy {slot} to, but for one that is left to others.",
            safe="Ranges are read without copies then.",
            slot=slot,
            limit="max_replication_slots",
        )
