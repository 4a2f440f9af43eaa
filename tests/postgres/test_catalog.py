"""The catalog's descriptions: the version of the stream's own Relation message, and all facts that it lacks."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.postgres.wire import read_stream
from walhouse.config.filters import NameFilter, TableFilter
from walhouse.names import TableName
from walhouse.pgoutput.column import ColumnDescription
from walhouse.pgoutput.relation import RelationDescription, describe
from walhouse.pgoutput.selection import kept_positions
from walhouse.postgres.catalog import describe_tables, read_relations, read_types
from walhouse.postgres.connection import connect
from walhouse.postgres.peek import peek_blocks
from walhouse.postgres.slot import create_slot
from walhouse.postgres.wal import insert_lsn, wait_flushed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fixtures_server import Database
    from walhouse.postgres.connection import Connection

pytestmark = pytest.mark.server


@pytest.fixture
def connection(database: Database) -> Iterator[Connection]:
    with closing(connect(database.settings)) as opened:
        create_slot(opened, f"{database.name}_slot")
        yield opened


def _versions_from_the_stream(
    database: Database, connection: Connection, selection: TableFilter
) -> dict[str, tuple[int, int]]:
    """OID and version of each captured relation, by its name, as its Relation message gives them."""
    end = wait_flushed(connection, insert_lsn(connection))
    stream = read_stream(peek_blocks(database.settings, f"{database.name}_slot", "p", end))
    catalog = read_relations(connection, "p", selection)
    found = {}
    for each in stream.relations.values():
        if each.oid in catalog:
            key = catalog[each.oid].own_key
            kept = kept_positions(selection, each.name, each.identity, each.columns, key)
            found[each.name.table] = (
                each.oid,
                describe(each.oid, each.name, each.identity, each.columns, kept).version,
            )
    return found


def _one(connection: Connection, selection: TableFilter | None = None) -> RelationDescription:
    (relation,) = read_relations(connection, "p", selection or TableFilter()).values()
    return relation


TABLES = {
    "plain": ("CREATE TABLE plain (id int PRIMARY KEY, v varchar(9), n numeric(10,2), t timestamp(3)[])", "(1)"),
    "composite_key": ("CREATE TABLE composite_key (a int, b text, c int, PRIMARY KEY (c, a))", "(1, 'x', 1)"),
    "no_key": ("CREATE TABLE no_key (a int, b text)", "(1)"),
    "late_key": ("CREATE TABLE late_key (a int PRIMARY KEY DEFERRABLE, b text)", "(1)"),
    "identity_full": (
        "CREATE TABLE identity_full (a int, b text); ALTER TABLE identity_full REPLICA IDENTITY FULL",
        "(1)",
    ),
    "identity_nothing": (
        "CREATE TABLE identity_nothing (a int PRIMARY KEY); ALTER TABLE identity_nothing REPLICA IDENTITY NOTHING",
        "(1)",
    ),
    "identity_index": (
        (
            "CREATE TABLE identity_index (a int PRIMARY KEY, b int NOT NULL, c text);"
            " CREATE UNIQUE INDEX chosen ON identity_index (b) INCLUDE (c);"
            " ALTER TABLE identity_index REPLICA IDENTITY USING INDEX chosen"
        ),
        "(1, 2)",
    ),
    "index_gone": (
        (
            "CREATE TABLE index_gone (a int PRIMARY KEY, b int NOT NULL);"
            " CREATE UNIQUE INDEX gone ON index_gone (b);"
            " ALTER TABLE index_gone REPLICA IDENTITY USING INDEX gone; DROP INDEX gone"
        ),
        "(1, 2)",
    ),
    "dropped": ("CREATE TABLE dropped (a int, b int, c int PRIMARY KEY); ALTER TABLE dropped DROP COLUMN b", "(1, 2)"),
    "generated": ("CREATE TABLE generated (a int PRIMARY KEY, g int GENERATED ALWAYS AS (a) STORED, z text)", "(1)"),
    "domains": (
        (
            "CREATE DOMAIN inner_domain AS varchar(5); CREATE DOMAIN outer_domain AS inner_domain NOT NULL;"
            " CREATE TABLE domains (a int PRIMARY KEY, d outer_domain)"
        ),
        "(1, 'x')",
    ),
    "own": (
        "CREATE TYPE mood AS ENUM ('ok'); CREATE TYPE pair AS (a int); CREATE TABLE own (a mood PRIMARY KEY, p pair)",
        "('ok')",
    ),
    "größe": ('CREATE TABLE "größe" ("Ä b" int PRIMARY KEY)', "(1)"),
}


def test_versions_are_those_of_the_relation_messages(database: Database, connection: Connection) -> None:
    """Identity flags, type modifiers and the choice of columns are pgoutput's, table by table."""
    database.execute("CREATE PUBLICATION p FOR ALL TABLES")
    for name, (ddl, row) in TABLES.items():
        database.execute(*ddl.split("; "), f'INSERT INTO "{name}" VALUES {row}')
    selection = TableFilter(columns=NameFilter(exclude=(r"public\.composite_key\.b", r"public\.plain\.v")))
    found = {
        relation.table: (oid, relation.version) for oid, relation in read_relations(connection, "p", selection).items()
    }
    assert found.keys() == TABLES.keys()
    assert found == _versions_from_the_stream(database, connection, selection)


@pytest.mark.parametrize("via_root", [False, True])
def test_a_partition_tree_is_described_as_its_changes_are(
    database: Database, connection: Connection, via_root: bool
) -> None:
    database.execute(
        "CREATE TABLE root (id int, v text, w text, PRIMARY KEY (id)) PARTITION BY RANGE (id)",
        "CREATE TABLE leaf (gone int, w text, v text, id int NOT NULL)",
        "ALTER TABLE leaf DROP COLUMN gone",
        "ALTER TABLE root ATTACH PARTITION leaf FOR VALUES FROM (10) TO (20)",
        f"CREATE PUBLICATION p FOR TABLE root WITH (publish_via_partition_root = {via_root})",
        "INSERT INTO root VALUES (11, 'v', 'w')",
    )
    relation = _one(connection)
    assert relation.table == ("root" if via_root else "leaf")
    assert relation.partitioned is via_root
    assert relation.primary_key == ("id",)
    expected = _versions_from_the_stream(database, connection, TableFilter())
    assert expected[relation.table] == (relation.oid, relation.version)


def test_a_column_list_is_honoured(database: Database, connection: Connection) -> None:
    database.execute(
        "CREATE TABLE t (id int PRIMARY KEY, hidden text, v text)",
        "CREATE PUBLICATION p FOR TABLE t (v, id)",
        "INSERT INTO t VALUES (1)",
    )
    relation = _one(connection)
    assert relation.column_names == ("id", "v")
    assert _versions_from_the_stream(database, connection, TableFilter()) == {"t": (relation.oid, relation.version)}


def test_generated_columns_are_there_only_where_they_are_published(database: Database, connection: Connection) -> None:
    """No version before 18 sends them, although its catalog lists them; 18 sends stored ones if it is told to."""
    virtual = connection.info.server_version >= 180000
    database.execute(
        "CREATE TABLE t (id int PRIMARY KEY, s int GENERATED ALWAYS AS (id + 1) STORED"
        + (", w int GENERATED ALWAYS AS (id + 2) VIRTUAL)" if virtual else ")"),
        "CREATE PUBLICATION p FOR TABLE t" + (" WITH (publish_generated_columns = stored)" if virtual else ""),
        "INSERT INTO t VALUES (1)",
    )
    relation = _one(connection)
    assert relation.column_names == (("id", "s") if virtual else ("id",))
    assert [column.generated for column in relation.columns] == [False, True][: 1 + virtual]
    assert {column.default for column in relation.columns} == {None}, "the expression is no default"
    assert _versions_from_the_stream(database, connection, TableFilter()) == {"t": (relation.oid, relation.version)}


def test_all_facts_that_the_message_lacks_are_there(database: Database, connection: Connection) -> None:
    database.execute(
        "CREATE TYPE mood AS ENUM ('sad', 'ok')",
        "ALTER TYPE mood ADD VALUE 'fair' BEFORE 'ok'",
        "CREATE DOMAIN inner_domain AS varchar(5)",
        "CREATE DOMAIN outer_domain AS inner_domain NOT NULL",
        "CREATE DOMAIN money_like AS numeric(10,2)",
        "CREATE TABLE t (a int DEFAULT 7, b numeric(10,2) NOT NULL, m mood, ms mood[], d outer_domain,"
        " ds outer_domain[], x money_like, c char(3)[], PRIMARY KEY (b, a))",
        "CREATE UNIQUE INDEX second ON t (m, x)",
        "CREATE UNIQUE INDEX first ON t (c)",
        "CREATE UNIQUE INDEX partial ON t (m) WHERE a > 1",
        "CREATE UNIQUE INDEX expression ON t (abs(a))",
        "CREATE INDEX plain ON t (a)",
        "COMMENT ON TABLE t IS 'of the table'",
        "COMMENT ON COLUMN t.m IS 'of the column'",
        "CREATE PUBLICATION p FOR TABLE t",
    )
    lsn = insert_lsn(connection)
    relation = _one(connection)
    assert relation.primary_key == ("b", "a")
    assert relation.unique_keys == (("c",), ("m",), ("m", "x")), "Debezium takes a partial index for a key, too"
    assert relation.comment == "of the table"
    assert relation.partitioned is False
    assert relation.replica_identity == "d"
    assert relation.catalog_lsn is not None
    assert relation.catalog_lsn >= lsn
    facts = {
        column.name: (column.type_name, column.base_type, column.base_typmod, column.kind, column.element_type)
        for column in relation.columns
    }
    numeric = (10 << 16 | 2) + 4
    assert facts == {
        "a": ("integer", "int4", -1, "b", None),
        "b": ("numeric(10,2)", "numeric", numeric, "b", None),
        "m": ("public.mood", "mood", -1, "e", None),
        "ms": ("public.mood[]", "_mood", -1, "b", "mood"),
        "d": ("public.outer_domain", "varchar", 9, "b", None),
        "ds": ("public.outer_domain[]", "_outer_domain", -1, "b", "varchar"),
        "x": ("public.money_like", "numeric", numeric, "b", None),
        "c": ("character(3)[]", "_bpchar", 7, "b", "bpchar"),
    }
    assert [column.declared_type for column in relation.columns] == [
        "int4",
        "numeric",
        "mood",
        "_mood",
        "outer_domain",
        "_outer_domain",
        "money_like",
        "_bpchar",
    ]
    columns = {column.name: column for column in relation.columns}
    assert columns["a"].default == "7"
    assert columns["m"].enum_labels == columns["ms"].enum_labels == ("sad", "fair", "ok")
    assert columns["m"].comment == "of the column"
    assert [column.name for column in relation.columns if not column.nullable] == ["a", "b", "d"]
    assert relation.identity_columns == ("a", "b")
    assert RelationDescription.from_json(relation.to_json()) == relation


def test_the_key_of_a_unique_index_has_what_the_index_includes_and_the_relation_has(
    database: Database, connection: Connection
) -> None:
    """As Debezium's driver lists it. A primary key and the replica identity are of the key's own columns."""
    database.execute(
        "CREATE TABLE t (a int NOT NULL, b int NOT NULL, c text, d int, PRIMARY KEY (d) INCLUDE (c))",
        "CREATE UNIQUE INDEX chosen ON t (b) INCLUDE (c, a)",
        "ALTER TABLE t REPLICA IDENTITY USING INDEX chosen",
        "CREATE PUBLICATION p FOR TABLE t",
    )
    relation = _one(connection)
    assert (relation.primary_key, relation.unique_keys) == (("d",), (("b", "c", "a"),))
    assert (relation.identity_columns, relation.row_key) == (("b",), ("b",))
    database.execute("ALTER TABLE t DROP CONSTRAINT t_pkey")
    assert (_one(connection).own_key, _one(connection).row_key) == (("b", "c", "a"), ("b",))


def test_the_first_unique_index_is_the_key_with_those_of_its_columns_that_are_published(
    database: Database, connection: Connection
) -> None:
    """And there is no key if none of them are, whatever other indexes there are."""
    database.execute(
        "CREATE TABLE t (a int, b int, c int)",
        "CREATE UNIQUE INDEX i1 ON t (a, c)",
        "CREATE UNIQUE INDEX i2 ON t (b)",
        "CREATE PUBLICATION p FOR TABLE t (b, c)",
    )
    assert _one(connection).own_key == ("c",)
    database.execute("ALTER PUBLICATION p SET TABLE t (b)")
    assert _one(connection).own_key == ()


def test_a_column_that_is_added_is_seen_before_any_change_has_it(database: Database, connection: Connection) -> None:
    """ADD COLUMN sends nothing until the next change of the table."""
    database.execute("CREATE TABLE t (id int PRIMARY KEY)", "CREATE PUBLICATION p FOR TABLE t")
    before = _one(connection)
    database.execute("ALTER TABLE t ADD v text")
    assert _versions_from_the_stream(database, connection, TableFilter()) == {}
    after = _one(connection)
    assert (before.column_names, after.column_names) == (("id",), ("id", "v"))
    assert before.version != after.version


def test_what_is_not_captured_is_not_described(database: Database, connection: Connection) -> None:
    database.execute(
        "CREATE TABLE t (id int PRIMARY KEY)",
        "CREATE TABLE u (id int PRIMARY KEY)",
        "CREATE PUBLICATION p FOR ALL TABLES",
    )
    assert _one(connection, TableFilter(tables=NameFilter(include=(r"public\.u",)))).table == "u"


def test_a_table_is_described_the_same_before_it_is_published(database: Database, connection: Connection) -> None:
    database.execute("CREATE TABLE t (a int, b text, PRIMARY KEY (b, a))", "CREATE TABLE other (id int PRIMARY KEY)")
    (before,) = describe_tables(connection, [TableName("public", "t")])
    assert (before.column_names, before.own_key) == (("a", "b"), ("b", "a"))
    database.execute("CREATE PUBLICATION p FOR TABLE t")
    assert before == replace(_one(connection), catalog_lsn=None)
    assert describe_tables(connection, []) == []


@pytest.mark.contrib
def test_a_type_tells_of_a_column_what_the_column_itself_would(database: Database, connection: Connection) -> None:
    database.execute(
        "CREATE EXTENSION hstore",
        "CREATE TYPE mood AS ENUM ('sad', 'ok')",
        "CREATE DOMAIN price AS numeric(8, 2)",
        "CREATE DOMAIN dear AS price CHECK (VALUE > 10)",
        "CREATE TABLE typed (a int, b varchar(9), c mood, d mood[], e dear, f numeric(5, 1)[], g hstore, h text[])",
        "CREATE PUBLICATION p FOR TABLE typed",
    )
    columns = _one(connection).columns
    types = read_types(connection)
    for column in columns:
        bare = ColumnDescription(column.name, column.type_oid, column.typmod, column.identity)
        told = replace(types[column.type_oid].told_of(bare), nullable=column.nullable, generated=column.generated)
        # format_type needs the modifier, too: it is told where there is none
        assert told == (column if column.typmod < 0 else replace(column, type_name=None))


def test_a_type_of_several_fields_is_known_without_a_column_and_rows_of_tables_are_left_out(
    database: Database, connection: Connection
) -> None:
    before = read_types(connection).keys()
    database.execute("CREATE TYPE two AS (x int)", "CREATE DOMAIN twos AS two[]", "CREATE TABLE one (id int)")
    database.execute("CREATE TABLE three (r one, rs one[], t two, u two[])")
    types = read_types(connection)
    added = {types[oid].declared_type: types[oid] for oid in types.keys() - before}
    assert added.keys() == {"two", "_two", "twos", "_twos"}
    assert [added[name].element_type for name in ("two", "_two", "twos", "_twos")] == [None, "two", "two", "_two"]
    assert added["two"].kind == "c"
