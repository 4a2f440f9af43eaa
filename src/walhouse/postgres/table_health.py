"""What is wrong with captured tables: rights, and replica identities without which changes cannot be followed.

Invariant: every leaf of a partition tree is looked at, since PostgreSQL writes old tuples by the leaf's own identity.
Source: PostgreSQL documentation, "Replica Identity" and "Publication".
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from psycopg.rows import dict_row

from walhouse.config.replica_identity import Identity
from walhouse.names import TableName
from walhouse.postgres.connection import source_errors
from walhouse.postgres.finding import some

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from walhouse.postgres.connection import Connection


@dataclass(frozen=True, slots=True)
class TableProblem:
    """One problem of one captured table. ``fatal``: capture would fail, or the source's own changes do."""

    table: TableName
    problem: str
    todo: str
    fatal: bool


_TABLES: Final = """
    WITH wanted AS (
        SELECT c.oid, n.nspname, c.relname FROM unnest(%s::text[], %s::text[]) AS w(schema, name)
        JOIN pg_namespace n ON n.nspname = w.schema JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = w.name
    ), leaves AS (
        SELECT w.*, w.oid AS leaf FROM wanted w WHERE NOT EXISTS (SELECT FROM pg_inherits i WHERE i.inhparent = w.oid
            AND EXISTS (SELECT FROM pg_class c WHERE c.oid = w.oid AND c.relkind = 'p'))
        UNION ALL
        SELECT w.*, t.relid FROM wanted w, pg_partition_tree(w.oid) t
        WHERE t.isleaf AND t.relid <> w.oid
    ), identities AS (
        SELECT c.oid, c.relreplident::text AS identity, coalesce((SELECT array_agg(a.attname::text ORDER BY a.attname)
            FROM pg_attribute a
            WHERE a.attrelid = c.oid AND a.attnum IN (SELECT unnest((i.indkey::int2[])[0 : i.indnkeyatts - 1])
                FROM pg_index i WHERE i.indrelid = c.oid AND CASE c.relreplident
                    WHEN 'i' THEN i.indisreplident ELSE i.indisprimary END)), '{}') AS columns
        FROM pg_class c WHERE c.oid IN (SELECT oid FROM leaves UNION SELECT leaf FROM leaves)
    ), members AS (
        SELECT c.oid, c.relname, n.oid AS schema, n.nspname
        FROM identities JOIN pg_class c USING (oid) JOIN pg_namespace n ON n.oid = c.relnamespace
    )
    SELECT l.nspname, l.relname, format('%%s.%%s', n.nspname, c.relname) AS leaf,
        n.nspname AS leaf_schema, c.relname AS leaf_name, own.identity,
        c.relkind::text AS kind, c.relpersistence::text AS persistence,
        ARRAY(SELECT DISTINCT quote_ident(m.nspname) FROM members m
            WHERE m.oid IN (l.oid, c.oid) AND NOT has_schema_privilege(m.schema, 'USAGE')) AS closed_schemas,
        ARRAY(SELECT format('%%I.%%I', m.nspname, m.relname) FROM members m
            WHERE m.oid IN (l.oid, c.oid) AND NOT has_table_privilege(m.oid, 'SELECT')) AS closed,
        ARRAY(SELECT format('%%I.%%I', m.nspname, m.relname) FROM members m
            WHERE m.oid IN (l.oid, c.oid) AND row_security_active(m.oid)) AS secured,
        p.indexrelid IS NOT NULL AS has_key, coalesce(p.indimmediate, true) AS key_is_immediate,
        EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisreplident AND i.indisvalid) AS has_index,
        coalesce((SELECT array_agg(a.attname::text ORDER BY a.attnum) FROM pg_attribute a JOIN pg_constraint n
            ON n.conrelid = a.attrelid AND n.contype = 'n' AND n.conkey[1] = a.attnum AND NOT n.convalidated
            WHERE a.attrelid = c.oid AND a.attname = ANY(own.columns)), '{}') AS unvalidated,
        coalesce((SELECT array_agg(a.attname::text ORDER BY a.attnum) FROM pg_attribute a WHERE a.attrelid = c.oid
            AND NOT a.attisdropped AND a.attgenerated <> '' AND (a.attgenerated <> 's' OR %s)), '{}') AS unpublished,
        own.columns AS identity_columns, root.identity AS root_identity, root.columns AS root_columns
    FROM leaves l JOIN pg_class c ON c.oid = l.leaf JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN identities own ON own.oid = l.leaf JOIN identities root ON root.oid = l.oid
    LEFT JOIN pg_index p ON p.indrelid = c.oid AND p.indisprimary
    ORDER BY 1, 2, 3"""


def table_problems(
    connection: Connection,
    tables: Sequence[TableName],
    *,
    generated_columns: str = "n",
    planned: Mapping[TableName, Identity] | None = None,
) -> Iterator[TableProblem]:
    """Problems of the tables, in the order of their names.

    ``generated_columns`` is ``pg_publication.pubgencols``; ``planned``: the identities that tables and partitions will
    get when capture begins.
    """
    schemas, names = [table.schema for table in tables], [table.table for table in tables]
    with source_errors(), connection.cursor(row_factory=dict_row) as cursor:
        rows = cursor.execute(_TABLES, [schemas, names, generated_columns != "s"]).fetchall()
    version = connection.info.server_version // 10000
    for (schema, name), group in groupby(rows, key=lambda row: (row["nspname"], row["relname"])):
        yield from _of_table(TableName(schema, name), list(group), version, planned or {})


def _of_table(
    table: TableName, found: list[dict[str, Any]], version: int, planned: Mapping[TableName, Identity]
) -> Iterator[TableProblem]:
    leaves = [_as_planned(leaf, planned.get(TableName(leaf["leaf_schema"], leaf["leaf_name"]))) for leaf in found]
    yield from _rights(table, leaves)
    for leaf in leaves:
        yield from _of_leaf(table, leaf, version)
    if leaves != found:
        return  # one entry of the configuration is for all partitions
    keys = {tuple(leaf["identity_columns"]) for leaf in leaves if leaf["identity"] != "f"}
    if len(keys) > 1:
        yield TableProblem(
            table,
            "Its partitions have different columns as replica identity: no key is in all their old tuples.",
            "Give all partitions the same REPLICA IDENTITY.",
            fatal=True,
        )
    elif keys and any(leaf["identity"] == "f" for leaf in leaves):
        yield TableProblem(
            table,
            "Some of its partitions have replica identity FULL and others a key: old values are there for some only.",
            "Give all partitions the same REPLICA IDENTITY.",
            fatal=False,
        )
    if table not in planned:
        yield from _of_root(table, leaves)


def _rights(table: TableName, leaves: Sequence[Mapping[str, Any]]) -> Iterator[TableProblem]:
    """What a snapshot would be refused: it reads partitions by their own names."""
    unreadable = "The user may not read it, so it cannot be snapshotted"

    def all_of(kind: str) -> str:
        return some(dict.fromkeys(name for leaf in leaves for name in leaf[kind]))

    if schemas := all_of("closed_schemas"):
        yield TableProblem(table, f"{unreadable}: not its schema.", f"GRANT USAGE ON SCHEMA {schemas}", fatal=True)
    if names := all_of("closed"):
        yield TableProblem(table, f"{unreadable}: it takes SELECT on {names}.", f"GRANT SELECT ON {names}", fatal=True)
    if names := all_of("secured"):
        yield TableProblem(
            table,
            f"Row security is enabled on {names}, and the user is subject to it: a snapshot is refused, whatever the"
            " policies say, and never reads a part of the rows.",
            "ALTER ROLE … BYPASSRLS, as a superuser, or let the tables' owner be the user.",
            fatal=True,
        )


def _of_root(table: TableName, leaves: Sequence[Mapping[str, Any]]) -> Iterator[TableProblem]:
    """Where old tuples are by another identity, the leaves', than the one that the stream tells, the root's."""
    if all(_is_as_the_root(leaf) for leaf in leaves):
        return
    key = set(leaves[0]["root_columns"])
    is_found = bool(key) and all(leaf["identity"] == "f" or key <= set(leaf["identity_columns"]) for leaf in leaves)
    yield TableProblem(
        table,
        "Its replica identity is another one than its partitions': "
        + (
            "old values are there as theirs has them." if is_found else "their old tuples do not tell which row it was."
        ),
        "Give the table and all partitions the same REPLICA IDENTITY.",
        fatal=not is_found,
    )


def _is_as_the_root(leaf: Mapping[str, Any]) -> bool:
    if "f" in {leaf["identity"], leaf["root_identity"]}:
        return bool(leaf["identity"] == leaf["root_identity"])
    return bool(leaf["identity_columns"] == leaf["root_columns"])


def _as_planned(leaf: dict[str, Any], identity: Identity | None) -> dict[str, Any]:
    if identity is None:
        return leaf
    return leaf | {"identity": str(identity), "has_index": leaf["has_index"] or identity is Identity.INDEX}


def _of_leaf(table: TableName, leaf: dict[str, Any], version: int) -> Iterator[TableProblem]:
    name = leaf["leaf"]
    if leaf["persistence"] != "p" or leaf["kind"] not in {"r", "p"}:
        yield TableProblem(table, f"{name} is not in the WAL.", "Leave the table out of the configuration.", fatal=True)
    elif reason := _without_identity(leaf):
        yield TableProblem(
            table,
            f"{name} has no usable replica identity ({reason}): once it is published, PostgreSQL refuses to update"
            " or delete its rows.",
            f"ALTER TABLE {name} REPLICA IDENTITY FULL, or give it a primary key.",
            fatal=True,
        )
    elif leaf["identity"] == "i" and leaf["unvalidated"]:
        yield TableProblem(
            table,
            f"{name} may have rows with NULL in its replica identity ({', '.join(leaf['unvalidated'])} is NOT NULL, but"
            " not validated): nothing tells them apart, and gold has one of them.",
            f"ALTER TABLE {name} ALTER {leaf['unvalidated'][0]} SET NOT NULL, which looks at all rows.",
            fatal=True,
        )
    elif leaf["identity"] == "f" and leaf["unpublished"] and version >= 18:
        yield TableProblem(
            table,
            f"{name} has replica identity FULL and generated columns that are not published"
            f" ({', '.join(leaf['unpublished'])}): PostgreSQL 18 refuses to update or delete its rows.",
            "Publish them (publish_generated_columns = stored; virtual ones cannot be), or use a key as identity.",
            fatal=True,
        )


def _without_identity(leaf: dict[str, Any]) -> str | None:
    match leaf["identity"]:
        case "n":
            return "REPLICA IDENTITY NOTHING"
        case "i" if not leaf["has_index"]:
            return "the index that was chosen is gone"
        case "d" if not leaf["has_key"]:
            return "it has no primary key"
        case "d" if not leaf["key_is_immediate"]:
            return "its primary key is deferrable"
        case _:
            return None
