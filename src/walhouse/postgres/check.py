"""What would keep capture from working, found before it starts.

Invariant: a check reads only.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Final

from walhouse.config.columns import ColumnRules
from walhouse.config.filters import TableFilter
from walhouse.config.replica_identity import IdentityRules
from walhouse.errors import (
    AuthenticationError,
    NoFreeSlotError,
    PrivilegeError,
    SlotError,
    SlotGapError,
    SourceUnreachableError,
)
from walhouse.postgres.catalog import describe_tables
from walhouse.postgres.connection import connect, one_row
from walhouse.postgres.encoding import NO_ENCODING, NO_ENCODING_ADVICE, encoding_of
from walhouse.postgres.failover_health import failover_problems
from walhouse.postgres.failure import slot_missing
from walhouse.postgres.finding import Finding, Severity, error, ok, warning
from walhouse.postgres.identity_health import planned_identities, with_planned
from walhouse.postgres.publication import captured_tables, find_publication
from walhouse.postgres.publication_health import publication_problems
from walhouse.postgres.rule_health import NO_NOTES, ColumnHandling, rule_problems
from walhouse.postgres.slot import find_slot, require_all_from, require_usable, retained_bytes
from walhouse.postgres.standby_health import standby_problems
from walhouse.postgres.table_health import table_problems

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from walhouse.config.connection import ConnectionSettings
    from walhouse.config.masks import MaskRule
    from walhouse.config.replica_identity import Identity
    from walhouse.config.schema_notes import SchemaNotes
    from walhouse.lsn import Lsn
    from walhouse.names import TableName
    from walhouse.pgoutput.column import ColumnDescription
    from walhouse.postgres.connection import Connection
    from walhouse.postgres.slot import SlotState

OLDEST: Final = 14
NEWEST: Final = 18


def check_source(
    connection: Connection,
    settings: ConnectionSettings,
    *,
    slot: str,
    begun: bool = False,
    bronze_end: Callable[[], Lsn | None] = lambda: None,
    failover: bool = False,
    publication: str,
    mode: str,
    selection: TableFilter,
    via_root: bool = False,
    columns: ColumnRules | None = None,
    masks: tuple[MaskRule, ...] = (),
    notes: SchemaNotes = NO_NOTES,
    identities: IdentityRules | None = None,
    has_field: Callable[[ColumnDescription], bool] = lambda _: True,
) -> list[Finding]:
    """All findings, in the order in which they should be mended. Raises SourceError only if the server goes away.

    ``begun``: a lake goes on from the slot; ``bronze_end``: from where on it needs all changes, if that is known, asked
    for once the slot was looked at: a capture that runs commits first and moves the slot then. ``columns``, ``masks``
    and ``identities``: what the configuration says about columns and replica identities; ``has_field``: whether events
    show a column of its type.
    """
    state = find_publication(connection, publication)
    root = via_root if state is None else state.via_root
    tables = captured_tables(connection, selection, via_root=root)
    found = find_slot(connection, slot)
    planned, planning = planned_identities(connection, tables, identities or IdentityRules())
    rules = ColumnHandling(selection, columns or ColumnRules(selection.columns), masks, notes, has_field)
    return [
        *_server(connection),
        *_replication_right(settings),
        *_slot(connection, slot, found, settings.database, begun=begun, bronze_end=bronze_end()),
        *(failover_problems(connection, slot, found) if failover else ()),
        *publication_problems(connection, publication, state, mode=mode, tables=tables, selection=selection),
        *planning,
        *_tables(connection, tables, generated=state.generated_columns if state else "n", planned=planned),
        *rule_problems(
            rules,
            captured_tables(connection, TableFilter(), via_root=root),
            [with_planned(relation, planned) for relation in describe_tables(connection, tables)],
        ),
    ]


def _server(connection: Connection) -> Iterator[Finding]:
    version = connection.info.server_version // 10000
    if version < OLDEST:
        yield error("version", f"PostgreSQL {version} lacks what walhouse needs.", f"Upgrade to {OLDEST} or later.")
    elif version > NEWEST:
        yield warning("version", f"PostgreSQL {version} is newer than any that was tried.", "Try it on a copy first.")
    else:
        yield ok("version", f"PostgreSQL {version}")
    (level,) = one_row(connection, "SELECT current_setting('wal_level')")
    if level == "logical":
        yield ok("wal_level", "logical")
    else:
        yield error("wal_level", f"wal_level is {level}.", "Set wal_level = logical and restart the server.")
    yield from _encoding(connection)
    yield from standby_problems(connection)
    (keep,) = one_row(connection, "SELECT current_setting('max_slot_wal_keep_size')")
    if keep == "-1":
        yield warning(
            "max_slot_wal_keep_size",
            "The server keeps WAL for a slot without a limit: if capture stops for long, its disk fills up.",
            "Watch the slot (walhouse status), or set a limit that is larger than any pause of capture.",
        )
    else:
        yield ok("max_slot_wal_keep_size", keep)
    (idle,) = one_row(connection, "SELECT current_setting('idle_replication_slot_timeout', true)")
    if idle not in {None, "0"}:
        yield warning(
            "idle_replication_slot_timeout",
            f"The server gives up a slot that nobody reads for {idle}: changes from then on would be lost.",
            "Capture more often than that, or set it to 0 (SELECT pg_reload_conf()).",
        )


def _encoding(connection: Connection) -> Iterator[Finding]:
    encoding = encoding_of(connection)
    yield error("encoding", NO_ENCODING, NO_ENCODING_ADVICE) if encoding is None else ok("encoding", encoding)


def _replication_right(settings: ConnectionSettings) -> Iterator[Finding]:
    try:
        with closing(connect(settings, replication=True)):
            yield ok("replication right", f"{settings.user} may replicate")
    except (PrivilegeError, AuthenticationError, NoFreeSlotError, SourceUnreachableError) as refusal:
        yield error("replication right", refusal.problem, refusal.todo_text)


def _slot(
    connection: Connection, name: str, state: SlotState | None, database: str, *, begun: bool, bronze_end: Lsn | None
) -> Iterator[Finding]:
    if state is None:
        missing = slot_missing(name)
        lost = warning(f"slot {name}", f"{missing.problem} The lake goes on from it.", missing.todo_text)
        yield from [lost] if begun else _free_slots(connection, name)
        return
    try:
        require_usable(state, database=database)
    except SlotError as refusal:
        yield error(f"slot {name}", refusal.problem, refusal.todo_text)
        return
    try:
        if bronze_end is not None:
            require_all_from(state, bronze_end)
    except SlotGapError as gap:
        yield warning(f"slot {name}", gap.problem, gap.todo_text)
        return
    retained = retained_bytes(connection, name) or 0
    if state.wal_status == "unreserved":
        yield warning(
            f"slot {name}",
            f"The server is about to remove WAL that the slot needs ({retained:,} bytes are kept).",
            "Run capture now, and raise max_slot_wal_keep_size.",
        )
    elif state.active_pid is not None:
        yield warning(
            f"slot {name}",
            f"The process {state.active_pid} reads the slot now.",
            "If it is not walhouse, give this connector a slot.name of its own.",
        )
    else:
        yield ok(f"slot {name}", f"stands at {state.confirmed_flush_lsn}, keeps {retained:,} bytes of WAL")


def _free_slots(connection: Connection, name: str) -> Iterator[Finding]:
    used, limit = one_row(
        connection, "SELECT count(*), current_setting('max_replication_slots')::int8 FROM pg_replication_slots"
    )
    if used >= limit:
        yield error(
            f"slot {name}",
            f"It does not exist, and all {limit} replication slots are used.",
            "Raise max_replication_slots and restart the server, or drop a slot that nobody reads.",
        )
    else:
        yield ok(f"slot {name}", f"will be made; {limit - used} of {limit} replication slots are free")


def _tables(
    connection: Connection, tables: Sequence[TableName], *, generated: str, planned: Mapping[TableName, Identity]
) -> Iterator[Finding]:
    faulty = set()
    for problem in table_problems(connection, tables, generated_columns=generated, planned=planned):
        faulty.add(problem.table)
        yield Finding(
            Severity.ERROR if problem.fatal else Severity.WARNING,
            f"table {problem.table}",
            problem.problem,
            problem.todo,
        )
    if len(faulty) < len(tables):
        yield ok("tables", f"{len(tables) - len(faulty)} of {len(tables)} captured tables have nothing to mend")
