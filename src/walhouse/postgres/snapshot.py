"""Reading tables whole, in one exported snapshot, by chunks of pages.

Invariant: every row is read in the one snapshot, as the text that the WAL would give for it: the type's output function
under walhouse's session settings, as COPY writes it, never a cast (``::text`` gives ``true`` for ``t``, and ``char(5)``
without blanks).
Ranges of ctid are chunks of one snapshot only; between two, rows may have moved.
"""

from __future__ import annotations

from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from hashlib import md5
from typing import TYPE_CHECKING, Final, NamedTuple

import psycopg
from psycopg import sql

from walhouse.errors import ConditionError, SnapshotLostError, SourceError
from walhouse.names import TableName
from walhouse.postgres.connection import LOCK_TIMEOUT_SECONDS, connect, one_row, source_errors
from walhouse.postgres.copy_out import copied_blocks
from walhouse.postgres.expression import find_names_as_ever, find_names_as_the_user, leaves_its_parentheses
from walhouse.postgres.published import row_filter
from walhouse.postgres.visibility import Visibility
from walhouse.postgres.waited_for import reading

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from walhouse.config.connection import ConnectionSettings
    from walhouse.pgoutput.blocks import Blocks
    from walhouse.pgoutput.relation import RelationDescription
    from walhouse.postgres.connection import Connection


@dataclass(frozen=True, slots=True)
class Chunk:
    """The pages ``[first_page, end_page)`` of one leaf of a table. Can be pickled."""

    table: TableName
    """The table that changes are published under: the root of a partition tree, or the leaf itself."""
    leaf: TableName
    number: int
    """From 0, counted over all leaves of the table."""
    first_page: int
    end_page: int | None
    """None: to the end, wherever that is by the time of reading."""
    pages: int
    """How many pages it had when it was planned."""
    row_filter: str | None
    """The publication's WHERE expression for the table, as SQL."""
    statement: str | None = field(default=None, repr=False)
    """A complete SELECT of the kept columns in place of the leaf's pages, see ``chosen_rows``."""


class PagePlace(NamedTuple):
    """A page of a leaf, leaves being numbered in the order of their names."""

    leaf: int
    page: int


BEGINNING: Final = PagePlace(0, 0)


_LEAVES: Final = """
    SELECT n.nspname, c.relname, c.relkind::text,
        pg_relation_size(c.oid) / current_setting('block_size')::int8 AS pages, c.oid, pg_relation_filenode(c.oid)
    FROM (SELECT relid AS oid FROM pg_partition_tree(%(oid)s::oid::regclass) WHERE isleaf
        UNION SELECT %(oid)s::oid FROM pg_class WHERE oid = %(oid)s::oid AND relkind <> 'p') AS leaf
    JOIN pg_class c USING (oid) JOIN pg_namespace n ON n.oid = c.relnamespace
    ORDER BY 1, 2"""

_LOCKED: Final = """
    SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'relation' AND mode = 'AccessShareLock' AND granted
        AND pid = %s AND virtualtransaction = %s AND relation = %s::regclass
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))"""


class LockHolder(NamedTuple):
    """The transaction that holds the tables' locks, as ``pg_locks`` names it."""

    pid: int
    transaction: str


@contextmanager
def locked_tables(
    settings: ConnectionSettings, tables: Iterable[TableName], *, lock_timeout_seconds: float = LOCK_TIMEOUT_SECONDS
) -> Iterator[LockHolder]:
    """Hold a reader's lock on the tables (and their partitions) while the context lasts.

    Taken before the snapshot, it keeps out what changes their rows without an event: ALTER TYPE, TRUNCATE, CLUSTER.
    If the session that holds the locks dies meanwhile, leaving the context raises; ``chunk_blocks`` that is told of the
    holder does so before its rows can count. Raises LockTimeoutError, PrivilegeError.
    """
    with closing(connect(settings, lock_timeout_seconds=lock_timeout_seconds)) as connection:
        with source_errors(settings):
            connection.execute("BEGIN")
        for table in tables:
            with reading(connection, settings, table):
                connection.execute(sql.SQL("LOCK TABLE {} IN ACCESS SHARE MODE").format(sql.Identifier(*table)))
        own = "SELECT DISTINCT pid, virtualtransaction FROM pg_locks WHERE pid = pg_backend_pid()"
        yield LockHolder(*one_row(connection, own))
        with source_errors(settings):
            connection.execute("COMMIT")


@contextmanager
def imported_snapshot(
    settings: ConnectionSettings, snapshot_name: str, *, lock_timeout_seconds: float = LOCK_TIMEOUT_SECONDS
) -> Iterator[Connection]:
    """A connection in a read-only transaction that sees exactly what the exported snapshot does.

    Raises SnapshotLostError if the session that exported it has ended.
    """
    with closing(connect(settings, lock_timeout_seconds=lock_timeout_seconds)) as connection:
        try:
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            connection.execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(snapshot_name)))
        except (psycopg.errors.UndefinedObject, psycopg.errors.InvalidParameterValue) as error:
            raise SnapshotLostError(
                f"The exported snapshot {snapshot_name} is gone: the session that held it has ended.",
                snapshot=snapshot_name,
            ) from error
        except psycopg.Error:
            with source_errors(settings):
                raise
        yield connection


def visibility_of(connection: Connection) -> Visibility:
    """Which transactions the connection's snapshot has seen."""
    return Visibility.parse(one_row(connection, "SELECT pg_current_snapshot()::text")[0])


def files_of(connection: Connection, relation: RelationDescription) -> str:
    """A fingerprint of the table's files. As long as it is the same, a row that was not updated is where it was."""
    with source_errors(table=str(relation.name)):
        leaves = connection.execute(_LEAVES, {"oid": relation.oid}).fetchall()
    files = [f"{schema}.{table} {oid} {filenode}" for schema, table, _, _, oid, filenode in leaves]
    return md5("\n".join(files).encode(), usedforsecurity=False).hexdigest()


def plan_chunks(
    connection: Connection,
    relation: RelationDescription,
    pages_per_chunk: int,
    *,
    publication: str,
    begin: PagePlace = BEGINNING,
) -> list[Chunk]:
    """Chunks that together are the table from ``begin`` on, every leaf of it, by the pages that its files have now.

    The last chunk of a leaf has no end. A table without rows has one chunk a leaf.
    """
    name = relation.name
    with source_errors(table=str(name)):
        leaves = connection.execute(_LEAVES, {"oid": relation.oid}).fetchall()
    condition = row_filter(connection, publication, name)
    chunks: list[Chunk] = []
    for place, (schema, table, kind, pages, _, _) in enumerate(leaves):
        if place < begin.leaf:
            continue
        if kind != "r":
            raise SourceError(
                f"{schema}.{table}, a partition of {name}, is not an ordinary table; its rows are not in the WAL.",
                todo="Leave the table out of the configuration, or detach that partition.",
                table=str(name),
            )
        first = begin.page if place == begin.leaf else 0
        starts = range(first, max(int(pages), first + 1), pages_per_chunk)
        for start in starts:
            last = start == starts[-1]
            chunks.append(
                Chunk(
                    table=name,
                    leaf=TableName(schema, table),
                    number=len(chunks),
                    first_page=start,
                    end_page=None if last else start + pages_per_chunk,
                    pages=max(int(pages) - start, 0) if last else pages_per_chunk,
                    row_filter=condition,
                )
            )
    return chunks


def chosen_rows(connection: Connection, relation: RelationDescription, select: str) -> str:
    """A SELECT of the table's kept columns from the rows of the user's SELECT; NULL for those that it leaves out.

    Raises ConditionError if it is none, or gives no column of the table, or not all of its key.
    """
    name = str(relation.name)
    if leaves_its_parentheses(select):
        raise _no_select(name, "parentheses or semicolon")
    # a line of its own, so that a comment at the end does not reach beyond it
    source = sql.SQL("({}\n) AS chosen").format(sql.SQL(select))
    with source_errors(table=name, computes=True):
        try:
            with connection.transaction():
                find_names_as_the_user(connection, relation)
                look = connection.execute(sql.SQL("SELECT * FROM {} LIMIT 0").format(source).as_bytes(connection))
                find_names_as_ever(connection)
        except psycopg.errors.InsufficientPrivilege:
            raise
        except (psycopg.ProgrammingError, psycopg.DataError, psycopg.NotSupportedError) as error:
            raise _no_select(name, type(error).__name__) from None
    given = {column.name for column in look.description or ()}
    if not given.intersection(relation.column_names):
        raise _no_select(name, "it gives no column of the table")
    if lacking := [column for column in relation.row_key if column not in given]:
        raise _no_select(name, f"it lacks {', '.join(lacking)} of the key, by which rows are told apart")
    columns = (sql.Identifier(each) if each in given else sql.SQL("NULL") for each in relation.column_names)
    return sql.SQL("SELECT {} FROM {}").format(sql.SQL(", ").join(columns), source).as_string(connection)


def _no_select(table: str, why: str) -> ConditionError:
    return ConditionError(
        f"The statement for {table} is no SELECT that can be read ({why}).",
        todo="Give one complete SELECT of the table's columns, and try it in a session of your own first.",
        table=table,
    )


def chunk_blocks(
    settings: ConnectionSettings,
    snapshot_name: str,
    relation: RelationDescription,
    chunk: Chunk,
    *,
    expressions: Sequence[str] | None = None,
    lock_holder: LockHolder | None = None,
    lock_timeout_seconds: float = LOCK_TIMEOUT_SECONDS,
) -> Iterator[Blocks]:
    """The blocks of a COPY in text format of the chunk's rows, one a row: the kept columns, by position.

    ``expressions``: SQL to read in place of each column (a proof asks for the bits of a float). ``lock_holder``: who
    must hold the table's lock still when the last row was read. Raises SnapshotLostError, LockTimeoutError,
    PrivilegeError.
    """
    statement = _copy(relation, chunk, expressions)
    with (
        imported_snapshot(settings, snapshot_name, lock_timeout_seconds=lock_timeout_seconds) as connection,
        reading(connection, settings, chunk.table, computes=(chunk.statement or chunk.row_filter) is not None),
    ):
        if chunk.statement is not None:
            find_names_as_the_user(connection, relation)
        yield from copied_blocks(connection, statement)
        if lock_holder is not None:
            _require_locked(connection, chunk, lock_holder)


def _require_locked(connection: Connection, chunk: Chunk, holder: LockHolder) -> None:
    leaf = sql.Identifier(*chunk.leaf).as_string(connection)
    if not one_row(connection, _LOCKED, [*holder, leaf])[0]:
        raise SnapshotLostError(
            f"The session that kept {chunk.table} from being rewritten ended while the table was read.",
            table=str(chunk.table),
        )


def _copy(relation: RelationDescription, chunk: Chunk, expressions: Sequence[str] | None) -> sql.Composed:
    if chunk.statement is not None:
        return sql.SQL("COPY ({}) TO STDOUT").format(sql.SQL(chunk.statement))
    columns = sql.SQL(", ").join(
        [sql.Identifier(name) for name in relation.column_names]
        if expressions is None
        else [sql.SQL("({})").format(sql.SQL(expression)) for expression in expressions]
    )
    conditions: list[sql.Composable] = [sql.SQL("ctid >= {}::tid").format(sql.Literal(f"({chunk.first_page},0)"))]
    if chunk.end_page is not None:
        conditions.append(sql.SQL("ctid < {}::tid").format(sql.Literal(f"({chunk.end_page},0)")))
    if chunk.row_filter is not None:
        conditions.append(sql.SQL("({})").format(sql.SQL(chunk.row_filter)))
    return sql.SQL("COPY (SELECT {} FROM ONLY {} WHERE {}) TO STDOUT").format(
        columns, sql.Identifier(*chunk.leaf), sql.SQL(" AND ").join(conditions)
    )
