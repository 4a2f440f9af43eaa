"""Chunks by key, each in a transaction and a snapshot of its own, on the real server."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from walhouse.config.filters import TableFilter
from walhouse.errors import ConditionError, PromotedError, SourceError, TableChangedError
from walhouse.lsn import Lsn
from walhouse.pgoutput.copy_text import images_of_copy
from walhouse.pgoutput.image import unpack_row
from walhouse.postgres.catalog import read_relations
from walhouse.postgres.connection import connect
from walhouse.postgres.key_chunks import (
    KeyChunk,
    chunk_ends,
    estimated_rows,
    keyed_table,
    keys_condition,
    largest_key,
    read_chunk,
)
from walhouse.postgres.visibility import Visibility

if TYPE_CHECKING:
    from tests.fixtures_server import Database
    from walhouse.postgres.connection import Connection
    from walhouse.postgres.keyed_table import Key, KeyedTable

pytestmark = pytest.mark.server


def table_of(connection: Connection, name: str = "t", condition: str | None = None) -> KeyedTable:
    relation = next(each for each in read_relations(connection, "p", TableFilter()).values() if each.table == name)
    return keyed_table(connection, relation, relation.row_key, publication="p", condition=condition)


def chunks_of(connection: Connection, table: KeyedTable, size: int = 3, count: int = 2) -> list[KeyChunk]:
    """All chunks, planned a few at a time."""
    upto, after = largest_key(connection, table), None
    ends: list[Key] = []
    while upto is not None and after != upto:
        ends += chunk_ends(connection, table, after, upto, size=size, count=count)
        after = ends[-1]
    return [
        KeyChunk(table, number, start, end)
        for number, (start, end) in enumerate(zip([None, *ends], ends, strict=False))
    ]


def rows_of(connection: Connection, chunk: KeyChunk) -> list[Any]:
    columns = len(chunk.table.relation.columns)
    rows: list[Any] = []
    for _, blocks in read_chunk(connection, chunk, on_standby=False):
        rows += map(unpack_row, images_of_copy(blocks, columns).to_pylist())
    return rows


KEYS = {
    "numeric": ["-Infinity", "-1.50", "0", "1.5", "1e30", "Infinity", "NaN"],
    "numeric(8,3)": ["-1.5", "0", "2.25", "NaN", "10000"],
    "double precision": ["-Infinity", "-0", "1e-300", "0.1", "1e308", "Infinity", "NaN"],
    "text": ["", "A", "a", "ä", "it's", "back\\slash", "{}", "100%", "two\nlines"],
    "character(4)": ["a", "ab", "B"],
    "bytea": ["\\x", "\\x00", "\\xff00"],
    "timestamptz": ["-infinity", "0044-03-15 12:00:00+00 BC", "2024-01-01 00:00:00.000001+02", "infinity"],
    "uuid": ["00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"],
    "inet": ["10.0.0.5", "10.0.0.5/8", "::1"],
    "interval": ["-1 day", "00:00:00", "1 mon"],
    "mood": ["sad", "ok", "happy"],
    "positive": ["1", "2", "10"],
    "small": ["1", "2", "10"],
    "moods": ["{}", "{sad,NULL}", "{happy}"],
    "pair": ["(1,a)", "(2,)", "(,)"],
    "span": ["empty", "[1,5)", "(,)"],
    "code": ["", "a", "ab"],
    "place": ["-", "pg_catalog.pg_class", "t"],
    "boolean": ["f", "t"],
    "int4[]": ["{}", "{1,NULL}", "{2}"],
    "ltree": ["", "a", "a.B", "a.b", "b"],
    "away.citext": ["", "a2", "A3", "B", "c"],
    "no_case": ["", "a2", "A3", "B", "c"],
}
DOMAINS = {"positive", "small", "moods", "span", "code", "place", "no_case"}
OF_MODULES = {"ltree", "away.citext", "no_case"}
MODULES = (
    "CREATE EXTENSION ltree",
    "CREATE SCHEMA away",
    "CREATE EXTENSION citext SCHEMA away",
    "CREATE DOMAIN no_case AS away.citext",
)


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.contrib) if kind in OF_MODULES else kind for kind in KEYS]
)
def test_chunks_are_together_the_table_whatever_type_its_key_has(
    kind: str, database: Database, connection: Connection
) -> None:
    database.execute(
        "CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy')",
        "CREATE DOMAIN positive AS int CHECK (VALUE > 0)",
        "CREATE DOMAIN small AS positive CHECK (VALUE < 99)",
        "CREATE DOMAIN moods AS mood[]",
        "CREATE TYPE of_two AS (a int, b text)",
        "CREATE DOMAIN pair AS of_two",
        "CREATE DOMAIN span AS int4range",
        "CREATE DOMAIN code AS character(4)",
        "CREATE DOMAIN place AS regclass",
        *(MODULES if kind in OF_MODULES else ()),
        f'CREATE TABLE t (b int, "Key, a" {kind}, PRIMARY KEY ("Key, a", b))',
        "CREATE PUBLICATION p FOR TABLE t",
    )
    with database.connect() as client:
        for value in KEYS[kind]:
            client.execute(f"INSERT INTO t SELECT b, %s::{kind} FROM generate_series(1, 4) AS b".encode(), [value])
        expected = client.execute("SELECT count(*) FROM t").fetchone()
        if kind in DOMAINS:  # its own rows need not be of the type any more
            client.execute(f"ALTER DOMAIN {kind} ADD CHECK (VALUE IS NULL) NOT VALID".encode())
    chunks = chunks_of(connection, table_of(connection))
    read = [rows_of(connection, chunk) for chunk in chunks]
    rows = [tuple(row) for chunk in read for row in chunk]
    assert [(len(set(rows)),)] == [(len(rows),)] == [expected]
    assert all(len(rows) == 3 for rows in read[:-1])
    again = table_of(
        connection, condition=keys_condition(chunks[0].table.relation, [(row[1], row[0]) for row in rows[:5]])
    )
    found = [tuple(row) for chunk in chunks_of(connection, again) for row in rows_of(connection, chunk)]
    assert found == rows[:5]


def test_rows_without_a_key_are_in_no_range_and_in_the_chunk_without_an_end(
    database: Database, connection: Connection
) -> None:
    database.execute(
        "CREATE TABLE t (id int PRIMARY KEY, a int, b text)",
        "INSERT INTO t SELECT n, nullif(n % 4, 0), nullif('b' || n % 3, 'b0') FROM generate_series(1, 24) AS n",
        "CREATE PUBLICATION p FOR TABLE t",
    )
    relation = table_of(connection).relation
    table = keyed_table(connection, relation, ("a", "b"), publication="p", condition="id <= 23")
    assert largest_key(connection, table) == ("3", "b2")
    ranges = [row for chunk in chunks_of(connection, table) for row in rows_of(connection, chunk)]
    rest = rows_of(connection, KeyChunk(table, 9, None, None))
    assert len(ranges) == 12
    assert len(rest) == 11
    assert all(a is not None and b is not None for _, a, b in ranges)
    assert all(a is None or b is None for _, a, b in rest)
    database.execute("UPDATE t SET a = NULL")
    assert largest_key(connection, table) is None


def test_a_partitioned_table_is_read_through_its_root_and_an_inherited_one_without_its_children(
    database: Database, connection: Connection
) -> None:
    database.execute(
        "CREATE TABLE t (id int PRIMARY KEY) PARTITION BY RANGE (id)",
        "CREATE TABLE t_low PARTITION OF t FOR VALUES FROM (0) TO (5)",
        "CREATE TABLE t_high PARTITION OF t FOR VALUES FROM (5) TO (100)",
        "INSERT INTO t SELECT generate_series(1, 10)",
        "CREATE TABLE parent (id int PRIMARY KEY)",
        "CREATE TABLE child (PRIMARY KEY (id)) INHERITS (parent)",
        "INSERT INTO parent VALUES (1)",
        "INSERT INTO child VALUES (2)",
        "ANALYZE",
        "CREATE PUBLICATION p FOR TABLE t, ONLY parent WITH (publish_via_partition_root)",
    )
    for name, expected in (("t", 10), ("parent", 1)):
        table = table_of(connection, name)
        assert sum(len(rows_of(connection, chunk)) for chunk in chunks_of(connection, table)) == expected
        assert estimated_rows(connection, table.name) == expected


def test_the_publications_row_filter_and_a_condition_both_hold(database: Database, connection: Connection) -> None:
    if connection.info.server_version < 150000:
        return
    database.execute(
        "CREATE TABLE t (id int PRIMARY KEY, v text)",
        "INSERT INTO t SELECT n, n || '%' FROM generate_series(1, 20) AS n",
        "CREATE PUBLICATION p FOR TABLE t WHERE (id > 5)",
    )
    table = table_of(connection, condition="v LIKE '1_\\%' OR id < 8 -- all of them")
    rows = [row for chunk in chunks_of(connection, table) for row in rows_of(connection, chunk)]
    assert [int(row[0]) for row in rows] == [6, 7, *range(10, 20)]


def test_a_null_in_an_arrays_text_is_one_whatever_the_database_says_of_it(database: Database) -> None:
    """With ``array_nulls`` off it is a text of four letters, and a bound another key than the row's."""
    database.execute(
        "CREATE TABLE t (key text[] PRIMARY KEY)",
        "INSERT INTO t SELECT ARRAY[n::text, NULL] FROM generate_series(1, 40) AS n",
        "CREATE PUBLICATION p FOR TABLE t",
        f"ALTER DATABASE {database.name} SET array_nulls = off",
    )
    with closing(connect(database.settings)) as connection:
        chunks = chunks_of(connection, table_of(connection))
        assert sum(len(rows_of(connection, chunk)) for chunk in chunks) == 40


@pytest.mark.contrib
def test_a_table_is_read_by_the_order_that_its_key_has_and_not_by_that_of_another_type(
    database: Database, connection: Connection
) -> None:
    """``A100 < a101`` by ``citext``, and not by ``text``, whose operators a plain comparison finds."""
    database.execute(
        "CREATE EXTENSION citext",
        "CREATE TABLE t (id citext PRIMARY KEY)",
        "INSERT INTO t SELECT (CASE n % 2 WHEN 0 THEN 'A' ELSE 'a' END) || n FROM generate_series(100, 200) AS n",
        "CREATE PUBLICATION p FOR TABLE t",
    )
    rows = [row for chunk in chunks_of(connection, table_of(connection), 10) for row in rows_of(connection, chunk)]
    assert [row[0].lower() for row in rows] == [f"a{n}" for n in range(100, 201)]


@pytest.mark.contrib
@pytest.mark.parametrize("kind", ["citext", "citext, r regclass DEFAULT 't'"])
def test_a_conditions_names_are_those_of_the_users_sessions_unless_values_print_names(
    kind: str, database: Database, connection: Connection
) -> None:
    """``regclass`` is to print as in the stream: ``public.t`` and not ``t``."""
    database.execute(
        "CREATE EXTENSION citext",
        f"CREATE TABLE t (id int PRIMARY KEY, v {kind})",
        "INSERT INTO t VALUES (1, 'Ann'), (2, 'ann'), (3, 'bob')",
        "CREATE FUNCTION known(citext) RETURNS bool LANGUAGE sql AS $$ SELECT $1 = 'ANN' $$",
        "CREATE PUBLICATION p FOR TABLE t",
    )
    if kind == "citext":
        for condition in ("v = 'ann'", "known(v)", "EXISTS (SELECT FROM t AS o WHERE o.v = t.v AND o.id <> t.id)"):
            table = table_of(connection, condition=condition)
            found = [row for chunk in chunks_of(connection, table) for row in rows_of(connection, chunk)]
            assert [row[0] for row in found] == ["1", "2"]
        return
    table = table_of(connection, condition="v OPERATOR(public.=) 'ann'")
    found = [row for chunk in chunks_of(connection, table) for row in rows_of(connection, chunk)]
    assert found == [["1", "Ann", "public.t"], ["2", "ann", "public.t"]]


def test_each_chunk_has_a_snapshot_of_its_own_and_an_lsn_after_all_that_it_has_seen(
    database: Database, connection: Connection
) -> None:
    database.execute(
        "CREATE TABLE t (id int PRIMARY KEY)",
        "INSERT INTO t SELECT generate_series(1, 6)",
        "CREATE PUBLICATION p FOR TABLE t",
    )
    one, other = chunks_of(connection, table_of(connection))
    [(before, _)] = read_chunk(connection, one, on_standby=False)
    [(xid, lsn)] = database.execute(
        "WITH gone AS (DELETE FROM t WHERE id = 5)"
        " SELECT pg_current_xact_id()::text::int8, pg_current_wal_insert_lsn()::text"
    )
    [(after, blocks)] = read_chunk(connection, other, on_standby=False)
    assert isinstance(before.visibility, Visibility)
    assert isinstance(after.visibility, Visibility)
    assert not before.visibility.sees(xid)
    assert after.visibility.sees(xid)
    assert before.lsn <= after.lsn
    assert after.lsn >= Lsn.parse(lsn).page_aligned()
    assert len(images_of_copy(blocks, 1)) == 2


def test_a_chunk_is_not_read_of_what_was_a_standby_when_capture_began(
    database: Database, connection: Connection
) -> None:
    database.execute(
        "CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)", "CREATE PUBLICATION p FOR TABLE t"
    )
    [chunk] = chunks_of(connection, table_of(connection))
    with pytest.raises(PromotedError):
        list(read_chunk(connection, chunk, on_standby=True))


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE t ADD more int",
        "ALTER TABLE t ALTER v TYPE int USING 1",
        "DROP TABLE t CASCADE",
        "ALTER TABLE t RENAME TO another",
        'ALTER TABLE t ALTER v TYPE text COLLATE "C"',
    ],
)
def test_a_table_that_changed_since_it_was_planned_is_not_read(
    change: str, database: Database, connection: Connection
) -> None:
    database.execute(
        "CREATE TABLE t (id int PRIMARY KEY, v text)", "INSERT INTO t VALUES (1)", "CREATE PUBLICATION p FOR TABLE t"
    )
    [chunk] = chunks_of(connection, table_of(connection))
    database.execute(change, "CREATE TABLE IF NOT EXISTS t (id int PRIMARY KEY, v text)")
    with pytest.raises(TableChangedError):
        rows_of(connection, chunk)


@pytest.mark.parametrize(
    ("condition", "is_one"),
    [
        ("id > 0", True),
        ("v = ')' OR v = E'\\')' /* ) */ OR v = $$)$$ -- )", True),
        ('"id" IN (SELECT 1)', True),
        ("id > 0)", False),
        ("(id > 0", False),
        ("id > 0; SELECT 1", False),
        ("id", False),
        ("id = %s", False),
    ],
)
def test_a_condition_is_one_expression_or_nothing(
    condition: str,
    is_one: bool,
    database: Database,
    connection: Connection,
) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, v text)", "CREATE PUBLICATION p FOR TABLE t")
    if is_one:
        assert table_of(connection, condition=condition).condition == condition
        return
    with pytest.raises(ConditionError):
        table_of(connection, condition=condition)


@pytest.mark.parametrize(
    "condition", ["current_setting(v) IS NOT NULL", "to_tsvector(v) @@ to_tsquery(v)", "v::regclass IS NOT NULL"]
)
def test_what_the_server_says_of_a_value_that_a_condition_takes_for_a_name_is_withheld(
    condition: str, database: Database, connection: Connection
) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, v text)", "INSERT INTO t VALUES (1, 'secret value')")
    database.execute("CREATE PUBLICATION p FOR TABLE t")
    table = table_of(connection, condition=condition)
    for attempt in (
        lambda: largest_key(connection, table),
        lambda: rows_of(connection, KeyChunk(table, 1, None, ("1",))),
    ):
        with pytest.raises(SourceError, match="PostgreSQL refused a statement") as raised:
            attempt()
        assert "secret" not in f"{raised.value} {raised.value.fields} {raised.value.__cause__}"
