"""A scenario followed pass by pass, by the engine and by walhouse side by side.

Where a recording is replayed, both read the catalog after the last change. Here each looks while tables are altered, as
it does for its users.
Invariant: the next pass is made when both have what was written before.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import psycopg
import yaml
from psycopg.conninfo import conninfo_to_dict

from oracle.compare import differences
from oracle.debezium import END, PREFIX, debezium_events
from oracle.record import PUBLICATION, change, new_database
from walhouse.api import Walhouse

if TYPE_CHECKING:
    from collections.abc import Mapping
    from concurrent.futures import Future

    from pyspark.sql import SparkSession

    from fixtures.debezium import EngineProcess
    from oracle.scenario import Scenario

_CONVERTERS: Final = "converter."
"""Properties that the converter has, and ``walhouse events`` as options."""

_SEEN_SECONDS: Final = 1.0
"""What the engine needs to look at the catalog, once it has been sent what was written."""

_PATIENCE_SECONDS: Final = 30.0


def follow(
    spark: SparkSession, dsn: str, tap: EngineProcess, scenario: Scenario, properties: Mapping[str, str]
) -> tuple[int, list[str]]:
    """How many records the engine gave, and how walhouse's differ, as they came and made anew.

    Raises RuntimeError if the engine fails, what walhouse raises, and psycopg.Error.
    """
    name = f"live_{scenario.name}"[:40]
    with ExitStack() as stack:
        database = stack.enter_context(new_database(dsn, name))
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="walhouse-live-")))
        client = stack.enter_context(psycopg.connect(database, autocommit=True))
        house = Walhouse.open(_configuration(folder, database, name, properties), spark)
        stack.callback(_forget, spark, house)
        stack.callback(house.close)
        for statement in scenario.setup:
            client.execute(statement.encode())
        client.execute(f"CREATE PUBLICATION {PUBLICATION} {scenario.publication}".encode())
        house.capture()
        slot = f"{name}_engine"
        client.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [slot])
        with ThreadPoolExecutor(1) as pool:
            engine = pool.submit(debezium_events, tap, database, slot, PUBLICATION, properties)
            try:
                for statements in scenario.passes:
                    _await_sent(client, slot, engine)  # the engine is there
                    for statement in statements:
                        change(client, scenario, statement)
                    _await_sent(client, slot, engine)
                    time.sleep(_SEEN_SECONDS)
                    house.capture()
                    house.silver()
            finally:
                client.execute("SELECT pg_logical_emit_message(false, %s, '')", [END])
                client.execute("SELECT pg_current_xact_id()")
            theirs = engine.result()
        return len(theirs), _differences(house, theirs, properties)


def _await_sent(client: psycopg.Connection[Any], slot: str, engine: Future[Any]) -> None:
    client.execute("SELECT pg_current_xact_id()")  # its commit wakes who flushes what was written so far
    deadline = time.monotonic() + _PATIENCE_SECONDS
    flushed = client.execute("SELECT pg_current_wal_flush_lsn()").fetchone()
    while not client.execute(
        "SELECT 1 FROM pg_replication_slots JOIN pg_stat_replication ON pid = active_pid"
        " WHERE slot_name = %s AND sent_lsn >= %s",
        [slot, *(flushed or ())],
    ).fetchone():
        if engine.done():
            engine.result()
        if time.monotonic() > deadline:
            raise RuntimeError("Debezium's engine does not read its slot.")
        time.sleep(0.05)


def _differences(house: Walhouse, theirs: tuple[str, ...], properties: Mapping[str, str]) -> list[str]:
    schemas = properties.get(f"{_CONVERTERS}schemas.enable") == "true"
    keep_nulls = properties.get(f"{_CONVERTERS}replace.null.with.default") == "false"
    ours = list(house.events(schemas=schemas, keep_nulls=keep_nulls))
    found = differences(theirs, ours)
    house.rebuild("silver", [each.table for each in house.status().tables])
    if rebuilt := differences(ours, house.events(schemas=schemas, keep_nulls=keep_nulls)):
        found += ["silver that is made anew differs:", *rebuilt]
    return found


def _configuration(folder: Path, dsn: str, name: str, properties: Mapping[str, str]) -> Path:
    facts: dict[str, Any] = conninfo_to_dict(dsn)
    (folder / "password").write_text(facts["password"])
    connector = {
        "topic.prefix": PREFIX,
        "database.hostname": facts["host"],
        "database.port": int(facts["port"]),
        "database.user": facts["user"],
        "database.password": "${file:password}",
        "database.dbname": facts["dbname"],
        "slot.name": f"{name}_walhouse",
        "publication.name": PUBLICATION,
        "publication.autocreate.mode": "disabled",
        "snapshot.mode": "no_data",
    }
    connector |= {key: value for key, value in properties.items() if not key.startswith(_CONVERTERS)}
    lake = {"path": "lake"} | {layer: f"{layer}_{name}" for layer in ("bronze", "silver", "gold", "ops")}
    file = folder / "walhouse.yml"
    file.write_text(yaml.safe_dump({"connector": connector, "lake": lake}))
    return file


def _forget(spark: SparkSession, house: Walhouse) -> None:
    """The next variant has tables of these names in another folder."""
    for schema in house.layout.schemas:
        spark.sql(f"DROP SCHEMA IF EXISTS `{schema}` CASCADE")
