"""Replica identities are set where they differ, on whole partition trees, and nobody else's table stops capture."""

from __future__ import annotations

import logging
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from walhouse.config.replica_identity import IdentityRules, parse_identities
from walhouse.errors import ConfigurationError, LockTimeoutError, ReplicaIdentityError
from walhouse.names import TableName
from walhouse.postgres.connection import connect
from walhouse.postgres.replica_identity import identity_changes, set_identities

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.fixtures_server import Database
    from walhouse.config.connection import ConnectionSettings
    from walhouse.postgres.connection import Connection

pytestmark = pytest.mark.server

T = TableName("public", "t")


@pytest.fixture
def connection(database: Database) -> Iterator[Connection]:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, v int NOT NULL)", 'CREATE UNIQUE INDEX "I" ON t (v)')
    with closing(connect(database.settings)) as opened:
        yield opened


def _identity(database: Database, table: str = "t") -> str:
    ((found,),) = database.execute(
        "SELECT c.relreplident::text || coalesce(' ' || (SELECT indexrelid::regclass::text FROM pg_index"
        f" WHERE indrelid = c.oid AND indisreplident), '') FROM pg_class c WHERE c.oid = '{table}'::regclass"
    )
    return str(found)


def _rules(text: str) -> IdentityRules:
    return IdentityRules(parse_identities(text))


@pytest.mark.parametrize(("value", "found"), [("FULL", "f"), ("NOTHING", "n"), ("INDEX I", 'i "I"'), ("DEFAULT", "d")])
def test_each_identity_is_set_and_then_left_alone(
    database: Database, connection: Connection, value: str, found: str
) -> None:
    set_identities(connection, [T], _rules(f"public.t:{value}"))
    assert _identity(database) == found
    assert identity_changes(connection, [T], _rules(f"PUBLIC.T:{value}")) == ()
    set_identities(connection, [T], _rules("public.t:DEFAULT"))
    assert _identity(database) == "d"


def test_another_index_than_the_one_that_is_the_identity_is_set_too(database: Database, connection: Connection) -> None:
    set_identities(connection, [T], _rules("public.t:INDEX I"))
    set_identities(connection, [T], _rules("public.t:INDEX t_pkey"))
    assert _identity(database) == "i t_pkey"


def test_an_identity_that_is_right_costs_no_lock(database: Database, connection: Connection) -> None:
    with database.connect(autocommit=False) as reader:
        reader.execute("SELECT FROM t")
        connection.execute("SET lock_timeout = '100ms'")
        set_identities(connection, [T], _rules("public.t:DEFAULT"))
        with pytest.raises(LockTimeoutError):
            set_identities(connection, [T], _rules("public.t:FULL"))
    assert _identity(database) == "d"


def test_a_table_that_no_entry_is_for_or_that_is_not_captured_stays(database: Database, connection: Connection) -> None:
    database.execute("CREATE TABLE u (id int PRIMARY KEY)")
    set_identities(connection, [T], _rules("public.u:FULL,t:FULL"))
    assert (_identity(database), _identity(database, "u")) == ("d", "d")


def test_nothing_is_altered_where_two_entries_are_for_one_table(database: Database, connection: Connection) -> None:
    database.execute("CREATE TABLE a (id int PRIMARY KEY)")
    with pytest.raises(ConfigurationError, match=r"several entries for public\.t"):
        set_identities(connection, [TableName("public", "a"), T], _rules("public.*:FULL,public.t:DEFAULT"))
    assert _identity(database, "a") == "d"


@pytest.mark.parametrize("name", ["i", "gone", "u_v"])
def test_an_index_that_the_table_does_not_have_is_an_error(
    database: Database, connection: Connection, name: str
) -> None:
    database.execute("CREATE TABLE u (v int NOT NULL)", "CREATE UNIQUE INDEX u_v ON u (v)")
    with pytest.raises(ReplicaIdentityError, match=r"public\.t has no index"):
        set_identities(connection, [T], _rules(f"public.t:INDEX {name}"))


def test_all_partitions_get_the_identity_each_by_its_own_part_of_the_index(
    database: Database, connection: Connection
) -> None:
    database.execute(
        "CREATE TABLE root (id int NOT NULL, v int NOT NULL) PARTITION BY RANGE (id)",
        "CREATE TABLE middle PARTITION OF root FOR VALUES FROM (0) TO (9) PARTITION BY RANGE (id)",
        "CREATE TABLE leaf PARTITION OF middle FOR VALUES FROM (0) TO (5)",
        "CREATE UNIQUE INDEX parts ON root (id, v)",
    )
    root = TableName("public", "root")
    for value in ("FULL", "INDEX parts"):
        set_identities(connection, [root], _rules(f"public.root:{value}"))
        assert identity_changes(connection, [root], _rules(f"public.root:{value}")) == ()
        assert {_identity(database, table)[0] for table in ("root", "middle", "leaf")} == {value[0].lower()}
    assert _identity(database, "leaf") == "i leaf_id_v_idx"


def test_a_table_of_somebody_else_stays_with_a_word_in_the_log_and_the_others_are_set(
    database: Database,
    connection: Connection,
    role: Callable[[str], ConnectionSettings],
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings = role("")
    database.execute("CREATE TABLE own (id int PRIMARY KEY)", f"ALTER TABLE own OWNER TO {settings.user}")
    with closing(connect(settings)) as stranger, caplog.at_level(logging.WARNING, "walhouse"):
        set_identities(stranger, [T, TableName("public", "own")], _rules("public.*:FULL"))
    assert (_identity(database), _identity(database, "own")) == ("d", "f")
    (record,) = caplog.records
    assert "does not own" in record.getMessage()
    assert record.__dict__["fields"] == {"table": "public.t", "wanted": "FULL"}
