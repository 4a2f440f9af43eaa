"""Random cases: their values are ones that the server takes, and what is left of a failing one is still a script."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import TYPE_CHECKING

import psycopg
import pytest

from oracle.random_cases.scenarios import random_scenario
from oracle.random_cases.shrinking import shrink
from oracle.random_cases.types import SETUP
from oracle.random_cases.values import MAKERS, literal

if TYPE_CHECKING:
    from oracle.scenario import Scenario
    from tests.fixtures_server import Database

FIRST, LAST = 1, 60


@pytest.mark.server
@pytest.mark.contrib
def test_every_type_takes_every_value_that_is_made_for_it(database: Database) -> None:
    database.execute(*SETUP)
    refused = {}
    with database.connect() as connection:
        for kind, make in MAKERS.items():
            for seed in range(40):
                value = make(Random(seed))
                try:
                    connection.execute(f"SELECT CAST({literal(value)} AS {kind})".encode())
                except psycopg.Error as error:
                    refused[kind, value] = str(error)
    assert not refused


def test_a_seed_makes_the_same_scenario_again() -> None:
    assert [random_scenario(seed) for seed in range(FIRST, LAST)] == [
        random_scenario(seed) for seed in range(FIRST, LAST)
    ]


def test_of_a_failing_case_the_one_statement_that_fails_is_left_without_its_transaction() -> None:
    found = [
        (scenario, next(each for each in scenario.changes if each.startswith("UPDATE")))
        for scenario in map(random_scenario, range(FIRST, LAST))
        if any(each.startswith("UPDATE") for each in scenario.changes)
    ]
    assert len(found) > 20
    for scenario, update in found:
        assert shrink(scenario, partial(_holds, update)).changes == (update,)


def _holds(statement: str, case: Scenario) -> bool:
    return statement in case.changes


def test_a_savepoint_keeps_its_transaction_and_its_way_back() -> None:
    fails = partial(_holds, "ROLLBACK TO s;")
    found = [each for each in map(random_scenario, range(FIRST, LAST)) if fails(each)]
    assert found
    for scenario in found:
        changes = shrink(scenario, fails).changes
        assert changes in {("BEGIN;", "SAVEPOINT s;", "ROLLBACK TO s;", end) for end in ("COMMIT;", "ROLLBACK;")}
