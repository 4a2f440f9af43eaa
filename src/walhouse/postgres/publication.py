"""The publication: which tables the server decodes for us.

Invariant: what was decoded without the publication, or without one of its tables, was never sent and never will be; so
a publication or an entry that was dropped and made again is noticed by its OID. walhouse adds entries, and never
removes or changes one. Source: PostgreSQL documentation, "Publication", catalogs ``pg_publication*``.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from psycopg import sql
from psycopg.rows import dict_row

from walhouse.config.values import AutocreateMode
from walhouse.errors import PublicationTableError, ReadOnlySourceError, SourceError
from walhouse.names import TableName
from walhouse.postgres.connection import source_errors
from walhouse.postgres.failure import publication_missing
from walhouse.postgres.published import published_tables

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from walhouse.postgres.connection import Connection

log = logging.getLogger("walhouse.capture")


class CapturedTables(Protocol):
    """Which tables the configuration asks for (``walhouse.config.filters.TableFilter``)."""

    def captures(self, name: TableName) -> bool:
        """True if the table is captured."""
        ...


@dataclass(frozen=True, slots=True)
class PublicationState:
    """The publication as the catalog has it now."""

    name: str
    oid: int
    all_tables: bool
    via_root: bool
    publishes: frozenset[str]
    """Of insert, update, delete, truncate."""
    generated_columns: str
    """``pg_publication.pubgencols``: n(one) or s(tored); n where the version does not have it."""
    tables: Mapping[TableName, int]
    """Tables that were added by name, each with its entry's OID."""
    published: frozenset[TableName]
    """All tables whose changes are sent, under the name that the changes have."""
    existing: frozenset[int]
    """OIDs of all tables and partitioned tables of the database, published or not; no temporary ones."""
    fingerprint: str
    """The OIDs of the publication and of its entries, as JSON: what bronze keeps and compares."""


OPERATIONS: Final = ("insert", "update", "delete", "truncate")

_PUBLICATION: Final = """
    SELECT oid::int8, xmin::text AS version, pubowner::int8 AS owner, to_jsonb(p) AS facts
    FROM pg_publication p WHERE pubname = %s"""
_TABLES: Final = """
    SELECT r.oid::int8 AS entry, c.oid::int8 AS relation, n.nspname, c.relname
    FROM pg_publication_rel r JOIN pg_class c ON c.oid = r.prrelid JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE r.prpubid = %s"""
_SCHEMAS: Final = """
    SELECT s.oid::int8 AS entry, n.oid::int8 AS schema, n.nspname
    FROM pg_publication_namespace s JOIN pg_namespace n ON n.oid = s.pnnspid WHERE s.pnpubid = %s"""
_EXISTING: Final = """
    SELECT oid::int8 FROM pg_class WHERE relkind IN ('r', 'p') AND relpersistence <> 't' AND oid >= 16384"""
_CANDIDATES: Final = """
    SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p') AND c.relpersistence = 'p' AND c.oid >= 16384
        AND CASE WHEN %s THEN NOT c.relispartition ELSE c.relkind = 'r' END
    ORDER BY 1, 2"""


def read_publication(connection: Connection, name: str) -> PublicationState:
    """The publication's state. Raises PublicationMissingError."""
    state = find_publication(connection, name)
    if state is None:
        raise publication_missing(name)
    return state


def find_publication(connection: Connection, name: str) -> PublicationState | None:
    """The publication's state, read in one transaction; None if there is none."""
    with (
        source_errors(publication=name),
        connection.transaction(),
        connection.cursor(row_factory=dict_row) as cursor,
    ):
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        row = cursor.execute(_PUBLICATION, [name]).fetchone()
        if row is None:
            return None
        tables = cursor.execute(_TABLES, [row["oid"]]).fetchall()
        has_schemas = connection.info.server_version >= 150000
        schemas = cursor.execute(_SCHEMAS, [row["oid"]]).fetchall() if has_schemas else []
        published = published_tables(connection, name)
        existing = cursor.execute(_EXISTING).fetchall()
    facts = row["facts"]
    return PublicationState(
        name=name,
        oid=row["oid"],
        all_tables=facts["puballtables"],
        via_root=facts["pubviaroot"],
        publishes=_operations(facts),
        generated_columns=_generated_columns(facts),
        tables={TableName(table["nspname"], table["relname"]): table["entry"] for table in tables},
        published=frozenset(TableName(table["schemaname"], table["tablename"]) for table in published),
        existing=frozenset(table["oid"] for table in existing),
        fingerprint=_fingerprint(row, tables, schemas),
    )


def _fingerprint(
    row: Mapping[str, Any], tables: Iterable[Mapping[str, Any]], schemas: Iterable[Mapping[str, Any]]
) -> str:
    """``PublicationState.fingerprint``: of the rows of ``_PUBLICATION``, ``_TABLES`` and ``_SCHEMAS``."""
    identity = {
        "oid": row["oid"],
        "version": [row["version"], row["owner"]],
        "publishes": sorted(_operations(row["facts"])),
        "via_root": row["facts"]["pubviaroot"],
        "generated_columns": _generated_columns(row["facts"]),
        "tables": {
            str(table["relation"]): [table["entry"], f"{table['nspname']}.{table['relname']}"]
            for table in sorted(tables, key=lambda table: table["relation"])
        },
        "schemas": {
            str(schema["schema"]): [schema["entry"], schema["nspname"]]
            for schema in sorted(schemas, key=lambda schema: schema["schema"])
        },
    }
    return json.dumps(identity, ensure_ascii=False, separators=(",", ":"))


def _operations(facts: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(operation for operation in OPERATIONS if facts[f"pub{operation}"])


def publishes_roots(connection: Connection, name: str, *, otherwise: bool) -> bool:
    """Whether changes of partitions have the name of their root; ``otherwise``: if there is no such publication."""
    with source_errors(publication=name):
        row = connection.execute("SELECT pubviaroot FROM pg_publication WHERE pubname = %s", [name]).fetchone()
    return otherwise if row is None else bool(row[0])


def ensure_publication(
    connection: Connection,
    name: str,
    mode: str,
    selection: CapturedTables,
    *,
    via_root: bool = False,
) -> PublicationState:
    """Make the publication if it is missing and may be made; with ``filtered``, add captured tables that it lacks.

    ``via_root`` counts only where the publication is made here. Raises PublicationMissingError (``disabled``),
    PublicationTableError (no table, or one that is not published and must not be added), PrivilegeError.
    """
    with source_errors(publication=name):
        row = connection.execute("SELECT FROM pg_publication WHERE pubname = %s", [name]).fetchone()
    wanted = captured_tables(connection, selection, via_root=publishes_roots(connection, name, otherwise=via_root))
    if row is None:
        _create(connection, name, AutocreateMode(mode), wanted, via_root=via_root)
    state = read_publication(connection, name)
    if mode == AutocreateMode.FILTERED:
        return _with_missing(connection, state, wanted)
    if mode != AutocreateMode.NO_TABLES:
        require_published(state, wanted)
    return state


def add_captured_tables(connection: Connection, name: str, selection: CapturedTables) -> None:
    """Add the captured tables that the publication lacks, as ``filtered`` does at each start.

    One that cannot be added, as that of another owner, is logged and not captured; all others are. Raises
    PublicationMissingError.
    """
    state = read_publication(connection, name)
    wanted = captured_tables(connection, selection, via_root=state.via_root)
    try:
        _with_missing(connection, state, wanted)
    except ReadOnlySourceError as refusal:
        _not_added(name, _missing(state, wanted), refusal)
    except SourceError:
        for table in _missing(state, wanted):
            try:
                _with_missing(connection, state, [table])
            except SourceError as refusal:
                _not_added(name, [table], refusal)


def _not_added(name: str, tables: Iterable[TableName], refusal: SourceError) -> None:
    names = ", ".join(map(str, tables))
    log.warning("Not captured, since the publication %s lacks it: %s. %s", name, names, refusal.problem)


def _missing(state: PublicationState, wanted: Iterable[TableName]) -> list[TableName]:
    return [] if state.all_tables else [table for table in wanted if table not in state.published]


def _with_missing(connection: Connection, state: PublicationState, wanted: Collection[TableName]) -> PublicationState:
    missing = _missing(state, wanted)
    if not missing:
        return state
    log.info("Adding to the publication %s: %s.", state.name, ", ".join(map(str, missing)))
    adding = sql.SQL("ALTER PUBLICATION {} ADD TABLE {}").format(sql.Identifier(state.name), _list(missing))
    _run(connection, state.name, adding)
    return read_publication(connection, state.name)


def require_published(state: PublicationState, tables: Collection[TableName]) -> None:
    """Raises PublicationTableError if changes of one of the tables are not sent."""
    missing = sorted(table for table in tables if table not in state.published)
    if missing:
        raise PublicationTableError(
            f"The publication {state.name} does not have {', '.join(map(str, missing))}.",
            todo=f"Run ALTER PUBLICATION {state.name} ADD TABLE …, or leave the tables out of the configuration.",
            publication=state.name,
            table=str(missing[0]),
        )


def drop_publication(connection: Connection, name: str) -> None:
    """Drop the publication if it exists."""
    _run(connection, name, sql.SQL("DROP PUBLICATION IF EXISTS {}").format(sql.Identifier(name)))


def _create(
    connection: Connection,
    name: str,
    mode: AutocreateMode,
    tables: list[TableName],
    *,
    via_root: bool,
) -> None:
    match mode:
        case AutocreateMode.DISABLED:
            raise publication_missing(name)
        case AutocreateMode.ALL_TABLES:
            what: sql.Composable = sql.SQL(" FOR ALL TABLES")
        case AutocreateMode.NO_TABLES:
            what = sql.SQL("")
        case AutocreateMode.FILTERED:
            if not tables:
                raise PublicationTableError(
                    f"The publication {name} was not made: no table of the source is captured by the configuration.",
                    todo="Check table.include.list and the other lists, and the database.",
                    publication=name,
                )
            what = sql.SQL(" FOR TABLE {}").format(_list(tables))
    statement = sql.SQL("CREATE PUBLICATION {}{} WITH (publish_via_partition_root = {})")
    _run(connection, name, statement.format(sql.Identifier(name), what, sql.Literal(via_root)))


def captured_tables(connection: Connection, selection: CapturedTables, *, via_root: bool) -> list[TableName]:
    """Captured tables under the names that their changes have: roots of partition trees, or their leaves."""
    with source_errors():
        rows = connection.execute(_CANDIDATES, [via_root]).fetchall()
    return [name for name in (TableName(*row) for row in rows) if selection.captures(name)]


def _generated_columns(facts: Mapping[str, Any]) -> str:
    """A column of 18, where it is a letter."""
    return str(facts.get("pubgencols", "n"))


def _list(tables: Collection[TableName]) -> sql.Composed:
    return sql.SQL(", ").join(sql.Identifier(*table) for table in tables)


def _run(connection: Connection, name: str, statement: sql.Composed) -> None:
    with source_errors(publication=name):
        connection.execute(statement)
