"""Debezium's side: its engine in one Java process, one run for each slot.

Invariant: a run begins at its slot's position with ``snapshot.mode`` no_data and ends at the marker message, so that
its records are exactly those of the scenario.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from fixtures.debezium import EngineProcess

if TYPE_CHECKING:
    from collections.abc import Mapping

END: Final = "oracle-end"
"""Prefix of the message that ends a run; DebeziumTap.java looks for it."""

PREFIX: Final = "p"

_PROPERTIES: Final = {
    "name": "oracle",
    "snapshot.mode": "no_data",
    "topic.prefix": PREFIX,
    "header.converter.schemas.enable": "false",
}


def start_tap(folder: Path) -> EngineProcess:
    """The Java process. ``folder`` keeps the jars. Most runs are short: the first compiler is enough."""
    program = Path(__file__).parent / "java" / "DebeziumTap.java"
    return EngineProcess.start(program, folder, "-Xmx1g", "-XX:TieredStopAtLevel=1")


def debezium_events(
    tap: EngineProcess, dsn: str, slot: str, publication: str, properties: Mapping[str, str]
) -> tuple[str, ...]:
    """The records of one run, as lines of JSON. Raises RuntimeError with the engine's word if it fails."""
    file = tap.write_properties(dsn, slot, publication, {**_PROPERTIES, **properties})
    output = tap.folder / "events.jsonl"
    answer = tap.ask(f"{file}\t{output}") or "failed: the process ended"
    if answer != "ok":
        raise RuntimeError(f"Debezium's engine {answer}. See {tap.folder / 'debezium.log'}.")
    return tuple(output.read_text(encoding="utf-8").split("\n")[:-1])
