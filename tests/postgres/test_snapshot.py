"""Snapshot chunks: every row once, in one snapshot, as the very text that the WAL gives for it."""

from __future__ import annotations

import pickle
from contextlib import ExitStack, closing
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import pytest

from oracle.server import lacking
from tests.postgres.wire import read_stream, texts
from walhouse.config.filters import NameFilter, TableFilter
from walhouse.errors import PrivilegeError, SnapshotLostError
from walhouse.postgres.catalog import read_relations
from walhouse.postgres.connection import connect
from walhouse.postgres.peek import peek_blocks
from walhouse.postgres.slot import create_slot, created_slot
from walhouse.postgres.snapshot import (
    Chunk,
    chunk_blocks,
    imported_snapshot,
    locked_tables,
    plan_chunks,
    visibility_of,
)
from walhouse.postgres.wal import insert_lsn, wait_flushed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.fixtures_server import Database
    from walhouse.config.connection import ConnectionSettings
    from walhouse.pgoutput.relation import RelationDescription
    from walhouse.postgres.connection import Connection

pytestmark = pytest.mark.server


def _relation(connection: Connection, table: str, selection: TableFilter | None = None) -> RelationDescription:
    relations = read_relations(connection, "p", selection or TableFilter()).values()
    return next(relation for relation in relations if relation.table == table)


def _read(
    database: Database, relation: RelationDescription, pages: int = 1000
) -> tuple[list[Chunk], list[tuple[str | None, ...]]]:
    """All chunks of a table, read in an exported snapshot by connections of their own."""
    with ExitStack() as stack:
        exported = stack.enter_context(created_slot(database.settings, f"{database.name}_x", temporary=True))
        reading = stack.enter_context(imported_snapshot(database.settings, exported.name))
        chunks = plan_chunks(reading, relation, pages, publication="p")
        rows = [
            row
            for chunk in pickle.loads(pickle.dumps(chunks))
            for row in texts(chunk_blocks(database.settings, exported.name, relation, chunk))
        ]
    return chunks, rows


ZOO = {
    "bool": ["true", "false"],
    "char(5)": ["'ab'", "'ab   '", "''"],
    '"char"': ["'x'", "''"],
    "bpchar": ["'ab  '"],
    "varchar(9)": ["'ab  '", "''", "'NULL'"],
    "text": [r"E'tab\t line\n back\\slash'", "'Größe 🐘'", r"'\N'", "'%s'"],
    "name": ["'n'"],
    "int2": ["-32768"],
    "int8": ["9223372036854775807"],
    "float4": ["'-0'", "0.1", "'NaN'", "'-Infinity'", "1e-45", "16777216"],
    "float8": ["'-0'", "0.1", "1e-320", "123456789.123456789", "'Infinity'"],
    "numeric": ["'NaN'", "'Infinity'", "1.10", "1e100", "-0.000000000000000000000000000000001", "0.0"],
    "numeric(10,2)": ["1.5", "'NaN'"],
    "money": ["-1234.5"],
    "bytea": [r"'\x00ff5c'", "''", r"'\x'"],
    "bit(5)": ["B'10101'"],
    "varbit": ["B''", "B'1'"],
    "date": ["'0044-03-15 BC'", "'infinity'", "'5874897-12-31'"],
    "time": ["'24:00'", "'01:02:03.000001'"],
    "time(2)": ["'01:02:03.456'"],
    "timetz": ["'01:02:03+05:45'"],
    "timestamp": ["'-infinity'", "'294276-12-31 23:59:59.999999'", "'0001-01-01 00:00 BC'"],
    "timestamptz": ["'2024-07-01 12:00+05:45'", "'1883-11-18 12:03:58 America/New_York'", "'infinity'"],
    "interval": ["'1 year 2 mons -3 days 04:05:06.789'", "'-1 day'", "'0'"],
    "uuid": ["'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'"],
    "inet": ["'10.0.0.5'", "'10.0.0.5/8'", "'::1'"],
    "cidr": ["'10.0.0.0/8'"],
    "macaddr": ["'08:00:2b:01:02:03'"],
    "macaddr8": ["'08:00:2b:01:02:03:04:05'"],
    "json": ["""'{"b":1,  "a": [1, 2]}'""", "'null'"],
    "jsonb": ["""'{"b":1,  "a": [1, 2]}'""", "'null'"],
    "jsonpath": ["'$.a[*] ? (@ > 1)'"],
    "point": ["'(0.1,-0)'"],
    "line": ["'{1,2,3}'"],
    "lseg": ["'((0,0),(1,1))'"],
    "box": ["'((1,1),(0,0))'"],
    "path": ["'[(0,0),(1,1)]'", "'((0,0),(1,1))'"],
    "polygon": ["'((0,0),(1,1),(1,0))'"],
    "circle": ["'<(0,0),1>'"],
    "int4range": ["'[1,5]'", "'empty'", "'(,)'"],
    "tstzrange": ["'[2024-01-01,infinity)'"],
    "nummultirange": ["'{[1.0,2.0),(3,4]}'"],
    "tsvector": ["'a fat cat'"],
    "tsquery": ["'a & !b'"],
    "pg_lsn": ["'16/B374D848'"],
    "xid8": ["'42'"],
    "pg_snapshot": ["'10:20:11,12'"],
    "oid": ["1"],
    "regclass": ["'pg_class'", "'public.zoo'"],
    "regtype": ["'public.mood'", "'int'"],
    "regproc": ["'now'::regproc", "'public.odd'::regproc"],
    "int4[]": ["'{}'", "'{1,NULL,3}'", "'[2:3]={1,2}'", "'{{1,2},{3,4}}'"],
    "text[]": ["""'{a,"b c","NULL",NULL,"","\\"q\\"","{}",","}'"""],
    "bool[]": ["'{t,f,NULL}'"],
    "char(3)[]": ["'{a,bc}'"],
    "timestamptz[]": ["'{2024-07-01 12:00+02}'"],
    "float8[]": ["'{0.1,NaN,-0}'"],
    "public.mood": ["'sad'", "'very ''happy'''"],
    "public.mood[]": ["'{sad}'"],
    "public.pair": ["ROW(NULL, NULL)", "ROW(1, 'a b')", "ROW(1, '')", "ROW(true::int, '\"')"],
    "public.pair[]": ["ARRAY[ROW(1, NULL)]::public.pair[]", "ARRAY[NULL]::public.pair[]"],
    "public.flags": ["ROW(true, 'ab', '10.0.0.5')"],
    "public.positive": ["7"],
    "public.short": ["'abc'"],
    "public.positive[]": ["'{1,2}'"],
    "public.moods": ["'{sad}'"],
}

NOT_EVERYWHERE = {
    "hstore": {"public.hstore": ["""'"a b"=>NULL, c=>""'"""]},
    "ltree": {"public.ltree": ["'Ab.c'"]},
    "citext": {"public.citext": ["'Ab.c'"]},
    "postgis": {
        "public.geometry": ["'SRID=3187;POINT(174.9479 -36.7208)'", "'POINT EMPTY'", "'CIRCULARSTRING(0 0, 1 1, 2 0)'"],
        "public.geography(PointZ)": ["'POINT Z (1 2 3)'"],
        "public.geometry[]": ["ARRAY['POINT(1 1)', NULL]::public.geometry[]"],
        "public.box2d": ["'BOX(0 0, 1.5 1)'"],
    },
    "xml": {"xml": ["'<a>1 &amp; 2</a> <b/>'", """'<?xml version="1.0" encoding="ISO-8859-2"?><a>ž</a>'""", "''"]},
}
"""Types that a server may lack, by what it takes to have them."""


def _make_zoo(database: Database) -> int:
    """A table with a column for each type: a row of NULLs, then a row for each place in the lists of values."""
    database.execute(
        "CREATE TYPE public.mood AS ENUM ('sad', 'very ''happy''')",
        "CREATE TYPE public.pair AS (a int, b text)",
        "CREATE TYPE public.flags AS (a bool, b char(5), c inet)",
        "CREATE DOMAIN public.positive AS int CHECK (VALUE > 0)",
        "CREATE DOMAIN public.short AS char(5)",
        "CREATE DOMAIN public.moods AS public.mood[]",
        "CREATE FUNCTION public.odd() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    )
    types = dict(ZOO)
    missing = lacking(database.dsn, tuple(NOT_EVERYWHERE))
    for need, more in NOT_EVERYWHERE.items():
        if need not in missing:
            database.execute(*[] if need == "xml" else [f"CREATE EXTENSION {need} SCHEMA public"])
            types |= more
    columns = ", ".join(f"v{number} {kind}" for number, kind in enumerate(types))
    database.execute(f"CREATE TABLE public.zoo (id int PRIMARY KEY, {columns})", "CREATE PUBLICATION p FOR ALL TABLES")
    create_slot_of(database)
    rows = [["NULL"] * len(types), *zip_longest(*types.values(), fillvalue="NULL")]
    database.execute(*(f"INSERT INTO public.zoo VALUES ({n}, {', '.join(row)})" for n, row in enumerate(rows)))
    return sum(map(len, types.values()))


def create_slot_of(database: Database) -> None:
    with closing(connect(database.settings)) as connection:
        create_slot(connection, f"{database.name}_slot")


def _stream_rows(database: Database, connection: Connection) -> Any:
    end = wait_flushed(connection, insert_lsn(connection))
    return read_stream(peek_blocks(database.settings, f"{database.name}_slot", "p", end))


def test_a_snapshot_gives_the_very_text_that_the_wal_gives(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """For every type, whatever the database's and the environment's settings: a cast to text would differ for some."""
    for setting in (
        "DateStyle = 'SQL, DMY'",
        "IntervalStyle = 'iso_8601'",
        "TimeZone = 'America/St_Johns'",
        "extra_float_digits = 0",
        "bytea_output = 'escape'",
        "search_path = 'public'",
        "quote_all_identifiers = on",
    ):
        database.execute(f"ALTER DATABASE {database.name} SET {setting}")
    monkeypatch.setenv("PGTZ", "Asia/Kathmandu")
    values = _make_zoo(database)
    with closing(connect(database.settings)) as connection:
        stream = _stream_rows(database, connection)
        found = _read(database, _relation(connection, "zoo"))[1]
    assert found == stream.rows("zoo")
    assert set(found[0][1:]) == {None}
    assert sum(value is not None for row in found for value in row[1:]) == values


def test_chunks_of_pages_are_together_the_table_each_row_once(database: Database, connection: Connection) -> None:
    """The planner's own count of pages is stale or nought, dead rows leave holes, and the last chunk has no end."""
    database.execute(
        "CREATE TABLE t (id int PRIMARY KEY, v text)",
        "ALTER TABLE t SET (autovacuum_enabled = off)",
        "CREATE PUBLICATION p FOR TABLE t",
        "INSERT INTO t SELECT n, repeat('x', 200) FROM generate_series(1, 1000) n",
        "DELETE FROM t WHERE id % 3 = 0",
        "UPDATE t SET v = 'moved' WHERE id % 5 = 0",
        "UPDATE pg_class SET relpages = 0 WHERE relname = 't'",
    )
    relation = _relation(connection, "t")
    for pages in (3, 1000):
        chunks, rows = _read(database, relation, pages)
        assert [chunk.number for chunk in chunks] == list(range(len(chunks)))
        assert [chunk.end_page for chunk in chunks] == [chunk.first_page for chunk in chunks[1:]] + [None]
        assert sum(chunk.pages for chunk in chunks) == database.execute("SELECT pg_relation_size('t') / 8192")[0][0]
        expected = database.execute("SELECT id::text, v FROM t ORDER BY t.id")
        assert sorted(rows, key=lambda row: int(row[0] or 0)) == expected


def test_pages_that_come_after_the_plan_are_read_by_the_last_chunk(database: Database, connection: Connection) -> None:
    database.execute(
        "CREATE TABLE t (id int PRIMARY KEY)", "CREATE PUBLICATION p FOR TABLE t", "INSERT INTO t VALUES (0)"
    )
    relation = _relation(connection, "t")
    chunks = plan_chunks(connection, relation, 1, publication="p")
    database.execute("INSERT INTO t SELECT generate_series(1, 2000)")
    with created_slot(database.settings, f"{database.name}_x", temporary=True) as exported:
        rows = [row for each in chunks for row in texts(chunk_blocks(database.settings, exported.name, relation, each))]
    assert len(rows) == 2001


def test_what_is_written_after_the_snapshot_is_not_in_it(database: Database, connection: Connection) -> None:
    database.execute(
        "CREATE TABLE t (id int PRIMARY KEY)", "CREATE PUBLICATION p FOR TABLE t", "INSERT INTO t VALUES (0)"
    )
    relation = _relation(connection, "t")
    with (
        created_slot(database.settings, f"{database.name}_x", temporary=True) as exported,
        imported_snapshot(database.settings, exported.name) as reading,
    ):
        ((xid,),) = database.execute("WITH x AS (INSERT INTO t VALUES (1)) SELECT pg_current_xact_id()::text")
        (chunk,) = plan_chunks(reading, relation, 10, publication="p")
        assert texts(chunk_blocks(database.settings, exported.name, relation, chunk)) == [("0",)]
        assert not visibility_of(reading).sees(int(xid))
    assert visibility_of(connection).sees(int(xid))


def test_a_table_without_rows_and_one_without_kept_columns_are_read(database: Database, connection: Connection) -> None:
    database.execute(
        "CREATE TABLE empty (id int PRIMARY KEY)",
        "CREATE TABLE bare (v int)",
        "ALTER TABLE bare REPLICA IDENTITY FULL",
        "CREATE PUBLICATION p FOR TABLE empty, bare",
        "INSERT INTO bare VALUES (1), (2)",
    )
    assert _read(database, _relation(connection, "empty"))[1] == []
    nothing = TableFilter(columns=NameFilter(exclude=("public.bare.v",)))
    assert _read(database, _relation(connection, "bare", nothing))[1] == [("",), ("",)]  # lines


@pytest.mark.parametrize("name", ['Mixed "Case', "größe", "a.b", "semi;--", "%s", "{x}"])
def test_names_are_quoted(database: Database, connection: Connection, name: str) -> None:
    quoted = '"' + name.replace('"', '""') + '"'
    database.execute(
        f"CREATE SCHEMA {quoted}",
        f"CREATE TABLE {quoted}.{quoted} ({quoted} int PRIMARY KEY)",
        f"CREATE PUBLICATION p FOR TABLE {quoted}.{quoted}",
        f"INSERT INTO {quoted}.{quoted} VALUES (1)",
    )
    relation = _relation(connection, name)
    with locked_tables(database.settings, [relation.name]):
        assert _read(database, relation)[1] == [("1",)]


@pytest.mark.parametrize("via_root", [False, True])
def test_leaves_whose_columns_stand_in_another_order_are_read_by_name(
    database: Database, connection: Connection, via_root: bool
) -> None:
    database.execute(
        "CREATE TABLE root (id int, v text, w text, PRIMARY KEY (id)) PARTITION BY RANGE (id)",
        "CREATE TABLE one PARTITION OF root FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE two (gone int, w text, v text, id int NOT NULL)",
        "ALTER TABLE two DROP COLUMN gone",
        "ALTER TABLE root ATTACH PARTITION two FOR VALUES FROM (10) TO (20)",
        f"CREATE PUBLICATION p FOR TABLE root WITH (publish_via_partition_root = {via_root})",
        "INSERT INTO root VALUES (1, 'v', 'w'), (11, 'v', 'w')",
    )
    if via_root:
        chunks, rows = _read(database, _relation(connection, "root"))
        assert [(chunk.table.table, chunk.leaf.table, chunk.number) for chunk in chunks] == [
            ("root", "one", 0),
            ("root", "two", 1),
        ]
        assert rows == [("1", "v", "w"), ("11", "v", "w")]
    else:
        assert _read(database, _relation(connection, "one"))[1] == [("1", "v", "w")]
        assert _read(database, _relation(connection, "two"))[1] == [("w", "v", "11")]


def test_what_the_publication_leaves_out_the_snapshot_leaves_out(database: Database, connection: Connection) -> None:
    """Row filters, column lists, generated columns: a snapshot with them would hold what no change ever updates."""
    database.execute(
        "CREATE TYPE public.mood AS ENUM ('sad', 'ok')",
        "CREATE TABLE t (id int PRIMARY KEY, v text, m public.mood, g int GENERATED ALWAYS AS (id + 1) STORED)",
        "CREATE PUBLICATION p FOR TABLE t (id, v) WHERE (id > 1 AND v <> '{}%s')",
        "INSERT INTO t VALUES (1, 'a', 'sad'), (2, 'b', 'ok'), (3, '{}%s', NULL)",
    )
    relation = _relation(connection, "t")
    assert relation.column_names == ("id", "v")
    assert _read(database, relation)[1] == [("2", "b")]


def test_children_by_inheritance_are_not_part_of_their_parent(database: Database, connection: Connection) -> None:
    """Their changes come under their own names."""
    database.execute(
        "CREATE TABLE parent (id int PRIMARY KEY)",
        "CREATE TABLE child (PRIMARY KEY (id)) INHERITS (parent)",
        "CREATE PUBLICATION p FOR TABLE parent",
        "INSERT INTO parent VALUES (1)",
        "INSERT INTO child VALUES (2)",
    )
    assert _read(database, _relation(connection, "parent"))[1] == [("1",)]
    assert _read(database, _relation(connection, "child"))[1] == [("2",)]


def test_a_snapshot_whose_holder_is_gone_is_a_named_error(database: Database, connection: Connection) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY)", "CREATE PUBLICATION p FOR TABLE t")
    relation = _relation(connection, "t")
    (chunk,) = plan_chunks(connection, relation, 10, publication="p")
    with created_slot(database.settings, f"{database.name}_x", temporary=True) as exported:
        pass
    for name in (exported.name, "nonsense"):
        with pytest.raises(SnapshotLostError, match=name):
            list(chunk_blocks(database.settings, name, relation, chunk))


def test_a_table_that_may_not_be_read_is_named(
    database: Database, connection: Connection, role: Callable[[str], ConnectionSettings]
) -> None:
    settings = role("REPLICATION")
    database.execute("CREATE TABLE t (id int PRIMARY KEY)", "CREATE PUBLICATION p FOR TABLE t")
    relation = _relation(connection, "t")
    (chunk,) = plan_chunks(connection, relation, 10, publication="p")
    with (
        created_slot(settings, f"{database.name}_x", temporary=True) as exported,
        pytest.raises(PrivilegeError) as caught,
    ):
        list(chunk_blocks(settings, exported.name, relation, chunk))
    assert caught.value.fields["table"] == "public.t"
    with pytest.raises(PrivilegeError) as caught, locked_tables(settings, [relation.name]):
        pass
    assert caught.value.fields["table"] == "public.t"


def test_a_table_whose_rows_a_policy_would_leave_out_is_not_read_and_the_right_that_helps_is_named(
    database: Database, connection: Connection, role: Callable[[str], ConnectionSettings]
) -> None:
    settings = role("REPLICATION")
    database.execute(
        "CREATE TABLE t (id int PRIMARY KEY)",
        "INSERT INTO t VALUES (1), (2)",
        "ALTER TABLE t ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY p ON t USING (id = 1)",
        f"GRANT SELECT ON t TO {settings.user}",
        "CREATE PUBLICATION p FOR TABLE t",
    )
    relation = _relation(connection, "t")
    (chunk,) = plan_chunks(connection, relation, 10, publication="p")

    def read() -> int:
        with created_slot(settings, f"{database.name}_x", temporary=True) as exported:
            blocks = [block for each in chunk_blocks(settings, exported.name, relation, chunk) for block in each]
        return len(blocks)

    with pytest.raises(PrivilegeError, match=f'ALTER ROLE "{settings.user}" BYPASSRLS'):
        read()
    database.execute(f"ALTER ROLE {settings.user} BYPASSRLS")
    assert read() >= 2


def _first_plan_line(connection: Connection, query: str) -> Sequence[str]:
    return [row[0] for row in connection.execute(f"EXPLAIN {query}".encode()).fetchall()]


def test_a_chunk_is_read_by_its_pages_alone(database: Database, connection: Connection) -> None:
    """Else every chunk would read the whole table."""
    database.execute("CREATE TABLE t (id int)", "INSERT INTO t SELECT generate_series(1, 10000)")
    plan = _first_plan_line(connection, "SELECT FROM ONLY public.t WHERE ctid >= '(3,0)'::tid AND ctid < '(5,0)'::tid")
    assert "Tid Range Scan" in plan[0]
