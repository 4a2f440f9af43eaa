"""What operators do to one source and one lake, in random order: in the end gold is the source, and silver tells how.

One short case in the suite; more by ``make random OPERATIONS=40 SEED=1``. Each step chooses by a number of its own
among what is there, so that a case that fails can be made shorter: ``ONLY=3,7,12`` does just these of its steps.
"""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING, Final

import psycopg
import pytest

from tests.e2e.operating import changes, commands, ddl
from tests.e2e.operating.checks import all_is_well
from tests.e2e.operating.world import SCHEMA, SCHEMA_SINCE_18, World, is_since_18
from tests.fixtures_house import houses
from tests.fixtures_server import database_on, drop_slots, server_of_its_own

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from fixtures.server import EmbeddedServer
    from walhouse.lakehouse.layout import LakeLayout

pytestmark = [pytest.mark.server, pytest.mark.spark]

_FIRST: Final = int(os.environ.get("WALHOUSE_RANDOM_SEED", "2"))
_CASES: Final = int(os.environ.get("WALHOUSE_RANDOM_OPERATIONS", "1"))
_STEPS: Final = int(os.environ.get("WALHOUSE_RANDOM_STEPS", "8"))
_ONLY: Final = {int(number) for number in os.environ.get("WALHOUSE_RANDOM_ONLY", "").split(",") if number}

STEPS: Final[dict[Callable[[World, random.Random], None], int]] = {
    changes.rows: 26,
    ddl.move_table: 2,
    ddl.without_columns: 2,
    changes.rolled_back: 2,
    changes.session: 6,
    changes.session_ends: 4,
    changes.prepared_ends: 2,
    ddl.add_column: 3,
    ddl.drop_column: 2,
    ddl.rename_column: 2,
    ddl.retype_column: 2,
    ddl.rename_label: 1,
    ddl.new_table: 3,
    ddl.drop_table: 1,
    ddl.made_again: 2,
    ddl.rename_table: 2,
    ddl.swap_tables: 2,
    ddl.identity: 2,
    ddl.primary_key: 2,
    ddl.foreign_key: 2,
    ddl.partition: 3,
    ddl.unlogged: 2,
    ddl.rewrite: 2,
    commands.command: 21,
    commands.published_part: 3,
    commands.published_operations: 2,
    commands.killed: 8,
    commands.another_process: 2,
    commands.rebuild: 3,
    commands.snapshot: 7,
    commands.signal: 3,
    commands.verify: 2,
    commands.look: 1,
    commands.configuration: 4,
    commands.tidy: 2,
    commands.restore: 1,
    commands.restart: 1,
    commands.slot_lost: 1,
    commands.publication: 2,
}


@pytest.fixture(scope="module")
def own_server() -> Iterator[EmbeddedServer]:
    with server_of_its_own() as server:
        yield server


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(_FIRST, _FIRST + _CASES))
def test_gold_is_the_source_after_whatever_operators_did_in_random_order(
    seed: int,
    spark: SparkSession,
    own_server: EmbeddedServer,
    lake: LakeLayout,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("walhouse.ops.retry.AT_ONCE", 1)  # nobody lets go meanwhile
    monkeypatch.setattr("walhouse.postgres.connection.LOCK_TIMEOUT_SECONDS", 1.0)
    chance = random.Random(seed)
    plan = [(step, chance.getrandbits(32)) for step in chance.choices(list(STEPS), list(STEPS.values()), k=_STEPS)]
    database = database_on(own_server)
    database.execute(*SCHEMA, *(SCHEMA_SINCE_18 if is_since_18(database) else ()))
    with houses(spark, database, lake, tmp_path) as make:
        world = World(own_server, database, spark, lake, make, tmp_path)
        try:
            commands.begin(world, chance)
            for number, (step, own) in enumerate(plan):
                if not _ONLY or number in _ONLY:
                    world.say(f"{number} {step.__name__}")
                    step(world, random.Random(own))
            all_is_well(world, retells=_STEPS > 8)
        finally:
            for conn in world.open:
                conn.close()
    with psycopg.connect(own_server.dsn(), autocommit=True) as admin:
        for (prepared,) in admin.execute("SELECT gid FROM pg_prepared_xacts").fetchall():
            with database.connect() as conn:
                conn.execute(f"ROLLBACK PREPARED '{prepared}'".encode())
        drop_slots(admin, database.name)
        admin.execute(f"DROP DATABASE {database.name} WITH (FORCE)".encode())
