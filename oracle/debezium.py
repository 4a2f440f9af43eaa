"""Debezium's side: its engine in one Java process, one run for each slot.

Invariant: a run begins at its slot's position with ``snapshot.mode`` no_data and ends at the marker message, so that
its records are exactly those of the scenario.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from psycopg.conninfo import conninfo_to_dict

from fixtures.debezium import compile_program, java

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

END: Final = "oracle-end"
"""Prefix of the message that ends a run; DebeziumTap.java looks for it."""

PREFIX: Final = "p"

_PROPERTIES: Final = {
    "name": "oracle",
    "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
    "offset.storage": "org.apache.kafka.connect.storage.MemoryOffsetBackingStore",
    "offset.flush.interval.ms": "60000",
    "plugin.name": "pgoutput",
    "publication.autocreate.mode": "disabled",
    "snapshot.mode": "no_data",
    "topic.prefix": PREFIX,
    "converter.schemas.enable": "false",
    "header.converter.schemas.enable": "false",
}


@dataclass
class Tap:
    """The Java process."""

    folder: Path
    process: subprocess.Popen[str]

    @classmethod
    def start(cls, folder: Path) -> Self:
        """Compile, and start the process. ``folder`` keeps the jars."""
        folder.mkdir(parents=True, exist_ok=True)
        class_path = compile_program(Path(__file__).parent / "java" / "DebeziumTap.java", folder)
        command = [java("java"), "-Xmx1g", "-Duser.timezone=UTC", "-XX:TieredStopAtLevel=1", "-cp", class_path]
        log = (folder / "debezium.log").open("w")
        process = subprocess.Popen(
            [*command, "DebeziumTap"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
        )
        return cls(folder, process)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()

    def events(self, dsn: str, slot: str, publication: str, properties: Mapping[str, str]) -> tuple[str, ...]:
        """The records of one run, as lines of JSON. Raises RuntimeError with the engine's word if it fails."""
        facts = conninfo_to_dict(dsn)
        written = {
            **_PROPERTIES,
            "database.hostname": facts["host"],
            "database.port": facts["port"],
            "database.user": facts["user"],
            "database.password": facts["password"],
            "database.dbname": facts["dbname"],
            "slot.name": slot,
            "publication.name": publication,
            **properties,
        }
        file, output = self.folder / "debezium.properties", self.folder / "events.jsonl"
        file.touch(mode=0o600)
        escaped = {name: str(value).replace("\\", "\\\\") for name, value in written.items()}
        file.write_text("".join(f"{name}={value}\n" for name, value in escaped.items()), encoding="utf-8")
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{file}\t{output}\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().strip() or "failed: the process ended"
        if answer != "ok":
            raise RuntimeError(f"Debezium's engine {answer}. See {self.folder / 'debezium.log'}.")
        return tuple(output.read_text(encoding="utf-8").split("\n")[:-1])
