"""What keeps a table as it is between a snapshot and its reading."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

import pytest

from tests.postgres.wire import texts
from walhouse.config.filters import TableFilter
from walhouse.errors import LockTimeoutError, SnapshotLostError, SourceError
from walhouse.names import TableName
from walhouse.postgres.catalog import read_relations
from walhouse.postgres.connection import connect
from walhouse.postgres.key_chunks import KeyChunk, keyed_table, read_chunk
from walhouse.postgres.slot import created_slot
from walhouse.postgres.snapshot import Chunk, chunk_blocks, locked_tables, plan_chunks

if TYPE_CHECKING:
    from tests.fixtures_server import Database
    from walhouse.pgoutput.relation import RelationDescription

pytestmark = pytest.mark.server

T = TableName("public", "t")


def relation_and_chunk(database: Database) -> tuple[RelationDescription, Chunk]:
    with closing(connect(database.settings)) as connection:
        (relation,) = read_relations(connection, "p", TableFilter()).values()
        (chunk,) = plan_chunks(connection, relation, 10, publication="p")
    return relation, chunk


@pytest.mark.parametrize("statement", ["ALTER TABLE t ALTER v TYPE text", "TRUNCATE t", "CLUSTER t USING t_pkey"])
def test_locks_keep_out_what_would_change_rows_without_an_event(database: Database, statement: str) -> None:
    """A rewrite or a TRUNCATE between a snapshot and its reading leaves few or no rows to be seen, and no event."""
    database.execute(
        "CREATE TABLE t (id int PRIMARY KEY, v varchar(9))",
        "CREATE PUBLICATION p FOR TABLE t",
        "INSERT INTO t VALUES (1)",
    )
    relation, chunk = relation_and_chunk(database)
    with ExitStack() as stack:
        holder = stack.enter_context(locked_tables(database.settings, [T]))
        exported = stack.enter_context(created_slot(database.settings, f"{database.name}_x", temporary=True))
        with pytest.raises(Exception, match="lock timeout"):
            database.execute("SET lock_timeout = '200ms'", statement)
        blocks = chunk_blocks(database.settings, exported.name, relation, chunk, lock_holder=holder)
        assert len(texts(blocks)) == 1
    database.execute("SET lock_timeout = '200ms'", statement)


def test_locks_of_a_partitioned_table_hold_its_leaves(database: Database) -> None:
    database.execute(
        "CREATE TABLE root (id int PRIMARY KEY) PARTITION BY RANGE (id)",
        "CREATE TABLE one PARTITION OF root FOR VALUES FROM (0) TO (10)",
    )
    with (
        locked_tables(database.settings, [TableName("public", "root")]),
        pytest.raises(Exception, match="lock timeout"),
    ):
        database.execute("SET lock_timeout = '200ms'", "TRUNCATE one")


def test_a_table_that_is_locked_elsewhere_is_named_with_the_process(database: Database) -> None:
    database.execute("CREATE TABLE t (id int)")
    with database.connect() as other, other.transaction():
        other.execute("LOCK TABLE t")
        with (
            pytest.raises(LockTimeoutError, match=r"public\.t") as caught,
            locked_tables(database.settings, [T], lock_timeout_seconds=0.2),
        ):
            pass
        assert caught.value.fields["pids"] == [other.info.backend_pid]


def test_a_table_that_a_prepared_transaction_has_locked_is_named_with_it(database: Database) -> None:
    """Nobody would find it by a process: none has it any more."""
    database.execute(
        "CREATE TABLE t (id int PRIMARY KEY)",
        "CREATE PUBLICATION p FOR TABLE t",
        "INSERT INTO t VALUES (1)",
    )
    prepared = f"emptied {database.name}"
    with closing(connect(database.settings, lock_timeout_seconds=0.2)) as connection:
        (relation,) = read_relations(connection, "p", TableFilter()).values()
        table = keyed_table(connection, relation, relation.row_key, publication="p", condition=None)
        database.execute(f"BEGIN; TRUNCATE t; PREPARE TRANSACTION '{prepared}'")
        try:
            told = rf"public\.t .*: the prepared transactions '{prepared}' in {database.name} have"
            with (
                pytest.raises(LockTimeoutError, match=told),
                locked_tables(database.settings, [T], lock_timeout_seconds=0.2),
            ):
                pass
            with pytest.raises(LockTimeoutError, match=told):
                list(read_chunk(connection, KeyChunk(table, 0, None, ("1",)), on_standby=False))
        finally:
            database.execute(f"ROLLBACK PREPARED '{prepared}'")


def test_who_locks_the_tables_in_another_order_is_somebody_to_wait_for(database: Database) -> None:
    """A migration that alters two tables in one transaction, for one: the server ends either it or us."""
    database.execute("CREATE TABLE a (id int)", "CREATE TABLE z (id int)")
    refusals: list[Exception] = []

    def lock() -> None:
        with (
            pytest.raises(SourceError) as caught,
            locked_tables(database.settings, [TableName("public", "a"), TableName("public", "z")]),
        ):
            pass
        refusals.append(caught.value)

    locking = threading.Thread(target=lock)
    waits = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'z'::regclass"
    with database.connect() as other, other.transaction():
        other.execute("SET LOCAL deadlock_timeout = '1h'")  # so it is us
        other.execute("LOCK TABLE z")
        locking.start()
        while database.execute(waits) != [(1,)]:
            time.sleep(0.02)
        other.execute("LOCK TABLE a")
        locking.join()
    assert [type(refusal) for refusal in refusals] == [LockTimeoutError]


def test_locks_that_were_lost_meanwhile_are_an_error_at_the_end(database: Database) -> None:
    database.execute("CREATE TABLE t (id int)")
    with pytest.raises(SourceError), locked_tables(database.settings, [T]):
        database.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE relation = 't'::regclass AND mode = 'AccessShareLock'"
        )


def test_a_chunk_that_was_read_without_its_lock_is_an_error_before_its_rows_count(database: Database) -> None:
    """Even if the very process holds the lock again, in another transaction."""
    database.execute(
        "CREATE TABLE t (id int PRIMARY KEY)", "CREATE PUBLICATION p FOR TABLE t", "INSERT INTO t VALUES (1)"
    )
    relation, chunk = relation_and_chunk(database)
    with (
        database.connect() as other,
        created_slot(database.settings, f"{database.name}_x", temporary=True) as exported,
        locked_tables(database.settings, [T]) as holder,
    ):
        other.execute("BEGIN")
        other.execute("LOCK TABLE t IN ACCESS SHARE MODE")
        for wrong in (holder._replace(pid=other.info.backend_pid), holder._replace(transaction="99/9")):
            with pytest.raises(SnapshotLostError) as caught:
                list(chunk_blocks(database.settings, exported.name, relation, chunk, lock_holder=wrong))
            assert caught.value.fields["table"] == "public.t"
        list(chunk_blocks(database.settings, exported.name, relation, chunk, lock_holder=holder))
        other.execute("ROLLBACK")
