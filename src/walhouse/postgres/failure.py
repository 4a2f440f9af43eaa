"""From what PostgreSQL and libpq say to walhouse's own errors.

Invariant: the text of an error carries the server's own words only where they cannot hold a row's value; a password is
never part of them. Source: PostgreSQL documentation, appendix "PostgreSQL Error Codes".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

import psycopg

from walhouse.errors import (
    AuthenticationError,
    LockTimeoutError,
    NoFreeSlotError,
    PrivilegeError,
    PublicationMissingError,
    ReadOnlySourceError,
    RecoveryConflictError,
    SlotInUseError,
    SlotMissingError,
    SourceError,
    SourceUnreachableError,
    TemporarySpaceError,
    WalLevelError,
)
from walhouse.names import quote_postgres

if TYPE_CHECKING:
    from walhouse.config.connection import ConnectionSettings

_WORDS_WITHOUT_VALUES: Final = ("08", "25", "28", "3D", "42", "53", "54", "55", "57", "58", "XX")
"""SQLSTATE classes whose primary message names objects and settings; all others may quote a value."""

_WORDS_WHATEVER_RUNS: Final = ("08", "25", "53", "57", "55P03")
"""The same where a user's expression is computed from values: it may take them for names of objects and settings."""

_OF_ENCRYPTION: Final = re.compile(
    r"SSL (?!SYSCALL|connection|error: unexpected eof)|no encryption|certificate|private key"
)
"""What libpq and the server say where TLS keeps a connection from being made; of one that is lost they say the rest."""

_CHECK_ENCRYPTION: Final = (
    "Check database.sslmode and what the server asks for; that database.hostname is a name in the server's certificate,"
    " the file of database.sslrootcert has the authority that signed it, and nothing has expired; database.sslcert,"
    " sslkey and its sslpassword."
)

READ_ANEW: Final = "run once with snapshot.mode when_needed, which reads all tables anew"
"""What to do where changes are lost."""

_OF_LANGUAGES: Final = re.compile(r"pl(?!an|aceholder)")
"""Of the server's source files those of PL/pgSQL and its like: they raise what a function's author says."""


class Subject(NamedTuple):
    """What the statement that failed was about."""

    settings: ConnectionSettings | None = None
    slot: str | None = None
    publication: str | None = None
    table: str | None = None
    computes: bool = False
    """Whether it computes a user's expression, from values of rows."""


def explain_failure(error: psycopg.Error, subject: Subject) -> SourceError:
    """The error of ours that says what happened."""
    state = error.sqlstate
    if state is None:
        return _without_sqlstate(error, subject)
    words = "" if may_quote_values(error, subject) else error.diag.message_primary or ""
    explain = _BY_STATE.get(state) or _BY_CLASS.get(state[:2])
    explained = explain(words, subject) if explain else None
    return explained or SourceError(
        f"PostgreSQL refused a statement ({state} {type(error).__name__}){words and ': '}{words}.",
        todo="The server's log says which statement it was, and why.",
        sqlstate=state,
        table=subject.table,
    )


def _privilege(words: str, subject: Subject) -> SourceError:
    user = subject.settings and subject.settings.user
    todo = "Grant it as the owner or a superuser; docs/OPERATIONS.md lists the rights that are needed."
    if "row-level security" in words:  # no GRANT helps; another language's server has the sentence above
        todo = (
            f"Run as a superuser: ALTER ROLE {quote_postgres(user or 'user')} BYPASSRLS; or let the table's owner be"
            " the user. No row of it was read: a policy would leave some out."
        )
    return PrivilegeError(
        f"The user lacks a right: {words}.",
        todo=todo,
        user=user,
        table=subject.table,
    )


def _lock_timeout(words: str, subject: Subject) -> SourceError:
    return LockTimeoutError(
        f"Another transaction holds for too long what this one waits for: {words}.",
        table=subject.table,
        slot=subject.slot,
    )


def _deadlock(words: str, subject: Subject) -> SourceError:
    """Who locks several tables in another order, as a migration may, and this reader waited for each other."""
    del words  # may quote values by its class
    return LockTimeoutError(
        "Another transaction waited for what this one held, and held what it waited for; the server ended this one.",
        table=subject.table,
        slot=subject.slot,
    )


def _object_in_use(words: str, subject: Subject) -> SourceError | None:
    if subject.slot is None:
        return None
    reader = re.search(r"PID (\d+)", words)
    return SlotInUseError(
        f"The replication slot is in use: {words}.",
        todo="End the other reader, or give this connector a slot.name of its own.",
        slot=subject.slot,
        pid=reader and int(reader[1]),
    )


def _read_only(words: str, subject: Subject) -> SourceError:
    return ReadOnlySourceError(
        f"A statement that writes was refused ({words}): the source is a standby, read.only is set, or a snapshot's"
        " condition calls what writes.",
        publication=subject.publication,
        table=subject.table,
    )


def _recovery_conflict(words: str, subject: Subject) -> SourceError:
    """Also what others than standbys call a serialization failure, which nothing that walhouse does can have."""
    del words  # may quote values by its class, though these do not
    return RecoveryConflictError(
        "The standby ended a statement, for it kept its replay from going on.", table=subject.table
    )


def _limit_exceeded(words: str, subject: Subject) -> SourceError | None:
    if "temp_file_limit" in words:
        return TemporarySpaceError(f"The server has not enough temporary space: {words}.", slot=subject.slot)
    if "replication slots" in words:
        return _no_free_slot("slot", "max_replication_slots", "drop a slot that nobody reads", words, subject)
    return None


def _disk_full(words: str, subject: Subject) -> SourceError:
    """Nobody tries again by himself: what decoding puts there, another one's WAL may lack the room for."""
    return TemporarySpaceError(
        f"A disk of the server is full{words and ': '}{words}.",
        todo="Make room there, then run again. Decoding needs less of it with a lower lake.max_pass_bytes, and with a"
        " higher logical_decoding_work_mem where transactions are large.",
        slot=subject.slot,
        table=subject.table,
    )


def _out_of_memory(words: str, subject: Subject) -> SourceError:
    return SourceError(
        f"The server has no memory left for this{words and ': '}{words}.",
        todo="If it is its shared memory: raise max_locks_per_transaction and restart the server, for a snapshot and a"
        " proof lock all of their tables at once.",
        table=subject.table,
    )


def _too_many(words: str, subject: Subject) -> SourceError | None:
    if "max_wal_senders" in words:
        return _no_free_slot("WAL sender", "max_wal_senders", "end a replication connection", words, subject)
    return _unreachable(words, subject)


def _no_free_slot(what: str, setting: str, otherwise: str, words: str, subject: Subject) -> SourceError:
    return NoFreeSlotError(
        f"The server has no free replication {what}: {words}.",
        todo=f"Raise {setting} and restart the server, or {otherwise}.",
        slot=subject.slot,
        limit=setting,
    )


def _undefined_object(words: str, subject: Subject) -> SourceError | None:
    if subject.publication is not None and f'"{subject.publication}"' in words:
        return publication_missing(subject.publication)
    if subject.slot is not None and f'"{subject.slot}"' in words:
        return slot_missing(subject.slot)
    return None


def _not_in_state(words: str, subject: Subject) -> SourceError | None:
    if "max_replication_slots" in words:  # a server that takes none at all
        return _no_free_slot("slot", "max_replication_slots", "give the address of another", words, subject)
    return WalLevelError(f"The server does not log what decoding needs: {words}.") if "wal_level" in words else None


def publication_missing(publication: str) -> PublicationMissingError:
    """The error for a publication that is not there, whoever noticed it."""
    return PublicationMissingError(
        f"The publication {publication} does not exist.",
        todo="Make it with CREATE PUBLICATION, or set publication.autocreate.mode to filtered. If it existed before,"
        f" changes made without it were never sent: {READ_ANEW}.",
        publication=publication,
    )


def slot_missing(slot: str) -> SlotMissingError:
    """The error for a slot that is not there, whoever noticed it."""
    return SlotMissingError(
        f"The replication slot {slot} does not exist.",
        todo=f"If it was dropped, {READ_ANEW}; if the server is another one, restore the address.",
        slot=slot,
    )


def may_quote_values(error: psycopg.Error, subject: Subject) -> bool:
    """Whether the server's words may hold a row's value: then neither they nor the error itself are passed on.

    A function of the user's can raise any SQLSTATE, with words of its own, or run a statement that it makes of values.
    """
    if error.sqlstate is None:
        return False
    is_called = error.diag.context is not None and subject.slot is None  # decoding has a context of its own
    is_of_a_function = is_called or _OF_LANGUAGES.match(error.diag.source_file or "") is not None
    without_values = _WORDS_WHATEVER_RUNS if subject.computes else _WORDS_WITHOUT_VALUES
    return is_of_a_function or not error.sqlstate.startswith(without_values)


def _without_sqlstate(error: psycopg.Error, subject: Subject) -> SourceError:
    """libpq gives no SQLSTATE when it cannot connect; its text holds addresses and names, never a password."""
    if not isinstance(error, psycopg.OperationalError):
        return SourceError(f"The driver failed: {type(error).__name__}.", todo="--debug shows the whole error.")
    text = " ".join(str(error).split())
    if "max_wal_senders" in text:
        return _no_free_slot("WAL sender", "max_wal_senders", "end a replication connection", text, subject)
    if "replication role" in text or "permission denied to start WAL sender" in text:
        user = subject.settings.user if subject.settings else None
        return PrivilegeError(
            f"The user may not use replication: {text}.",
            todo=f"Run as a superuser: ALTER ROLE {quote_postgres(user or 'user')} REPLICATION.",
            user=user,
            privilege="REPLICATION",
        )
    if _refuses_the_user(error, text, subject):
        return _authentication(text, subject)
    return _unreachable(text, subject)


def _refuses_the_user(error: psycopg.OperationalError, text: str, subject: Subject) -> bool:
    if error.pgconn is not None and error.pgconn.needs_password:
        return True
    if "too many connections for" in text:  # its own limit, or the database's: one that ends makes room
        return False
    signs = ["authentication failed", "pg_hba.conf", "role "]
    if subject.settings is not None:
        signs.append(f'"{subject.settings.database}"')
    return any(sign in text for sign in signs)


def _authentication(words: str, subject: Subject) -> SourceError:
    settings = subject.settings
    todo = f"{AuthenticationError.todo} {_CHECK_ENCRYPTION}" if _OF_ENCRYPTION.search(words) else None
    return AuthenticationError(
        f"The server refuses the connection: {words}.",
        todo=todo,
        user=settings and settings.user,
        database=settings and settings.database,
    )


def _unreachable(words: str, subject: Subject) -> SourceError:
    settings = subject.settings
    where = f" at {settings.host}:{settings.port}" if settings else ""
    is_of_tls = _OF_ENCRYPTION.search(words) is not None
    return SourceUnreachableError(
        f"No encrypted connection to PostgreSQL{where}: {words}."
        if is_of_tls
        else f"PostgreSQL{where} does not answer: {words}.",
        todo=_CHECK_ENCRYPTION if is_of_tls else None,
        host=settings and settings.host,
        port=settings and settings.port,
    )


_Explain = Callable[[str, Subject], SourceError | None]

_BY_STATE: Final[Mapping[str, _Explain]] = {
    "25006": _read_only,
    "40001": _recovery_conflict,
    "40P01": _deadlock,
    "42501": _privilege,
    "42704": _undefined_object,
    "53100": _disk_full,
    "53200": _out_of_memory,
    "53300": _too_many,
    "53400": _limit_exceeded,
    "55000": _not_in_state,
    "55006": _object_in_use,
    "55P03": _lock_timeout,
    "57P01": _unreachable,
    "57P02": _unreachable,
    "57P03": _unreachable,
    "57P05": _unreachable,
}
_BY_CLASS: Final[Mapping[str, _Explain]] = {"08": _unreachable, "28": _authentication, "3D": _authentication}
