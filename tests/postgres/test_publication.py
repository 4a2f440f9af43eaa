"""The publication: made where it may be, added to, and noticed when somebody makes it or an entry again."""

from __future__ import annotations

import logging
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from tests.fixtures_server import login_role
from walhouse.config.filters import NameFilter, TableFilter
from walhouse.errors import (
    PrivilegeError,
    PublicationMissingError,
    PublicationTableError,
)
from walhouse.names import TableName
from walhouse.postgres.connection import connect
from walhouse.postgres.publication import (
    add_captured_tables,
    drop_publication,
    ensure_publication,
    find_publication,
    read_publication,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.fixtures_server import Database
    from walhouse.config.connection import ConnectionSettings
    from walhouse.postgres.connection import Connection

pytestmark = pytest.mark.server

A, B = TableName("public", "a"), TableName("public", "b")


@pytest.fixture
def connection(database: Database) -> Iterator[Connection]:
    database.execute("CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE b (id int PRIMARY KEY)")
    with closing(connect(database.settings)) as opened:
        yield opened


def _only(*tables: str) -> TableFilter:
    return TableFilter(tables=NameFilter(include=tables))


def test_filtered_makes_it_for_the_captured_tables_and_adds_what_is_captured_later(connection: Connection) -> None:
    made = ensure_publication(connection, "p", "filtered", _only(r"public\.a"))
    assert set(made.tables) == made.published == {A}
    added = ensure_publication(connection, "p", "filtered", TableFilter())
    assert added.published == {A, B}
    assert added.tables[A] == made.tables[A]
    add_captured_tables(connection, "p", TableFilter())
    narrowed = ensure_publication(connection, "p", "filtered", _only(r"public\.a"))
    assert narrowed.fingerprint == added.fingerprint


def test_all_tables_has_all_of_them(connection: Connection) -> None:
    made = ensure_publication(connection, "p", "all_tables", TableFilter())
    assert made.all_tables
    assert made.published == {A, B}
    assert made.publishes == {"insert", "update", "delete", "truncate"}
    assert ensure_publication(connection, "p", "filtered", TableFilter()) == made


def test_no_tables_has_none(connection: Connection) -> None:
    assert ensure_publication(connection, "p", "no_tables", TableFilter()).published == frozenset()


def test_disabled_neither_makes_nor_changes_it(connection: Connection) -> None:
    with pytest.raises(PublicationMissingError, match="p"):
        ensure_publication(connection, "p", "disabled", TableFilter())
    assert find_publication(connection, "p") is None
    connection.execute("CREATE PUBLICATION p FOR TABLE public.a")
    with pytest.raises(PublicationTableError, match=r"public\.b"):
        ensure_publication(connection, "p", "disabled", TableFilter())
    assert ensure_publication(connection, "p", "disabled", _only(r"public\.a")).published == {A}


def test_a_configuration_that_captures_no_table_is_an_error(connection: Connection) -> None:
    with pytest.raises(PublicationTableError, match="no table"):
        ensure_publication(connection, "p", "filtered", _only("nothing"))
    assert find_publication(connection, "p") is None


@pytest.mark.parametrize("via_root", [False, True])
def test_partitions_are_published_under_the_root_or_under_their_own_names(
    connection: Connection, via_root: bool
) -> None:
    connection.execute("CREATE TABLE public.root (id int PRIMARY KEY) PARTITION BY RANGE (id)")
    connection.execute("CREATE TABLE public.leaf PARTITION OF public.root FOR VALUES FROM (0) TO (9)")
    made = ensure_publication(connection, "p", "filtered", TableFilter(), via_root=via_root)
    assert made.via_root is via_root
    assert made.published == {A, B, TableName("public", "root" if via_root else "leaf")}
    assert ensure_publication(connection, "p", "filtered", TableFilter(), via_root=not via_root) == made


def test_a_user_who_may_not_make_it_is_told_so(
    connection: Connection, role: Callable[[str], ConnectionSettings]
) -> None:
    del connection
    settings = role("REPLICATION")
    with closing(connect(settings)) as other, pytest.raises(PrivilegeError):
        ensure_publication(other, "p", "filtered", TableFilter())


@pytest.mark.parametrize("name", ['a "quoted", one', "Größe"])
def test_its_name_is_quoted(connection: Connection, name: str) -> None:
    assert ensure_publication(connection, name, "filtered", TableFilter()).name == name
    drop_publication(connection, name)
    drop_publication(connection, name)
    with pytest.raises(PublicationMissingError):
        read_publication(connection, name)


def test_what_is_added_at_a_later_start_makes_no_publication(connection: Connection) -> None:
    """Changes without it are lost: one that is gone is an error, and one for all tables lacks none."""
    with pytest.raises(PublicationMissingError):
        add_captured_tables(connection, "p", TableFilter())
    made = ensure_publication(connection, "p", "filtered", _only(r"public\.a"))
    add_captured_tables(connection, "p", TableFilter())
    found = read_publication(connection, "p")
    assert found.published == {A, B}
    assert found.tables[A] == made.tables[A]
    assert len(found.existing) == 2
    ensure_publication(connection, "all", "all_tables", TableFilter())
    add_captured_tables(connection, "all", TableFilter())
    assert read_publication(connection, "all").tables == {}


def test_a_table_that_may_not_be_added_keeps_no_other_out_and_is_told_of(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    with login_role(database, "REPLICATION") as role:
        database.execute(f"GRANT CREATE ON DATABASE {database.name} TO {role.user}")
        for table in ("a", "c"):
            database.execute(f"CREATE TABLE {table} (id int)", f"ALTER TABLE {table} OWNER TO {role.user}")
        with closing(connect(role)) as own, caplog.at_level(logging.WARNING, "walhouse"):
            ensure_publication(own, "p", "filtered", _only(r"public\.a"))
            database.execute("CREATE TABLE b (id int)")
            add_captured_tables(own, "p", TableFilter())
            assert set(read_publication(own, "p").published) == {A, TableName("public", "c")}
            drop_publication(own, "p")
    assert "Not captured, since the publication p lacks it: public.b. " in caplog.text
