"""The measurement: the same source, the same WAL, one after the other, both warm.

What is timed, on each side. Debezium: from its first event to its last, so that connecting and starting are left out,
and it writes nowhere. walhouse: from the call to its return, so that all is in; what it captured is in Delta then.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg import sql

from benchmarks import debezium
from benchmarks.debezium import DebeziumEngine
from benchmarks.lag import longest_lag, steady_writer
from benchmarks.lake import SLOT, LakeProcess, Step
from benchmarks.processes import Cost, ProcessMeter, can_measure
from benchmarks.table import Source, count_rows, create_slot, create_table, drop_slot, make_changes
from benchmarks.transactions import longest_transaction

if TYPE_CHECKING:
    from pathlib import Path

    from fixtures.server import EmbeddedServer

Say = Callable[[str], None]
SNAPSHOT_STEPS: Final[tuple[Step, ...]] = ("capture", "silver", "gold")
STREAM_STEPS: Final[tuple[Step, ...]] = ("capture", "run")
CHUNK_SIZES: Final = {"default": 1024, "large": 20480}
"""Rows of Debezium's chunks: its default, and a size beyond which it gets no faster. walhouse's are of the default."""
_SMALL_PASS: Final = 1_000
_SMALL_PASSES: Final = 5
_SMALL_WARM_UP: Final = 10
"""Small passes before these: what they run is other code than what large ones do, and has to be warm, too."""


@dataclass(frozen=True)
class Phase:
    """One measured phase: rows or changes, seconds, and the cost of the side's own processes and of the server's."""

    count: int
    seconds: float
    own: Cost | None
    server: Cost | None

    @property
    def rate(self) -> float:
        """Rows or changes a second."""
        return self.count / self.seconds


@dataclass
class Measurement:
    """All phases by name (``debezium_snapshot``, ``walhouse_capture_stream`` ...), and the seconds of small passes.

    ``first``: the same phases in the first round of the warm-up, in processes that just began.
    """

    rows: int
    changes: int
    warm_up: int
    rounds: int
    writer: str = "arrow"
    """``lake.writer`` of walhouse's lake."""
    phases: dict[str, Phase] = field(default_factory=dict)
    first: dict[str, Phase] = field(default_factory=dict)
    small_pass: dict[str, float] = field(default_factory=dict)
    longest_transaction: dict[str, float] = field(default_factory=dict)
    """Seconds, of an incremental snapshot's sessions."""
    longest_lag: dict[str, float] = field(default_factory=dict)
    """Seconds that a commit waited to be in bronze, without a snapshot and during one."""

    def raw(self) -> dict[str, Any]:
        """All figures, as JSON has them."""
        return {name: {**asdict(phase), "rate": phase.rate} for name, phase in self.phases.items()}


class Bench:
    """Both sides on one server."""

    def __init__(self, folder: Path, server: EmbeddedServer, measurement: Measurement, say: Say) -> None:
        self._server = server
        self._say = say
        self._engine = DebeziumEngine.open(folder)
        self._lake = LakeProcess.start(folder, measurement.writer)
        self._result = measurement

    def run(self) -> None:
        """Warm up, then measure snapshot, stream and small passes."""
        with self._engine, self._lake:
            each = self._result.warm_up
            for number in range(1, self._result.rounds + 1):
                self._say(f"Warm-up {number} of {self._result.rounds}: {each:,} rows and changes through both")
                warm = self._source(f"warm{number}", each)
                self._both(warm, each, each, self._result.first if number == 1 else {})
                drop_slot(warm, f"{SLOT}_{warm.database}")
            source = self._source("main", self._result.rows)
            self._both(source, self._result.rows, self._result.changes, self._result.phases)
            self._small_passes(source)
            self._lag(source)

    def _both(self, source: Source, rows: int, changes: int, phases: dict[str, Phase]) -> None:
        engine, lake = self._engine, self._lake

        def measure(name: str, count: int, side: int, work: Callable[[], float]) -> None:
            seconds, own, server = self._measured(side, work)
            phases[name] = phase = Phase(count, seconds, own, server)
            self._say(f"{name:<26} {count:>11,} in {seconds:8.2f} s  {phase.rate:>11,.0f} /s")

        def snapshot() -> float:
            run = engine.snapshot(source, rows)
            return run.to_last - run.to_first

        def stream() -> float:
            run = engine.stream(source, changes)
            return run.to_last - run.to_first

        java, python = engine.process.pid, lake.process.pid
        measure("debezium_snapshot", rows, java, snapshot)
        for step in SNAPSHOT_STEPS:
            measure(f"walhouse_{step}_snapshot", rows, python, lambda step=step: lake.run(source, step))  # type: ignore[misc]  # a default is no inference
        create_slot(source, debezium.SLOT)
        self._say(f"Making {changes:,} changes in {source.database}")
        make_changes(source, changes)
        for step in STREAM_STEPS:
            measure(f"walhouse_{step}_stream", changes, python, lambda step=step: lake.run(source, step))  # type: ignore[misc]  # a default is no inference
        measure("debezium_stream", changes, java, stream)
        self._incremental(source, measure)

    def _incremental(self, source: Source, measure: Callable[[str, int, int, Callable[[], float]], None]) -> None:
        """The table once more, by chunks, as a signal asks for it."""
        engine, lake = self._engine, self._lake
        rows = count_rows(source)

        def watched(name: str, work: Callable[[], float]) -> Callable[[], float]:
            def run() -> float:
                with longest_transaction(source.dsn) as longest:
                    seconds = work()
                self._result.longest_transaction |= {name: longest.seconds, f"{name}_slot": longest.of_slot}
                return seconds

            return run

        def by_signal(chunk_size: int) -> float:
            run = engine.incremental(source, rows, chunk_size)
            return run.to_last - run.to_first

        measure(
            "walhouse_incremental", rows, lake.process.pid, watched("walhouse", lambda: lake.run(source, "incremental"))
        )
        for name, size in CHUNK_SIZES.items():
            measure(
                f"debezium_incremental_{name}",
                rows,
                engine.process.pid,
                watched(f"debezium_{name}", partial(by_signal, size)),
            )

    def _small_passes(self, source: Source) -> None:
        seconds: dict[str, list[float]] = {step: [] for step in STREAM_STEPS}
        for _ in range(_SMALL_WARM_UP + _SMALL_PASSES):
            make_changes(source, _SMALL_PASS)
            for step in STREAM_STEPS:
                seconds[step].append(self._lake.run(source, step))
        self._result.small_pass = {step: statistics.median(each[_SMALL_WARM_UP:]) for step, each in seconds.items()}

    def _lag(self, source: Source) -> None:
        """Of the stream while it is all there is to do, and while the table is read by chunks."""
        lake = self._lake

        def watched(work: Callable[[], object]) -> float:
            first = len(lake.passes)
            with steady_writer(source) as written:
                work()
            return longest_lag(written, lake.passes[first:])

        self._result.longest_lag = {
            "stream_alone": watched(lambda: [lake.run(source, "capture") for _ in range(_SMALL_PASSES)]),
            "during_snapshot": watched(lambda: lake.run(source, "incremental")),
        }
        for name, seconds in self._result.longest_lag.items():
            self._say(f"longest lag, {name:<25} {seconds:8.2f} s")

    def _measured(self, side: int, work: Callable[[], float]) -> tuple[float, Cost | None, Cost | None]:
        if not can_measure():
            return work(), None, None
        with ExitStack() as meters:
            own = meters.enter_context(ProcessMeter(side))
            server = meters.enter_context(ProcessMeter(self._server_pid()))
            seconds = work()
        return seconds, own.measured, server.measured

    def _server_pid(self) -> int:
        return int((self._server.data / "postmaster.pid").read_text().split(maxsplit=1)[0])

    def _source(self, database: str, rows: int) -> Source:
        with psycopg.connect(self._server.dsn(), autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(database)))
        source = Source(database, self._server.dsn(database))
        create_table(source, rows)
        return source
