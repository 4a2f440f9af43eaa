"""``python -m oracle``: compare walhouse with Debezium's engine; ``--record`` keeps what both sides are made of."""

from __future__ import annotations

import argparse
import sys
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from itertools import chain, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
from pyspark.errors import PySparkException

from oracle.compare import differences
from oracle.debezium import start_tap
from oracle.live import follow
from oracle.random_cases.alterations import ALL_WAYS, SEEN_LIVE
from oracle.random_cases.scenarios import random_scenario
from oracle.random_cases.shrinking import as_text, shrink
from oracle.record import record
from oracle.replay import replay
from oracle.scenario import FOLDER as FOLDER_OF_SCENARIOS
from oracle.scenario import LIVE, Scenario, scenarios
from oracle.server import lacking, oracle_server
from walhouse.errors import WalhouseError
from walhouse.lakehouse.session import SMALL_TABLES, local_session

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import SparkSession

    from fixtures.debezium import EngineProcess
    from oracle.recording import Recording, Variant

_AHEAD = 2
"""Recordings that are made ahead."""

FOLDER = Path(__file__).resolve().parent.parent / ".walhouse" / "oracle"


class Verdict(StrEnum):
    """What was seen of a variant."""

    EQUAL = "equal"
    DIFFERS = "differs"
    FAILED = "failed"
    """The engine, the server or walhouse gave no events."""


def main() -> int:
    """0 if nothing differs, 1 if something does, 2 if there is nothing to compare."""
    arguments = _arguments()
    if arguments.cases:
        chosen = [_random(arguments, number) for number in range(arguments.cases)]
    else:
        folder = LIVE if arguments.live else FOLDER_OF_SCENARIOS
        chosen = [each for each in scenarios(folder) if _is_meant(each, arguments)]
    if not chosen:
        print("No scenario has one of these names.")
        return 2
    with oracle_server(FOLDER / "server") as dsn:
        chosen = [scenario for scenario in chosen if _can_run(dsn, scenario)]
        return _compare_all(dsn, chosen, arguments) if chosen else 2


def _random(arguments: argparse.Namespace, number: int) -> Scenario:
    ways = SEEN_LIVE if arguments.live else ALL_WAYS
    return random_scenario(arguments.seed + number, ways, live=arguments.live)


def _is_meant(scenario: Scenario, arguments: argparse.Namespace) -> bool:
    if arguments.names:
        return scenario.name in arguments.names
    return bool(scenario.needs) or not arguments.needing


def _can_run(dsn: str, scenario: Scenario) -> bool:
    lacks = lacking(dsn, scenario.needs)
    if lacks:
        print(f"skipped  {scenario.name}  the server has no {' and no '.join(lacks)} (make oracle-pg15)", flush=True)
    return not lacks


def _compare_all(dsn: str, chosen: list[Scenario], arguments: argparse.Namespace) -> int:
    spark = local_session(settings=SMALL_TABLES)
    found: dict[str, list[Verdict]] = {}
    with start_tap(FOLDER) as tap:
        if arguments.live:
            return _told({each.name: _follow(spark, dsn, tap, each) for each in chosen})
        with ThreadPoolExecutor(1) as pool:  # the engine mostly waits: the next case is recorded meanwhile
            upcoming = deque(pool.submit(record, dsn, tap, scenario) for scenario in chosen[:_AHEAD])
            for scenario, later in zip_longest(chosen, chosen[_AHEAD:]):
                found[scenario.name] = _compare(spark, scenario, upcoming.popleft().result, keep=arguments.record)
                if later is not None:
                    upcoming.append(pool.submit(record, dsn, tap, later))
        if arguments.cases:
            for scenario in chosen:
                for verdict in set(found[scenario.name]) - {Verdict.EQUAL}:
                    _shrink(spark, dsn, tap, scenario, verdict)
    return _told(found)


def _told(found: Mapping[str, Sequence[Verdict]]) -> int:
    verdicts = list(chain.from_iterable(found.values()))
    failed = sum(verdict != Verdict.EQUAL for verdict in verdicts)
    print(f"{failed} of {len(verdicts)} variants of {len(found)} scenarios differ.")
    return min(failed, 1)


def _follow(spark: SparkSession, dsn: str, tap: EngineProcess, scenario: Scenario) -> list[Verdict]:
    verdicts = []
    for name, properties in scenario.variants.items():
        begun = time.monotonic()
        try:
            records, found = follow(spark, dsn, tap, scenario, properties)
            verdicts.append(Verdict.DIFFERS if found else Verdict.EQUAL)
        except (psycopg.Error, PySparkException, RuntimeError, WalhouseError) as error:
            records, found = 0, [str(error).splitlines()[0]]
            verdicts.append(Verdict.FAILED)
        seconds = time.monotonic() - begun
        print(f"{verdicts[-1]:<7}  {scenario.name}  {name}  ({records} records, {seconds:.1f} s)", flush=True)
        for line in found:
            print(f"         {line}", flush=True)
    return verdicts


def _shrink(spark: SparkSession, dsn: str, tap: EngineProcess, scenario: Scenario, verdict: Verdict) -> None:
    """Print the shortest scenario of which the same is to be said: one that fails may not become one that differs."""
    shrunk = shrink(scenario, lambda each: verdict in _compare(spark, each, lambda: record(dsn, tap, each), keep=False))
    print(f"The shortest that {verdict}:\n\n{as_text(shrunk)}", flush=True)


def _compare(
    spark: SparkSession, scenario: Scenario, recorded: Callable[[], Recording], *, keep: bool
) -> list[Verdict]:
    begun = time.monotonic()
    try:
        recording = recorded()
    except (psycopg.Error, RuntimeError) as error:
        print(f"failed   {scenario.name}  {error}", flush=True)
        return [Verdict.FAILED] * len(scenario.variants)
    if keep:
        recording.save()
    verdicts = []
    for name, variant in recording.variants.items():
        verdict, found = _compare_variant(spark, recording, variant)
        verdicts.append(verdict)
        print(f"{verdict:<7}  {scenario.name}  {name}  ({len(variant.events)} records)")
        for line in found:
            print(f"         {line}")
    print(f"         {time.monotonic() - begun:.1f} s", flush=True)
    return verdicts


def _compare_variant(spark: SparkSession, recording: Recording, variant: Variant) -> tuple[Verdict, list[str]]:
    try:
        found = differences(variant.events, replay(spark, recording, variant.properties))
    except (PySparkException, WalhouseError, ValueError) as error:
        return Verdict.FAILED, [str(error).splitlines()[0]]
    return (Verdict.DIFFERS if found else Verdict.EQUAL), found


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m oracle", description=__doc__)
    parser.add_argument("names", nargs="*", help="scenarios; all if none is named")
    parser.add_argument("--cases", type=int, default=0, help="so many random scenarios instead")
    parser.add_argument("--seed", type=int, default=1, help="of the first random scenario")
    parser.add_argument("--needing", action="store_true", help="only those that the embedded server cannot run")
    parser.add_argument("--live", action="store_true", help="scenarios in passes, followed while they are made")
    parser.add_argument("--record", action="store_true", help="write the recordings under fixtures/scenarios/recorded")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
