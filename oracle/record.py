"""Running a scenario on a real server: one database, one slot for walhouse, one for each variant of Debezium's.

Invariant: all slots are made before the first change and after the last statement of the set-up, with nothing written
between, so that all of them see the same transactions.
"""

from __future__ import annotations

import re
import time
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from oracle.debezium import END, debezium_events
from oracle.recording import Recording, SnapshotChunk, Variant
from oracle.replay import types_of_altered_columns
from walhouse.config.connection import ConnectionSettings
from walhouse.config.filters import NameFilter, TableFilter
from walhouse.config.secrets import Secret
from walhouse.lsn import Lsn
from walhouse.postgres.catalog import read_relations, read_types
from walhouse.postgres.connection import connect
from walhouse.postgres.peek import peek_blocks
from walhouse.postgres.slot import created_slot, find_slot
from walhouse.postgres.snapshot import chunk_blocks, imported_snapshot, plan_chunks
from walhouse.postgres.wal import insert_lsn, wait_flushed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fixtures.debezium import EngineProcess
    from oracle.scenario import Scenario
    from walhouse.pgoutput.relation import RelationDescription

PUBLICATION: Final = "oracle"
IMPATIENT: Final = "-c lock_timeout=100ms"
"""What a prepared transaction keeps waiting is refused."""
REFUSED = (
    psycopg.errors.IntegrityError,
    psycopg.errors.InFailedSqlTransaction,
    psycopg.errors.InvalidSavepointSpecification,  # its SAVEPOINT came after what was refused
    psycopg.errors.UndefinedObject,  # so did what was to be prepared
    psycopg.errors.LockNotAvailable,  # what is prepared has the row
)
"""What the server answers to a random key that is there already or is being written, and to the rest of such a
transaction."""
_CHUNK_PAGES = 1
"""So few that a small table already has several chunks."""


def record(dsn: str, tap: EngineProcess, scenario: Scenario) -> Recording:
    """Run it in a new database, which is dropped afterwards."""
    name = f"oracle_{re.sub('[^a-z0-9]', '_', scenario.name.lower())}"[:63]
    with new_database(dsn, name) as database:
        return _Run(database, name, tap, scenario).recording()


def change(client: psycopg.Connection[Any], scenario: Scenario, statement: str) -> None:
    """A statement of the scenario's, which the server may refuse if the scenario says so."""
    try:
        client.execute(statement.encode())
    except REFUSED:
        if not scenario.may_be_refused:
            raise


@contextmanager
def new_database(dsn: str, name: str) -> Iterator[str]:
    """The DSN of a database that is there while the context lasts, with its slots."""
    with psycopg.connect(dsn, autocommit=True) as admin:
        _drop(admin, name)  # an earlier run may have been killed
        admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        try:
            yield make_conninfo(dsn, dbname=name)
        finally:
            _drop(admin, name)


def _drop(admin: psycopg.Connection[Any], database: str) -> None:
    """The database, its slots, whoever reads them, and what was prepared there."""
    prepared = admin.execute("SELECT gid FROM pg_prepared_xacts WHERE database = %s", [database]).fetchall()
    if prepared:
        there = make_conninfo(admin.info.dsn, password=admin.info.password, dbname=database)
        with psycopg.connect(there, autocommit=True) as inside:
            for (name,) in prepared:
                inside.execute(sql.SQL("ROLLBACK PREPARED {}").format(sql.Literal(name)))
    admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [database])
    for (slot,) in admin.execute("SELECT slot_name FROM pg_replication_slots WHERE database = %s", [database]):
        _drop_slot(admin, slot)
    admin.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(database)))


def _drop_slot(admin: psycopg.Connection[Any], slot: str) -> None:
    """A reader that was ended needs a moment to let go; a temporary slot goes with its session."""
    deadline = time.monotonic() + 20
    while True:
        try:
            admin.execute("SELECT pg_drop_replication_slot(%s)", [slot])
        except psycopg.errors.ObjectInUse:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        except psycopg.errors.UndefinedObject:
            return
        else:
            return


class _Run:
    def __init__(self, dsn: str, database: str, tap: EngineProcess, scenario: Scenario) -> None:
        self.dsn = dsn
        self.tap = tap
        self.scenario = scenario
        facts: dict[str, Any] = conninfo_to_dict(dsn)
        self.settings = ConnectionSettings(
            host=facts["host"],
            port=int(facts["port"]),
            user=facts["user"],
            password=Secret(facts["password"]),
            database=database,
        )

    def recording(self) -> Recording:
        """Set up, change, then read: walhouse's frames and catalog, and Debezium's records."""
        with psycopg.connect(self.dsn, autocommit=True, options=IMPATIENT) as client:
            for statement in self.scenario.setup:
                client.execute(statement.encode())
            client.execute(f"CREATE PUBLICATION {PUBLICATION} {self.scenario.publication}".encode())
            start = self._slot(client, f"{self.settings.database[:50]}_walhouse")
            slots = {
                variant: f"{self.settings.database[:50]}_{number}"
                for number, variant in enumerate(self.scenario.variants)
            }
            for slot in slots.values():
                self._slot(client, slot)
            for statement in self.scenario.changes:
                change(client, self.scenario, statement)
            client.execute("SELECT pg_logical_emit_message(false, %s, '')", [END])  # of no transaction: it adds none
            client.execute("SELECT pg_current_xact_id()")  # its commit wakes who flushes what was written so far
        with connect(self.settings) as connection:
            end = wait_flushed(connection, insert_lsn(connection))
            everything = NameFilter((), ())
            selection = TableFilter(everything, everything, everything)
            relations = tuple(read_relations(connection, PUBLICATION, selection).values())
            types = read_types(connection)
            found = connection.execute("SELECT pg_current_xact_id()::text::int8").fetchone()
            assert found is not None
            server = str(connection.info.server_version)
            own_slot = find_slot(connection, f"{self.settings.database[:50]}_walhouse")
        frames = tuple(
            block
            for blocks in peek_blocks(self.settings, f"{self.settings.database[:50]}_walhouse", PUBLICATION, end)
            for block in blocks
        )
        how = {"snapshot.mode": "initial"} if self.scenario.is_snapshot else {}
        variants = {
            variant: Variant(
                dict(properties),
                debezium_events(self.tap, self.dsn, slots[variant], PUBLICATION, {**properties, **how}),
            )
            for variant, properties in self.scenario.variants.items()
        }
        recording = Recording(
            name=self.scenario.name,
            server=server,
            database=self.settings.database,
            start=int(start),
            end=int(end),
            next_xid=int(found[0]),
            slot_xmin=None if own_slot is None else own_slot.catalog_xmin,
            frames=frames,
            relations=relations,
            variants=variants,
            snapshot=tuple(self._snapshot(relations)) if self.scenario.is_snapshot else (),
            types=types,
        )
        needed = types_of_altered_columns(recording)
        return replace(recording, types={oid: facts for oid, facts in types.items() if oid in needed})

    def _snapshot(self, relations: Iterable[RelationDescription]) -> Iterator[SnapshotChunk]:
        """The chunks of all tables, as walhouse's own snapshot reads them."""
        with (
            created_slot(self.settings, f"{self.settings.database[:50]}_snapshot", temporary=True) as exported,
            imported_snapshot(self.settings, exported.name) as reading,
        ):
            for relation in relations:
                for chunk in plan_chunks(reading, relation, _CHUNK_PAGES, publication=PUBLICATION):
                    blocks = chunk_blocks(self.settings, exported.name, relation, chunk)
                    yield SnapshotChunk(relation.oid, chunk.number, tuple(chain.from_iterable(blocks)))

    @staticmethod
    def _slot(client: psycopg.Connection[Any], name: str) -> Lsn:
        row = client.execute("SELECT lsn FROM pg_create_logical_replication_slot(%s, 'pgoutput')", [name]).fetchone()
        assert row is not None
        return Lsn.parse(row[0])
