"""What the catalog knows of published tables, beyond what the stream says.

Invariant: a description from here has the version that the stream's own Relation message for the table as it is now
will give: the columns that pgoutput sends, in its order, with its type modifiers and identity flags.
Source: PostgreSQL documentation, "System Catalogs", and "Logical Replication Message Formats", Relation.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from psycopg.rows import dict_row

from walhouse.config.filters import TableFilter
from walhouse.names import TableName
from walhouse.pgoutput.column import ColumnDescription
from walhouse.pgoutput.relation import RelationDescription, describe, known_parts
from walhouse.pgoutput.selection import kept_positions
from walhouse.pgoutput.type_facts import TypeFacts
from walhouse.postgres.connection import source_errors
from walhouse.postgres.published import published_tables
from walhouse.postgres.wal import insert_lsn

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from walhouse.pgoutput.selection import TableSelection
    from walhouse.postgres.connection import Connection

_TABLES: Final = """
    SELECT c.oid::int8, n.nspname AS schemaname, c.relname AS tablename, c.relreplident::text,
        c.relkind = 'p' AS partitioned, NULL AS columns, obj_description(c.oid, 'pg_class') AS comment
    FROM jsonb_to_recordset(%s::jsonb) AS w(schema text, name text)
    JOIN pg_namespace n ON n.nspname = w.schema JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = w.name
    ORDER BY 2, 3"""
"""The same facts of tables whether they are published or not."""

_INDEXES: Final = """
    SELECT i.indrelid::int8 AS relation, i.indexrelid::int8, i.indisprimary, i.indisreplident, i.indimmediate,
        i.indisunique AND i.indisvalid AND i.indimmediate AND i.indpred IS NULL AND i.indexprs IS NULL AS usable,
        i.indisunique AND i.indisvalid AND i.indexprs IS NULL AS is_key,
        listed[:i.indnkeyatts] AS columns, listed
    FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid CROSS JOIN LATERAL (
        SELECT array_agg(a.attname::text ORDER BY k.place) AS listed
        FROM unnest(i.indkey::int2[]) WITH ORDINALITY AS k(attnum, place)
        LEFT JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum) l
    WHERE i.indrelid = ANY(%s) ORDER BY x.relname"""
"""``usable`` as a replica identity; ``is_key``: what Debezium takes for a key, where there is no primary one, a partial
index, too. ``columns`` are those of the index's key, ``listed`` also those that it includes: Debezium's driver does not
tell them apart."""

_BASES: Final = """domains AS (
        SELECT type, type AS base, -1 AS typmod, false AS not_null FROM types
        UNION ALL
        SELECT d.type, t.typbasetype, CASE WHEN d.typmod >= 0 THEN d.typmod ELSE t.typtypmod END,
            d.not_null OR t.typnotnull
        FROM domains d JOIN pg_type t ON t.oid = d.base WHERE t.typtype = 'd'
    ), bases AS (
        SELECT d.type, d.typmod, d.not_null, t.oid AS base, t.typname, t.typtype, t.typelem, t.typsubscript
        FROM domains d JOIN pg_type t ON t.oid = d.base WHERE t.typtype <> 'd'
    )"""
"""What the types in ``types`` are when domains are resolved."""

_BASE_FACTS: Final = """b.typname::text AS base_type, b.typtype::text AS kind, e.typname::text AS element_type,
        (SELECT array_agg(l.enumlabel::text ORDER BY l.enumsortorder) FROM pg_enum l
            WHERE l.enumtypid = coalesce(e.base, b.base)) AS enum_labels"""

_ELEMENTS: Final = "LEFT JOIN bases e ON e.type = b.typelem AND b.typsubscript = 'array_subscript_handler'::regproc"

_COLUMNS: Final = f"""
    WITH RECURSIVE wanted AS (
        SELECT a.attrelid, a.attnum, a.attname, a.atttypid, a.atttypmod, a.attnotnull, a.attgenerated,
            t.typname, t.typnotnull
        FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
        WHERE a.attrelid = ANY(%s) AND a.attnum > 0 AND NOT a.attisdropped
    ), types AS (
        SELECT atttypid AS type FROM wanted UNION SELECT t.typelem FROM pg_type t
        WHERE t.typelem <> 0 AND t.typsubscript = 'array_subscript_handler'::regproc
    ), {_BASES}
    SELECT w.attrelid::int8 AS relation, w.attname::text AS name, w.atttypid::int8 AS type_oid, w.atttypmod AS typmod,
        format_type(w.atttypid, w.atttypmod) AS type_name, w.typname::text AS declared_type, {_BASE_FACTS},
        CASE WHEN w.atttypmod >= 0 THEN w.atttypmod ELSE b.typmod END AS base_typmod,
        NOT (w.attnotnull OR b.not_null) AS nullable,
        col_description(w.attrelid, w.attnum) AS comment, w.attgenerated <> '' AS generated
    FROM wanted w JOIN bases b ON b.type = w.atttypid {_ELEMENTS} ORDER BY w.attrelid, w.attnum"""

_DEFAULTS: Final = """
    SELECT v.adrelid::int8 AS relation, a.attname::text AS name, pg_get_expr(v.adbin, v.adrelid) AS default
    FROM pg_attrdef v JOIN pg_attribute a ON a.attrelid = v.adrelid AND a.attnum = v.adnum
    WHERE v.adrelid = ANY(%s) AND a.attgenerated = ''"""

_ALONE: Final = """
    SELECT DISTINCT relation::int8 FROM pg_locks
    WHERE locktype = 'relation' AND mode = 'AccessExclusiveLock' AND pid IS DISTINCT FROM pg_backend_pid()
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND relation = ANY(%s)"""
"""Tables that somebody has for himself alone, or waits for; who asks for a lock now stands behind him."""

_TYPES: Final = f"""
    WITH RECURSIVE types AS (
        SELECT t.oid AS type FROM pg_type t LEFT JOIN pg_class c ON c.oid = t.typrelid
        WHERE t.typtype <> 'c' OR c.relkind = 'c'
    ), {_BASES}
    SELECT w.oid::int8, format_type(w.oid, -1) AS type_name, w.typname::text AS declared_type, {_BASE_FACTS},
        b.typmod AS base_typmod
    FROM pg_type w JOIN bases b ON b.type = w.oid {_ELEMENTS}
    WHERE b.typsubscript <> 'array_subscript_handler'::regproc OR e.type IS NOT NULL"""
"""Without the rows of tables, of which there are as many as tables, and arrays of these."""


def read_relations(
    connection: Connection,
    publication: str,
    selection: TableSelection,
    *,
    known: Iterable[RelationDescription] = (),
) -> dict[int, RelationDescription]:
    """Captured tables that are published, by the OID that their changes have: with publish_via_partition_root the
    roots of partition trees, else their leaves. ``enum_labels`` of an array are those of its elements.

    All facts are of one moment; ``catalog_lsn`` is the insert LSN right before it. A table that is locked exclusively
    is waited for, since PostgreSQL 18 opens a table to print a column's default; but not if it is as in ``known``, of
    which the defaults are taken then.
    """
    with source_errors(publication=publication):
        lsn = int(insert_lsn(connection))
        with _one_moment(connection):
            found = _read(connection, published_tables(connection, publication), selection, known)
    return {oid: replace(relation, catalog_lsn=lsn) for oid, relation in found.items()}


def read_types(connection: Connection) -> dict[int, TypeFacts]:
    """All types that a column can have and keep without its table, by OID, but for rows of other tables."""
    with source_errors(), connection.cursor(row_factory=dict_row) as cursor:
        rows = cursor.execute(_TYPES.encode()).fetchall()
    return {row.pop("oid"): TypeFacts(**{**row, "enum_labels": _labels(row["enum_labels"])}) for row in rows}


def describe_tables(connection: Connection, tables: Sequence[TableName]) -> list[RelationDescription]:
    """These tables with all of their columns, in the order of their names, be they published or not."""
    names = json.dumps([{"schema": table.schema, "name": table.table} for table in tables])
    with source_errors(), _one_moment(connection):
        return list(_read(connection, _rows(connection, _TABLES, names), TableFilter(), ()).values())


@contextmanager
def _one_moment(connection: Connection) -> Iterator[None]:
    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        yield


def _read(
    connection: Connection,
    found: Iterable[dict[str, Any]],
    selection: TableSelection,
    known: Iterable[RelationDescription],
) -> dict[int, RelationDescription]:
    version = connection.info.server_version
    tables = {row["oid"]: row for row in found if selection.captures(TableName(row["schemaname"], row["tablename"]))}
    indexes = _by_relation(_rows(connection, _INDEXES, [*tables]))
    existing = _by_relation(_rows(connection, _COLUMNS, [*tables]))
    sent = {oid: _sent(row["columns"], existing.get(oid, ()), version) for oid, row in tables.items()}
    defaults = _defaults(connection, {oid: _kept(row, sent[oid], selection) for oid, row in tables.items()}, known)
    return {
        oid: _describe(
            row,
            [column | {"default": defaults.get((oid, column["name"]))} for column in sent[oid]],
            indexes.get(oid, ()),
            selection,
        )
        for oid, row in tables.items()
    }


def _kept(table: Mapping[str, Any], columns: Sequence[Mapping[str, Any]], selection: TableSelection) -> set[str]:
    """The names of columns that the configuration keeps, whatever they are to the table."""
    names = [column["name"] for column in columns]
    return {names[at] for at in selection.kept_columns(TableName(table["schemaname"], table["tablename"]), names, ())}


def _defaults(
    connection: Connection, kept: Mapping[int, set[str]], known: Iterable[RelationDescription]
) -> dict[tuple[int, str], str | None]:
    """The default of each column that has one, by the table's OID and the column's name; ``kept``: those of use."""
    before = {relation.oid: {column.name: column.default for column in relation.columns} for relation in known}
    alone = {row["relation"] for row in _rows(connection, _ALONE, [*kept])} if before else set()
    spared = {oid: before[oid] for oid in alone & before.keys() if before[oid].keys() >= kept[oid]}
    asked = _rows(connection, _DEFAULTS, [*kept.keys() - spared.keys()])
    return {(oid, name): default for oid, those in spared.items() for name, default in those.items()} | {
        (row["relation"], row["name"]): row["default"] for row in asked
    }


def _describe(
    relation: Mapping[str, Any],
    columns: Sequence[Mapping[str, Any]],
    indexes: Sequence[Mapping[str, Any]],
    selection: TableSelection,
) -> RelationDescription:
    name = TableName(relation["schemaname"], relation["tablename"])
    identity = identity_columns(relation["relreplident"], indexes)
    described = [_column(column, identity=identity is None or column["name"] in identity) for column in columns]
    primary_key = next((tuple(index["columns"]) for index in indexes if index["indisprimary"]), ())
    unique_keys = [tuple(index["listed"]) for index in indexes if index["is_key"] and not index["indisprimary"]]
    own_key = primary_key or next(iter(unique_keys), ())
    kept = kept_positions(selection, name, relation["relreplident"], described, own_key)
    description = describe(relation["oid"], name, relation["relreplident"], described, kept)
    names = set(description.column_names)
    sent = {column["name"] for column in columns}
    return replace(
        description,
        primary_key=primary_key if names.issuperset(primary_key) else None,
        key_is_deferrable=any(index["indisprimary"] and not index["indimmediate"] for index in indexes),
        identity_is_whole=identity is None or identity <= sent,
        unique_keys=known_parts(unique_keys, names),
        comment=relation["comment"],
        partitioned=relation["partitioned"],
    )


def _sent(
    column_list: Sequence[str] | None, columns: Sequence[dict[str, Any]], server_version: int
) -> list[dict[str, Any]]:
    """The columns that pgoutput sends."""
    listed = [column for column in columns if column_list is None or column["name"] in column_list]
    return listed if server_version >= 180000 else [column for column in listed if not column["generated"]]


def identity_columns(replica_identity: str, indexes: Sequence[Mapping[str, Any]]) -> frozenset[str] | None:
    """Columns of the replica identity; None if all are, empty if there is no usable identity.

    ``indexes`` are rows with indisprimary, indisreplident, usable and columns. A deferrable primary key is not usable.
    """
    if replica_identity == "f":
        return None
    flag = {"d": "indisprimary", "i": "indisreplident"}.get(replica_identity)
    if flag is None:
        return frozenset()
    return next((frozenset(index["columns"]) for index in indexes if index[flag] and index["usable"]), frozenset())


def _column(row: Mapping[str, Any], *, identity: bool) -> ColumnDescription:
    return ColumnDescription(
        identity=identity,
        enum_labels=_labels(row["enum_labels"]),
        **{name: value for name, value in row.items() if name not in {"relation", "enum_labels"}},
    )


def _labels(labels: list[str] | None) -> tuple[str, ...] | None:
    return None if labels is None else tuple(labels)


def _by_relation(rows: Sequence[dict[str, Any]]) -> dict[int, list[dict[str, Any]]]:
    grouped: dict[int, list[dict[str, Any]]] = {}
    for row in rows:
        grouped.setdefault(row["relation"], []).append(row)
    return grouped


def _rows(connection: Connection, query: str, parameter: object) -> list[dict[str, Any]]:
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(query.encode(), [parameter]).fetchall()
