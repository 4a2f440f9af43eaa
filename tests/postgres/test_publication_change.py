"""A publication between two looks: where changes may be missing, that is an error, or a table is read anew."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from tests.fixtures_server import login_role
from walhouse.config.filters import NameFilter, TableFilter
from walhouse.errors import PublicationChangedError
from walhouse.names import TableName
from walhouse.postgres.connection import connect
from walhouse.postgres.publication import read_publication
from walhouse.postgres.publication_change import (
    changed_behind_our_back,
    has_more_tables,
    made_again,
    require_unchanged,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fixtures_server import Database
    from walhouse.postgres.connection import Connection
    from walhouse.postgres.publication import PublicationState

pytestmark = pytest.mark.server

A, B = TableName("public", "a"), TableName("public", "b")
ALL = TableFilter()
NARROWED = "ALTER PUBLICATION p SET (publish = 'insert')"
ONLY_B = TableFilter(tables=NameFilter(include=(r"public\.b",)))


@pytest.fixture
def connection(database: Database) -> Iterator[Connection]:
    database.execute("CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE b (id int PRIMARY KEY)")
    with closing(connect(database.settings)) as opened:
        yield opened


@pytest.fixture
def before(connection: Connection) -> PublicationState:
    connection.execute("CREATE PUBLICATION p FOR TABLE public.a, public.b")
    return read_publication(connection, "p")


def _after(connection: Connection, statements: str) -> PublicationState:
    for statement in statements.split("; "):
        connection.execute(statement.encode())
    return read_publication(connection, "p")


@pytest.mark.parametrize("reads", [False, True])
@pytest.mark.parametrize(
    ("statements", "reason"),
    [
        ("DROP PUBLICATION p; CREATE PUBLICATION p FOR TABLE public.a, public.b", "created again"),
        ("ALTER PUBLICATION p DROP TABLE public.a", "removed"),
        (NARROWED, "publishes"),
        ("ALTER PUBLICATION p SET (publish_via_partition_root = true)", "via_root"),
        (f"{NARROWED}; ALTER PUBLICATION p SET (publish = 'insert, update, delete, truncate')", "and changed back"),
    ],
)
def test_what_can_have_hidden_changes_is_noticed(
    connection: Connection, before: PublicationState, statements: str, reason: str, reads: bool
) -> None:
    """Changes that are decoded without a publication or an entry are gone for ever, although all looks as before."""
    after = _after(connection, statements)
    assert reason in str(changed_behind_our_back(before.fingerprint, after.fingerprint))
    with pytest.raises(PublicationChangedError, match=reason):
        require_unchanged(connection, before.fingerprint, after, ALL, reads=reads)


@pytest.mark.parametrize(
    "statements",
    [
        "ALTER PUBLICATION p DROP TABLE public.a; ALTER PUBLICATION p ADD TABLE public.a",
        "ALTER PUBLICATION p SET TABLE public.a WHERE (id > 1), public.b",
    ],
)
def test_a_table_that_was_removed_and_added_again_is_a_fault_unless_it_is_read_anew(
    connection: Connection, before: PublicationState, statements: str
) -> None:
    after = _after(connection, statements)
    with pytest.raises(PublicationChangedError, match=r"public.a was removed from it and added again"):
        require_unchanged(connection, before.fingerprint, after, ALL, reads=False)
    require_unchanged(connection, before.fingerprint, after, ALL, reads=True)
    [(oid,)] = connection.execute("SELECT 'public.a'::regclass::oid::int8").fetchall()
    assert made_again(before.fingerprint, after.fingerprint) == {oid}


def test_another_owner_and_a_lake_that_does_not_know_the_publications_row_are_no_faults(
    connection: Connection, before: PublicationState, database: Database
) -> None:
    with login_role(database) as owner:
        connection.execute(f"ALTER ROLE {owner.user} SUPERUSER".encode())
        after = _after(connection, f"ALTER PUBLICATION p OWNER TO {owner.user}")
        require_unchanged(connection, before.fingerprint, after, ALL, reads=False)
        connection.execute("ALTER PUBLICATION p OWNER TO CURRENT_USER")
    of_earlier_versions = json.loads(before.fingerprint)
    del of_earlier_versions["version"]
    require_unchanged(connection, json.dumps(of_earlier_versions), after, ALL, reads=False)


@pytest.mark.parametrize("added_again", [False, True])
def test_what_becomes_of_a_table_that_is_not_captured_is_no_fault(
    connection: Connection, before: PublicationState, added_again: bool
) -> None:
    after = _after(connection, "ALTER PUBLICATION p DROP TABLE public.a")
    if added_again:
        after = _after(connection, "ALTER PUBLICATION p ADD TABLE public.a")
    require_unchanged(connection, before.fingerprint, after, ONLY_B, reads=False)


@pytest.mark.parametrize("added_again", [False, True])
def test_a_partitioned_table_that_was_removed_is_a_fault_whatever_its_own_name(
    connection: Connection, added_again: bool
) -> None:
    """The changes that were not sent have its partitions' names."""
    connection.execute("CREATE TABLE public.root (id int) PARTITION BY LIST (id)")
    connection.execute("CREATE PUBLICATION p FOR TABLE public.root")
    before = read_publication(connection, "p")
    after = _after(connection, "ALTER PUBLICATION p DROP TABLE public.root")
    if added_again:
        after = _after(connection, "ALTER PUBLICATION p ADD TABLE public.root")
    with pytest.raises(PublicationChangedError, match=r"public\.root was removed"):
        require_unchanged(connection, before.fingerprint, after, ONLY_B, reads=True)


def test_what_hides_no_change_is_no_fault(connection: Connection) -> None:
    """A table that is added, renamed, or dropped for good; and the order in which the catalog gives the entries."""
    connection.execute("CREATE PUBLICATION p FOR TABLE public.a")
    before = read_publication(connection, "p")
    for statement in (
        "ALTER PUBLICATION p ADD TABLE public.b",
        "ALTER TABLE public.a RENAME TO renamed",
        "ALTER PUBLICATION p SET TABLE public.renamed, public.b",
        "DROP TABLE public.renamed",
    ):
        after = _after(connection, statement)
        require_unchanged(connection, before.fingerprint, after, ALL, reads=False)
        assert has_more_tables(before.fingerprint, after.fingerprint)
        assert made_again(before.fingerprint, after.fingerprint) == frozenset()


def test_a_schema_entry_that_was_made_again_is_noticed(connection: Connection) -> None:
    connection.execute("CREATE PUBLICATION p FOR TABLES IN SCHEMA public")
    before = read_publication(connection, "p")
    assert before.published == {A, B}
    after = _after(
        connection, "ALTER PUBLICATION p DROP TABLES IN SCHEMA public; ALTER PUBLICATION p ADD TABLES IN SCHEMA public"
    )
    with pytest.raises(PublicationChangedError, match=r"schema public was removed from it and added again"):
        require_unchanged(connection, before.fingerprint, after, ALL, reads=True)
