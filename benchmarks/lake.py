"""walhouse's side: capture, silver and gold into a local Delta lake, in a process of their own."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, Self

import yaml
from psycopg.conninfo import conninfo_to_dict

from benchmarks.lag import Moment
from benchmarks.table import TABLE, Source

if TYPE_CHECKING:
    from types import TracebackType

Step = Literal["capture", "silver", "gold", "run", "incremental"]
"""What a house does; ``run`` after ``capture`` applies silver and gold, both at once; ``incremental`` reads the table
once more into bronze."""
SLOT: Final = "bench_walhouse"
_ROOT: Final = Path(__file__).resolve().parent.parent


@dataclass
class LakeProcess:
    """The process; ``folder`` gets a configuration and a lake for each source."""

    folder: Path
    process: subprocess.Popen[str]
    writer: str
    passes: list[Moment] = field(default_factory=list)
    """All passes of bronze so far, each with the time at which it was durable."""

    @classmethod
    def start(cls, folder: Path, writer: str = "arrow") -> Self:
        """Start it. Spark starts with the first step. ``writer``: ``lake.writer``."""
        log = (folder / "walhouse.log").open("w")
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.lake_process"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, cwd=_ROOT,
        )  # fmt: skip
        return cls(folder, process, writer)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(60)

    def run(self, source: Source, step: Step) -> float:
        """Seconds that the step took, from the call to its return: what it read is durable then."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{self._configuration(source)} {step}\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError(f"walhouse ended. See {self.folder / 'walhouse.log'}.")
        facts = json.loads(answer)
        self.passes += [Moment(*each) for each in facts["passes"]]
        return float(facts["seconds"])

    def _configuration(self, source: Source) -> Path:
        facts = conninfo_to_dict(source.dsn)
        password = self.folder / "password"
        password.touch(mode=0o600)
        password.write_text(str(facts["password"]))
        connector = {
            "topic.prefix": "bench",
            "database.hostname": facts["host"],
            "database.port": int(str(facts["port"])),
            "database.user": facts["user"],
            "database.password": "${file:password}",
            "database.dbname": facts["dbname"],
            "slot.name": f"{SLOT}_{source.database}",
            "publication.name": SLOT,
            "publication.autocreate.mode": "filtered",
            "table.include.list": TABLE.replace(".", "\\."),
        }
        file = self.folder / f"{source.database}.yml"
        lake = {"path": f"lake-{source.database}", "writer": self.writer}
        lake |= {layer: f"{layer}_{source.database}" for layer in ("bronze", "silver", "gold", "ops")}
        file.write_text(yaml.safe_dump({"connector": connector, "lake": lake}))
        return file
