"""A large range of changes, read in pieces: while one is read, the server decodes the next.

The server decodes all that a peek asks for before it sends the first row, and keeps it in temporary files. In pieces
it does so beside what the reader does, and keeps no more than two of them.

Invariant: the pieces are the range, each commit in exactly one. They are cut at the starts of WAL pages, since there no
record begins before a cut and is sent behind it: a record behind a page's header begins after the cut on both sides.
"""

from __future__ import annotations

import itertools
import logging
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Final

from walhouse.errors import SourceError
from walhouse.lsn import PAGE_SIZE, Lsn, LsnRange
from walhouse.postgres.connection import connect
from walhouse.postgres.peek import decoded_blocks
from walhouse.postgres.slot import ended_by_loss, require_all_from, required_slot
from walhouse.postgres.slot_copy import copied_slot

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from walhouse.config.connection import ConnectionSettings
    from walhouse.pgoutput.blocks import Blocks
    from walhouse.postgres.slot import SlotState
    from walhouse.postgres.slot_copy import SlotCopy

PIECE: Final = 128 * 2**20
"""Bytes of WAL in a piece. To begin one the server reads again all WAL from where the slot's decoding starts: a
twentieth of a second or less for each piece before it."""

log = logging.getLogger("walhouse.capture")


def cut(window: LsnRange, slot: SlotState, *, size: int = PIECE) -> tuple[Lsn, ...]:
    """The ends of the pieces, the last one the window's; a short rest belongs to the piece before it.

    One piece is all where a piece would cost more than it saves or where a copy of the slot would not do: if decoding
    starts far before the window (a transaction is open since), on a standby, and if the slot survives failovers, since
    a copy does not wait until standbys have what it sends.
    """
    before = 0 if slot.restart_lsn is None else window.start - slot.restart_lsn
    if slot.failover or slot.on_standby or before > size:
        return (window.end,)
    first = window.start - window.start % PAGE_SIZE + size
    return (*(Lsn(at) for at in range(first, window.end - size // 2, size)), window.end)


def pieces_blocks(
    settings: ConnectionSettings, slot: str, publication: str, start: Lsn, ends: Sequence[Lsn]
) -> Iterator[Blocks]:
    """The blocks of the peeks of all pieces, in order, as ``peek_blocks`` has them of one.

    ``ends`` are those of ``cut``. The first piece is read from the slot itself, which must be free, the others from two
    temporary copies in turn; where the server gives none, all is read at once. Raises as ``peek_blocks``; and
    SlotGapError, when all is read, if another reader moved the slot past ``start``, where the range begins.
    """
    with ended_by_loss(settings, slot), ExitStack() as opened:
        connection = opened.enter_context(closing(connect(settings)))
        copies = _copies(settings, slot, min(2, len(ends) - 1), opened)
        if not copies:
            ends = ends[-1:]
        later = zip(itertools.pairwise(ends), itertools.cycle(copies), strict=False)
        ahead = opened.enter_context(ThreadPoolExecutor(1, "walhouse-ahead"))
        piece = decoded_blocks(settings, connection, slot, publication, ends[0])
        for (cut_at, end), copy in later:
            decoding = ahead.submit(copy.decoded, cut_at, publication, end)
            yield from piece
            piece = decoding.result()
        yield from piece
        require_all_from(required_slot(connection, slot), start)


def _copies(settings: ConnectionSettings, slot: str, count: int, opened: ExitStack) -> list[SlotCopy]:
    """So many copies, or none: whatever refuses them, and what is wrong with the slot itself its own reading tells."""
    with ExitStack() as unless_all:
        try:
            copies = [unless_all.enter_context(copied_slot(settings, slot)) for _ in range(count)]
        except SourceError as error:
            log.info("The range is read in one piece. %s", error)
            return []
        opened.enter_context(unless_all.pop_all())
    return copies
