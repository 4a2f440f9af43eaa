"""What a publication has, asked without locks: the same as PostgreSQL's own view, which takes them."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from walhouse.config.filters import TableFilter
from walhouse.errors import LockTimeoutError
from walhouse.names import TableName
from walhouse.postgres.catalog import read_relations
from walhouse.postgres.connection import connect
from walhouse.postgres.publication import find_publication, read_publication
from walhouse.postgres.published import published_tables, row_filter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fixtures_server import Database
    from walhouse.postgres.connection import Connection

pytestmark = pytest.mark.server

ZOO = [
    "CREATE SCHEMA s",
    "CREATE SCHEMA other",
    'CREATE TABLE a (id int PRIMARY KEY, "B c" text, gone int, twice int GENERATED ALWAYS AS (id * 2) STORED)',
    "ALTER TABLE a DROP COLUMN gone",
    "CREATE TABLE s.b (id int PRIMARY KEY, v text)",
    "CREATE UNLOGGED TABLE s.unlogged (id int)",
    "CREATE TABLE s.parent (id int)",
    "CREATE TABLE s.child () INHERITS (s.parent)",
    "CREATE VIEW s.seen AS SELECT 1 AS one",
    "CREATE TABLE s.root (id int, v text) PARTITION BY RANGE (id)",
    "CREATE TABLE s.leaf PARTITION OF s.root FOR VALUES FROM (0) TO (10)",
    "CREATE TABLE other.middle PARTITION OF s.root FOR VALUES FROM (10) TO (20) PARTITION BY RANGE (id)",
    "CREATE TABLE other.deep PARTITION OF other.middle FOR VALUES FROM (10) TO (15)",
    "CREATE TABLE other.away PARTITION OF other.middle FOR VALUES FROM (15) TO (20)",
    "ALTER TABLE other.middle DETACH PARTITION other.away",
    "CREATE TABLE other.empty (id int) PARTITION BY LIST (id)",
]
OF_15 = [
    "TABLES IN SCHEMA s",
    "TABLES IN SCHEMA other, s, TABLE public.a, s.b",
    "TABLES IN SCHEMA other",
    "TABLE public.a (id, \"B c\"), s.b WHERE (v = 'x')",
    "TABLES IN SCHEMA s, TABLE s.b WHERE (id > 1)",
]
OF_ROOTS = ["TABLE s.leaf WHERE (id > 1), s.root WHERE (id > 2)", "TABLE s.root (id)"]
ANY = [
    "ALL TABLES",
    "TABLE public.a, s.parent",
    "TABLE ONLY s.parent",
    "TABLE s.root",
    "TABLE s.root, other.middle, s.leaf",
    "TABLE other.middle, other.empty",
    "TABLE other.deep, public.a",
]
_VIEW = """
    SELECT schemaname, tablename, to_jsonb(p) -> 'attnames', to_jsonb(p) ->> 'rowfilter'
    FROM pg_publication_tables p WHERE pubname = %s ORDER BY 1, 2"""
_GENERATED = "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attgenerated <> ''"


@pytest.fixture
def zoo(database: Database) -> Iterator[Connection]:
    database.execute(*ZOO)
    with closing(connect(database.settings)) as opened:
        yield opened


@pytest.mark.parametrize("via_root", [False, True])
def test_the_published_tables_columns_and_filters_are_those_of_postgresqls_view(
    zoo: Connection, via_root: bool
) -> None:
    version = zoo.info.server_version
    possible = [*ANY, *(OF_15 if version >= 150000 else ()), *(OF_ROOTS if version >= 150000 and via_root else ())]
    for what in possible:
        zoo.execute(f"CREATE PUBLICATION p FOR {what} WITH (publish_via_partition_root = {via_root})".encode())
        _require_as_in_the_view(zoo, what)
        if version >= 180000:
            zoo.execute("ALTER PUBLICATION p SET (publish_generated_columns = stored)")
            _require_as_in_the_view(zoo, what)
        zoo.execute("DROP PUBLICATION p")


def _require_as_in_the_view(connection: Connection, what: str) -> None:
    view = connection.execute(_VIEW, ["p"]).fetchall()
    ours = {(row["schemaname"], row["tablename"]): row["columns"] for row in published_tables(connection, "p")}
    filters = {table: row_filter(connection, "p", TableName(*table)) for table in ours}
    version = connection.info.server_version
    generated = {}
    for table in ours:
        rows = connection.execute(_GENERATED, [str(TableName(*table))]).fetchall()
        generated[table] = set() if version >= 180000 else {name for (name,) in rows}
    assert {table: set(columns or ()) - generated[table] for table, columns in ours.items()} == {
        (schema, name): (set(columns) if columns is not None else set(ours[schema, name] or ()))
        - generated[schema, name]
        for schema, name, columns, _ in view
    }, what
    assert filters == {(schema, name): row_filter for schema, name, _, row_filter in view}, what
    assert view, what


def test_a_table_that_is_locked_exclusively_keeps_nobody_waiting_who_knows_it(
    zoo: Connection, database: Database
) -> None:
    """VACUUM FULL, or an ALTER TABLE that writes a table anew, may take an hour."""
    zoo.execute("ALTER TABLE public.a ALTER \"B c\" SET DEFAULT 'x'")
    zoo.execute("CREATE PUBLICATION p FOR ALL TABLES")
    known = read_relations(zoo, "p", TableFilter())
    zoo.execute("CREATE TABLE public.new (id int DEFAULT 7)")
    after = read_relations(zoo, "p", TableFilter())
    zoo.execute("SET lock_timeout = '100ms'")
    with database.connect() as other, other.transaction():
        other.execute("LOCK TABLE a")
        assert find_publication(zoo, "p") == read_publication(zoo, "p")
        locked = read_relations(zoo, "p", TableFilter(), known=known.values())
        assert {oid: relation.columns for oid, relation in locked.items()} == {
            oid: relation.columns for oid, relation in after.items()
        }
        other.execute("LOCK TABLE new")
        if zoo.info.server_version >= 180000:
            with pytest.raises(LockTimeoutError):
                read_relations(zoo, "p", TableFilter(), known=known.values())
        read_relations(zoo, "p", TableFilter(), known=after.values())
