"""Reading a table with a key piece by piece, each piece in a short transaction and a snapshot of its own.

Invariant: a chunk's rows are exactly what its snapshot sees of its range of keys, as the text that the WAL would give.
The table's lock is taken before the snapshot, so nothing that changes rows without an event falls between; the LSN is
read after the snapshot, so every commit that the snapshot sees starts before it; and rows are given out as complete
only when the server has flushed its WAL up to there, since a commit can be visible, then lost in the server's crash.
A standby tells otherwise what a snapshot has seen, see ``postgres.standby``; what it has replayed is flushed.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg import sql

from walhouse.errors import ConditionError, TableChangedError
from walhouse.lsn import Lsn
from walhouse.postgres.connection import source_errors
from walhouse.postgres.copy_out import copied_blocks
from walhouse.postgres.expression import find_names_as_the_user, leaves_its_parentheses
from walhouse.postgres.key_ranges import bounds, by_key, has_key, identifiers, in_range, key_texts
from walhouse.postgres.keyed_table import KeyedTable
from walhouse.postgres.published import row_filter
from walhouse.postgres.standby import REPLAY_STATE, ReplayState, replay_state, seen_between
from walhouse.postgres.visibility import SeenBefore, Visibility
from walhouse.postgres.waited_for import reading

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import LiteralString

    from walhouse.names import TableName
    from walhouse.pgoutput.blocks import Blocks
    from walhouse.pgoutput.relation import RelationDescription
    from walhouse.postgres.connection import Connection
    from walhouse.postgres.keyed_table import Key


@dataclass(frozen=True, slots=True)
class KeyChunk:
    """The rows of a table with keys in ``(after, upto]``; ``after`` None: from the first. Can be pickled.

    ``upto`` None: the rows that have no key, because a column of it is NULL.
    """

    table: KeyedTable
    number: int
    """Unique in the lake: part of the identity of its rows."""
    after: Key | None
    upto: Key | None


@dataclass(frozen=True, slots=True)
class ChunkSnapshot:
    """What a chunk was read in: what it has seen, and an LSN from which on it has seen no commit."""

    visibility: Visibility | SeenBefore
    lsn: Lsn


_ATTEMPTS: Final = 20
"""How many snapshots are taken on a standby until one is exact. Rows of one that is not may have to be read again."""

_FINGERPRINT: Final = """
    SELECT coalesce(md5(string_agg(format('%s %s %s %s', attname, atttypid, atttypmod, attcollation), ','
        ORDER BY attnum)), '')
    FROM pg_attribute WHERE attrelid = {} AND attrelid = {}::regclass AND attnum > 0 AND NOT attisdropped"""

_ORDER: Final = """
    SELECT string_agg(format('%%s %%s %%s', attname, atttypid, attcollation), ',' ORDER BY k.place),
        bool_or(NOT attnotnull OR EXISTS (SELECT FROM pg_constraint
            WHERE conrelid = attrelid AND contype = 'n' AND NOT convalidated AND conkey[1] = attnum))
    FROM unnest(%s::text[]) WITH ORDINALITY AS k(name, place)
    JOIN pg_attribute ON attname = k.name AND attrelid = %s AND NOT attisdropped"""
"""And whether one may be NULL: NOT NULL need not hold for older rows (``NOT VALID``), nor for all of a domain's."""

_OPERATORS: Final = """
    WITH RECURSIVE types AS (
        SELECT attname::text AS name, atttypid AS type FROM pg_attribute WHERE attrelid = %s AND attname = ANY(%s)
        UNION ALL
        SELECT name, typbasetype FROM types JOIN pg_type t ON t.oid = type WHERE typtype = 'd'
    )
    SELECT name, n.nspname::text
    FROM types JOIN pg_opclass c ON c.opcintype = type AND c.opcdefault
    JOIN pg_am m ON m.oid = c.opcmethod AND m.amname = 'btree'
    JOIN pg_amop a ON a.amopfamily = c.opcfamily AND a.amoplefttype = type AND a.amoprighttype = type
        AND a.amopstrategy = 5
    JOIN pg_operator o ON o.oid = a.amopopr JOIN pg_namespace n ON n.oid = o.oprnamespace"""
"""What ``ORDER BY`` goes by, which a plain ``>`` need not find: of an extension's type it may be that of another type,
as of ``text`` for ``citext``, which tells letters' case."""


def keyed_table(
    connection: Connection,
    relation: RelationDescription,
    key: Sequence[str],
    *,
    publication: str,
    condition: str | None,
    by_user: bool = True,
) -> KeyedTable:
    """The table as it is now. Raises ConditionError if the condition is no expression over its columns.

    ``by_user``: whether it is a user's, and not one of ours (``keys_condition``).
    """
    name = relation.name
    with source_errors(table=str(name)):
        fingerprint = connection.execute(_fingerprint(relation)).fetchone()
        order, may_be_null = connection.execute(_ORDER, [[*key], relation.oid]).fetchone() or (None, True)
        schemas: dict[str, str] = dict(connection.execute(_OPERATORS, [relation.oid, [*key]]).fetchall())
    operators = tuple(schemas.get(name, "pg_catalog") for name in key)
    table = KeyedTable(
        relation,
        tuple(key),
        columns="" if fingerprint is None else fingerprint[0],
        order=f"{relation.oid} {order}",
        row_filter=row_filter(connection, publication, name),
        condition=condition,
        by_user=by_user,
        operators=None if set(operators) == {"pg_catalog"} else operators,
        has_rows_without_key=may_be_null is not False,
    )
    if condition is not None:
        _require_expression(connection, table, condition)
    return table


def keys_condition(relation: RelationDescription, keys: Sequence[Key]) -> str:
    """SQL that is true for the rows with these keys."""
    rows = sql.SQL(", ").join(sql.SQL("({})").format(bounds(relation, relation.row_key, key)) for key in keys)
    return sql.SQL("({}) IN ({})").format(identifiers(relation.row_key), rows).as_string(None)


def largest_key(connection: Connection, table: KeyedTable) -> Key | None:
    """The key of the last row; None if no row has a key."""
    statement = sql.SQL("SELECT {} FROM {} WHERE {} AND {} ORDER BY {} LIMIT 1").format(
        key_texts(table), _source(table), in_range(table), has_key(table), by_key(table, sql.SQL("{} DESC"))
    )
    with _reading(connection, table):
        row = connection.execute(statement).fetchone()
    return None if row is None else tuple(row)


def estimated_rows(connection: Connection, table: TableName) -> int | None:
    """How many rows the server's statistics say that the table has, its partitions included; None if nothing."""
    with source_errors(table=str(table)):
        row = connection.execute(
            "SELECT sum(nullif(c.reltuples, -1))::int8 FROM pg_class r JOIN pg_namespace n ON n.oid = r.relnamespace"
            " CROSS JOIN LATERAL (SELECT relid FROM pg_partition_tree(r.oid) WHERE isleaf UNION SELECT r.oid) AS leaf"
            " JOIN pg_class c ON c.oid = leaf.relid AND c.relkind = 'r' WHERE n.nspname = %s AND r.relname = %s",
            [*table],
        ).fetchone()
    return None if row is None else row[0]


def chunk_ends(
    connection: Connection, table: KeyedTable, after: Key | None, upto: Key, *, size: int, count: int
) -> list[Key]:
    """The last key of each of the next ``count`` chunks of ``size`` rows; the last is ``upto`` if all is covered."""
    page = sql.SQL("SELECT {} FROM {} WHERE {} ORDER BY {} LIMIT {}").format(
        identifiers(table.key), _source(table), in_range(table, after, upto), by_key(table), sql.Literal(size * count)
    )
    numbered = sql.SQL("SELECT *, row_number() OVER (ORDER BY {}) AS walhouse_row FROM ({}) AS page").format(
        by_key(table), page
    )
    statement = sql.SQL("SELECT {} FROM ({}) AS numbered WHERE walhouse_row % {} = 0 ORDER BY walhouse_row").format(
        key_texts(table), numbered, sql.Literal(size)
    )
    with _reading(connection, table):
        ends: list[Key] = [tuple(row) for row in connection.execute(statement)]
    return ends if len(ends) == count else [*ends, upto]


def read_chunk(connection: Connection, chunk: KeyChunk, *, on_standby: bool) -> Iterator[tuple[ChunkSnapshot, Blocks]]:
    """The blocks of a COPY in text format of the chunk's rows, one a row: the kept columns, by position.

    ``connection``: in autocommit. ``on_standby``: what the server is to be. Raises PromotedError if it is none any
    more, TableChangedError if the table's columns are no longer those that the chunk was planned for,
    LockTimeoutError, PrivilegeError.
    """
    table = chunk.table
    with reading(connection, None, table.name, computes=table.computes):
        snapshot = _standby_snapshot(connection, table) if on_standby else _primary_snapshot(connection, table)
        _find_names(connection, table)
        for blocks in copied_blocks(connection, _copy(chunk)):
            yield snapshot, blocks


def _primary_snapshot(connection: Connection, table: KeyedTable) -> ChunkSnapshot:
    visibility, lsn = _snapshot(connection, table, "pg_current_snapshot()::text, pg_current_wal_insert_lsn()::text")
    return ChunkSnapshot(Visibility.parse(visibility), Lsn.parse(lsn).page_aligned())


def _standby_snapshot(connection: Connection, table: KeyedTable) -> ChunkSnapshot:
    """The first snapshot that is exact, or else the last of some."""
    for attempt in range(_ATTEMPTS):
        if attempt:
            connection.execute("ROLLBACK")
        before = replay_state(connection)
        seen = seen_between(before, ReplayState.of_row(*_snapshot(connection, table, REPLAY_STATE)))
        if seen.is_exact:
            break
    return ChunkSnapshot(seen.visibility, seen.upto)


def _snapshot(connection: Connection, table: KeyedTable, facts: LiteralString) -> Sequence[Any]:
    """Lock, then look: all in one round trip. The first query takes the transaction's snapshot, and locking is none."""
    statement = sql.SQL(
        "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; LOCK TABLE {} IN ACCESS SHARE MODE; SELECT ({}), {}"
    ).format(sql.Identifier(*table.name), _fingerprint(table.relation), sql.SQL(facts))
    cursor = connection.execute(statement)
    while cursor.nextset():
        pass
    row = cursor.fetchone()
    assert row is not None, "a query without FROM gives a row"
    columns, *found = row
    if columns != table.columns:
        connection.execute("ROLLBACK")
        raise TableChangedError(
            f"The columns of {table.name} changed before a part of its snapshot was read.", table=str(table.name)
        )
    return found


def _require_expression(connection: Connection, table: KeyedTable, condition: str) -> None:
    """It closes no parenthesis that it did not open; then the server plans it, as one statement."""
    if leaves_its_parentheses(condition):
        raise _no_expression(table, "parentheses or semicolon")
    statement = sql.SQL("EXPLAIN SELECT 1 FROM {} WHERE {} AND %s").format(_source(table), in_range(table))
    with source_errors(table=str(table.name)):
        try:
            with connection.transaction():
                connection.execute("SET TRANSACTION READ ONLY")
                _find_names(connection, table)
                connection.execute(_with_escaped_percents(statement, connection), [True])
        except psycopg.errors.InsufficientPrivilege:
            raise
        except (psycopg.ProgrammingError, psycopg.DataError, psycopg.NotSupportedError) as error:
            raise _no_expression(table, type(error).__name__) from None


@contextmanager
def _reading(connection: Connection, table: KeyedTable) -> Iterator[None]:
    """A transaction that only reads; a condition's names are the user's."""
    with source_errors(table=str(table.name), computes=table.computes), connection.transaction():
        connection.execute("SET TRANSACTION READ ONLY")
        _find_names(connection, table)
        yield


def _find_names(connection: Connection, table: KeyedTable) -> None:
    if table.condition is not None and table.by_user:
        find_names_as_the_user(connection, table.relation)


def _no_expression(table: KeyedTable, why: str) -> ConditionError:
    return ConditionError(
        f"The condition for {table.name} is no SQL expression over its columns ({why}).",
        todo="Give what would stand after WHERE, without the word, and try it in a SELECT of your own first.",
        table=str(table.name),
    )


def _with_escaped_percents(statement: sql.Composed, connection: Connection) -> bytes:
    """All percent signs doubled, but for the last: it is the parameter's."""
    text, _, rest = statement.as_string(connection).rpartition("%s")
    return f"{text.replace('%', '%%')}%s{rest}".encode()


def _fingerprint(relation: RelationDescription) -> sql.Composed:
    name = sql.Literal(sql.Identifier(*relation.name).as_string(None))
    return sql.SQL(_FINGERPRINT).format(sql.Literal(relation.oid), name)


def _copy(chunk: KeyChunk) -> sql.Composed:
    """The rows, and the transaction's end."""
    table = chunk.table
    if chunk.upto is None:
        rows = sql.SQL("{} AND NOT {}").format(in_range(table), has_key(table))
    else:
        rows = in_range(table, chunk.after, chunk.upto)
    return sql.SQL("COPY (SELECT {} FROM {} WHERE {}) TO STDOUT; COMMIT").format(
        identifiers(table.relation.column_names), _source(table), rows
    )


def _source(table: KeyedTable) -> sql.Composable:
    """The table without what inherits from it; of a partitioned one all partitions."""
    name = sql.Identifier(*table.name)
    return name if table.relation.partitioned else sql.SQL("ONLY {}").format(name)
