"""Reading a range of changes from the slot without moving it.

Invariant: what was handed out counts only if the iterator ends without an error, and any word of the server while it
decodes is an error, since it can mean that changes are missing (that a publication is gone is only a warning to some
versions). Runs in Spark's tasks: imports nothing of Spark.
Source: PostgreSQL documentation, "Logical Streaming Replication Parameters" and COPY, "Binary Format".
"""

from __future__ import annotations

from contextlib import closing, contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Final

from psycopg import sql

from walhouse.errors import DecodingNoticeError, SourceError, StandbyAwayError
from walhouse.names import quote_postgres
from walhouse.postgres.connection import connect
from walhouse.postgres.copy_out import copied_blocks
from walhouse.postgres.failure import READ_ANEW
from walhouse.postgres.slot import slot_errors, when_free

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg

    from walhouse.config.connection import ConnectionSettings
    from walhouse.lsn import Lsn
    from walhouse.pgoutput.blocks import Blocks
    from walhouse.postgres.connection import Connection

_PEEK: Final = sql.SQL(
    "COPY (SELECT lsn, xid, data FROM pg_logical_slot_peek_binary_changes({slot}, {upto}, NULL,"
    " 'proto_version', '1', 'publication_names', {publication}, 'messages', 'true')) TO STDOUT (FORMAT binary)"
)


_WAITS_FOR: Final = "synchronized_standby_slots"
"""The setting that the server names where it waits, without end, for a standby that does not follow."""


def peek_blocks(settings: ConnectionSettings, slot: str, publication: str, upto: Lsn) -> Iterator[Blocks]:
    """The blocks of a binary COPY of (lsn, xid, data), one a row; header and trailer of the COPY are among them.

    The rows are those of all commits that start before ``upto``, from the slot's position on. Raises
    DecodingNoticeError, StandbyAwayError, SlotInUseError, SlotMissingError, SlotInvalidatedError, SlotMismatchError,
    PublicationMissingError, TemporarySpaceError.
    """
    with closing(connect(settings)) as connection:
        yield from decoded_blocks(settings, connection, slot, publication, upto)


def decoded_blocks(
    settings: ConnectionSettings, connection: Connection, slot: str, publication: str, upto: Lsn
) -> Iterator[Blocks]:
    """As ``peek_blocks``, over a connection that nothing else uses meanwhile.

    It returns when the server has decoded the whole range, which is before it sends the first block: the slot is free
    then, and what is wrong with it was said.
    """
    statement = _PEEK.format(
        slot=sql.Literal(slot),
        upto=sql.Literal(str(upto)),
        publication=sql.Literal(quote_postgres(publication)),  # the plug-in reads a list of identifiers
    )
    notices: list[str] = []

    def begin() -> tuple[Blocks, Iterator[Blocks]]:
        """Up to the first list of blocks."""
        remaining = copied_blocks(connection, statement)
        with slot_errors(settings, slot, publication):
            return next(remaining), remaining

    def blocks() -> Iterator[Blocks]:
        first, remaining = begun
        with listening(connection, notices), slot_errors(settings, slot, publication):
            for each in chain([first], remaining):
                require_silence(notices, slot, upto)
                yield each
        require_silence(notices, slot, upto)

    with listening(connection, notices):
        begun = when_free(begin)
    return blocks()


@contextmanager
def listening(connection: Connection, notices: list[str]) -> Iterator[None]:
    """Collect what the server says beside its results: SQLSTATE and message, which name objects and hold no values.

    Raises StandbyAwayError if it is that it waits for a standby: the wait is ended.
    """

    def note(diagnostic: psycopg.errors.Diagnostic) -> None:
        notices.append(f"{diagnostic.sqlstate} {diagnostic.message_primary}")
        if _WAITS_FOR in notices[-1]:
            connection.cancel_safe()

    connection.add_notice_handler(note)
    try:
        yield
    except SourceError:
        _require_no_wait(notices)
        raise
    finally:
        connection.remove_notice_handler(note)


def require_silence(notices: list[str], slot: str, upto: Lsn) -> None:
    """Raises DecodingNoticeError if the server said anything while it decoded; StandbyAwayError as ``listening``."""
    _require_no_wait(notices)
    if notices:
        raise DecodingNoticeError(
            f"While it decoded the slot {slot} up to {upto}, the server said: {'; '.join(notices[:3])}."
            " Changes may be missing from what it sent.",
            safe="Nothing of this range was committed and the slot was not moved.",
            todo="If the publication is missing, changes made without it were never decoded: make it again, and"
            f" {READ_ANEW}. Otherwise look at the server's log.",
            slot=slot,
            range=str(upto),
        )


def _require_no_wait(notices: list[str]) -> None:
    waits = next((notice for notice in notices if _WAITS_FOR in notice), None)
    if waits is not None:
        raise StandbyAwayError(
            f"The server sends nothing before its standby has it, and that does not follow: {waits}.",
            safe="Nothing of this range was committed and the slot was not moved.",
            todo="Bring the standby back. If it is gone for good, take its slot out of synchronized_standby_slots"
            " (SELECT pg_reload_conf() afterwards): what is captured then may be more than the next primary has.",
        )
