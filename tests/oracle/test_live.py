"""Scenarios that are followed: each has passes to follow, and says what it is of."""

from __future__ import annotations

import pytest

from oracle.scenario import LIVE, Scenario, scenarios


@pytest.mark.parametrize("scenario", scenarios(LIVE), ids=lambda scenario: scenario.name)
def test_a_scenario_that_is_followed_alters_something_between_two_passes(scenario: Scenario) -> None:
    assert len(scenario.passes) > 1
    assert all(scenario.passes)
    assert scenario.changes == tuple(statement for statements in scenario.passes for statement in statements)
    assert not any("-- pass" in statement for statement in scenario.changes)


def test_a_scenario_without_passes_is_one_pass() -> None:
    for scenario in scenarios():
        assert scenario.passes == (scenario.changes,)
