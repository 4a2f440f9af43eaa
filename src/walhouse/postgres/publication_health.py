"""What is wrong with the publication, or would be once it is made.

Invariant: a check reads only. Whose a table or a publication is, is asked as the server would ask it.
Source: PostgreSQL documentation, CREATE PUBLICATION ("Notes": rights, and which columns a list or a row filter must
have for updates and deletes), ALTER PUBLICATION.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from psycopg.rows import dict_row

from walhouse.config.values import AutocreateMode
from walhouse.names import TableName
from walhouse.postgres.connection import one_row, source_errors
from walhouse.postgres.finding import Finding, error, ok, some, warning
from walhouse.postgres.publication import OPERATIONS
from walhouse.postgres.published import published_tables, row_filter
from walhouse.postgres.standby_health import takes_no_writes

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from typing import LiteralString

    from walhouse.config.filters import TableFilter
    from walhouse.postgres.connection import Connection
    from walhouse.postgres.publication import PublicationState

_OF_OTHERS: Final = """
    SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p') AND c.oid >= 16384 AND NOT pg_has_role(c.relowner, 'USAGE')"""

_WITHOUT_IDENTITY: Final = """
    SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind = 'r' AND c.relpersistence = 'p' AND c.oid >= 16384 AND CASE c.relreplident WHEN 'f' THEN false
        WHEN 'd' THEN NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary AND i.indimmediate)
        ELSE NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisreplident) END
    ORDER BY 1, 2"""
"""Tables of which the server refuses updates and deletes as soon as a publication has them."""

_TABLES: Final = """
    SELECT n.nspname, c.relname, c.relreplident::text AS identity, to_jsonb(r) -> 'prattrs' <> 'null' AS has_list,
        ARRAY(SELECT a.attname::text FROM pg_attribute a
            WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum) AS columns,
        ARRAY(SELECT a.attname::text FROM pg_attribute a
            WHERE a.attrelid = c.oid AND a.attgenerated <> '' AND NOT a.attisdropped) AS generated,
        ARRAY(SELECT a.attname::text FROM pg_attribute a JOIN pg_index i ON i.indrelid = a.attrelid
            WHERE a.attrelid = c.oid AND a.attnum IN (SELECT unnest((i.indkey::int2[])[0 : i.indnkeyatts - 1]))
                AND CASE c.relreplident WHEN 'i' THEN i.indisreplident WHEN 'd' THEN i.indisprimary END) AS key,
        ARRAY(SELECT a.attname::text FROM pg_depend d JOIN pg_attribute a
            ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
            WHERE d.classid = 'pg_publication_rel'::regclass AND d.objid = r.oid AND d.refobjid = c.oid
                AND to_jsonb(r) ->> 'prqual' IS NOT NULL) AS asked
    FROM unnest(%s::text[], %s::text[]) AS w(schema, name) JOIN pg_namespace n ON n.nspname = w.schema
    JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = w.name
    LEFT JOIN pg_publication_rel r ON r.prrelid = c.oid AND r.prpubid = %s
    ORDER BY 1, 2"""
"""``key``: of the replica identity, unless that is FULL; ``asked``: columns of the row filter."""


def publication_problems(
    connection: Connection,
    name: str,
    state: PublicationState | None,
    *,
    mode: str,
    tables: Sequence[TableName],
    selection: TableFilter,
) -> Iterator[Finding]:
    """What there is to say of the publication, and of what it sends of the captured tables."""
    subject = f"publication {name}"
    if not tables:
        yield error("tables", "The configuration captures no table of this database.", "Check table.include.list.")
    if state is not None:
        yield from _existing(connection, subject, state, mode, tables)
    elif mode == AutocreateMode.DISABLED:
        yield error(subject, "It does not exist.", f"CREATE PUBLICATION {name} FOR TABLE …")
    else:
        yield from _may_create(connection, subject, mode, tables)
    yield from _what_is_sent(connection, subject, state, tables, selection)


def _existing(
    connection: Connection, subject: str, state: PublicationState, mode: str, tables: Sequence[TableName]
) -> Iterator[Finding]:
    lacking = [table for table in tables if table not in state.published]
    yield from _lacking(connection, subject, state, mode, lacking)
    if not lacking:
        yield ok(subject, f"has all {len(tables)} captured tables")
    if left_out := sorted(set(OPERATIONS) - state.publishes):
        yield warning(
            subject,
            f"It does not publish {', '.join(left_out)}: the lake will differ from the source.",
            f"ALTER PUBLICATION {state.name} SET (publish = 'insert, update, delete, truncate')",
        )


def _lacking(
    connection: Connection, subject: str, state: PublicationState, mode: str, lacking: Sequence[TableName]
) -> Iterator[Finding]:
    """What is to be captured and not published: walhouse may add it, or somebody has to."""
    would_add = mode == AutocreateMode.FILTERED and not state.all_tables and not takes_no_writes(connection)
    is_owner = one_row(
        connection, "SELECT pg_has_role(pubowner, 'USAGE') FROM pg_publication WHERE oid = %s", [state.oid]
    )
    of_others = _of_others(connection) if lacking and would_add else frozenset[TableName]()
    for_somebody = [table for table in lacking if not (would_add and is_owner[0]) or table in of_others]
    if for_somebody:
        whose = ", and the user does not own " if would_add else ""
        whose += ("what it would have to add" if is_owner[0] else "the publication") if would_add else ""
        names = some(map(str, for_somebody))
        yield error(subject, f"It lacks {names}{whose}.", f"ALTER PUBLICATION {state.name} ADD TABLE …")
    if added := [str(table) for table in lacking if table not in for_somebody]:
        yield ok(subject, f"will get {some(added)}")


def _of_others(connection: Connection) -> frozenset[TableName]:
    """The tables that the user does not own."""
    return _names(connection, _OF_OTHERS)


def _names(connection: Connection, query: LiteralString) -> frozenset[TableName]:
    with source_errors():
        return frozenset(TableName(*row) for row in connection.execute(query).fetchall())


def _may_create(connection: Connection, subject: str, mode: str, tables: Sequence[TableName]) -> Iterator[Finding]:
    superuser, create = one_row(
        connection,
        "SELECT current_setting('is_superuser')::bool, has_database_privilege(current_database(), 'CREATE')",
    )
    of_others = _of_others(connection).intersection(tables) if mode == AutocreateMode.FILTERED else ()
    if takes_no_writes(connection):
        yield error(
            subject,
            "It does not exist, and the source takes no writes, for it is a standby or read.only is set.",
            "Make it on the primary, and set publication.autocreate.mode to disabled.",
        )
    elif mode == AutocreateMode.ALL_TABLES and not superuser:
        yield error(subject, "Only a superuser can make it FOR ALL TABLES.", "Make it as a superuser.")
    elif not create:
        yield error(
            subject,
            "It does not exist, and the user may not make it.",
            "Make it as the tables' owner, or GRANT CREATE ON DATABASE and the ownership of the tables.",
        )
    elif of_others:
        yield error(
            subject,
            f"It does not exist, and the user does not own {some(map(str, sorted(of_others)))}, which it is to have.",
            "Make it as the tables' owner or a superuser, and set publication.autocreate.mode to disabled.",
        )
    else:
        yield ok(subject, "will be made")
        if mode == AutocreateMode.ALL_TABLES:
            yield from _refused_to_others(connection, subject, tables)


def _refused_to_others(connection: Connection, subject: str, tables: Sequence[TableName]) -> Iterator[Finding]:
    """Of the captured tables each has a finding of its own."""
    if others := _names(connection, _WITHOUT_IDENTITY).difference(tables):
        yield error(
            subject,
            f"It would be FOR ALL TABLES, and {some(map(str, sorted(others)))} {'has' if len(others) == 1 else 'have'}"
            " no usable replica identity: PostgreSQL would refuse to update or delete their rows, captured or not.",
            "Set publication.autocreate.mode to filtered, or give them a primary key or REPLICA IDENTITY FULL.",
        )


# What is sent of each table ------------------------------------------------------------------------------------------


def _what_is_sent(
    connection: Connection,
    subject: str,
    state: PublicationState | None,
    tables: Sequence[TableName],
    selection: TableFilter,
) -> Iterator[Finding]:
    sent = {} if state is None else _sent_columns(connection, state.name)
    schemas, names = [table.schema for table in tables], [table.table for table in tables]
    with source_errors(), connection.cursor(row_factory=dict_row) as cursor:
        rows = cursor.execute(_TABLES, [schemas, names, None if state is None else state.oid]).fetchall()
    names_updates = state is None or not state.publishes.isdisjoint({"update", "delete"})
    for facts in rows:
        name = TableName(facts["nspname"], facts["relname"])
        columns = sent.get(name, set(facts["columns"]).difference(facts["generated"]))
        if names_updates:
            yield from _without_identity(subject, name, facts, columns)
        kept = [facts["columns"][place] for place in selection.kept_columns(name, facts["columns"], facts["key"])]
        if left_out := [column for column in kept if column not in columns]:
            yield warning(
                subject,
                f"It does not send {some(left_out)} of {name}: silver and gold lack them.",
                "Add them to its column list; stored generated columns of PostgreSQL 18 are sent with"
                " publish_generated_columns = stored. If that is as it should be, say so by column.exclude.list.",
            )
        if state is not None and facts["asked"]:
            yield from _filtered(subject, name, row_filter(connection, state.name, name))


def _sent_columns(connection: Connection, publication: str) -> dict[TableName, set[str]]:
    with source_errors():
        rows = published_tables(connection, publication)
    return {TableName(row["schemaname"], row["tablename"]): set(row["columns"] or ()) for row in rows}


def _without_identity(
    subject: str, name: TableName, facts: Mapping[str, Any], columns: Collection[str]
) -> Iterator[Finding]:
    """Where the server refuses updates and deletes for what the publication leaves out."""
    is_full = facts["identity"] == "f"
    refused = f"PostgreSQL refuses to update or delete rows of {name}"
    if lacking := [column for column in facts["key"] if column not in columns]:
        yield error(
            subject,
            f"It does not send {some(lacking)}, of the table's replica identity: {refused}, or does not tell which.",
            "Add them to its column list, or give the table a replica identity of columns that are sent.",
        )
    if is_full and facts["has_list"]:
        yield error(
            subject,
            f"It has a column list for a table with replica identity FULL: {refused}.",
            "Take the list away, or give the table a replica identity of columns that are in it.",
        )
    if outside := [column for column in facts["asked"] if not is_full and column not in facts["key"]]:
        yield error(
            subject,
            f"Its row filter asks for {some(outside)}, outside of the table's replica identity: {refused}.",
            f"Ask for columns of the key alone, or ALTER TABLE {name.quoted} REPLICA IDENTITY FULL.",
        )


def _filtered(subject: str, name: TableName, condition: str | None) -> Iterator[Finding]:
    if condition is not None:
        yield warning(
            subject,
            f"It sends rows of {name} only where {condition}: silver and gold have no others.",
            "Right if it is meant; else take the WHERE out of the publication.",
        )
