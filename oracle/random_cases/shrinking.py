"""A case that differs, made short, and written as a scenario's file.

Invariant: what is left out is left out whole: a transaction keeps its end, a savepoint its way back.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from oracle.scenario import PUBLICATION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from oracle.scenario import Scenario

_PAIRS = {
    "BEGIN": {"COMMIT", "ROLLBACK", "PREPARE TRANSACTION 'p'"},
    "SAVEPOINT s": {"ROLLBACK TO s"},
}


def shrink(scenario: Scenario, differs: Callable[[Scenario], bool]) -> Scenario:
    """A shorter scenario that still differs: without properties, transactions and statements that it can do without."""
    (properties,) = scenario.variants.values()
    for name in properties:
        (now,) = scenario.variants.values()
        fewer = replace(scenario, variants={"random": {key: now[key] for key in now if key != name}})
        if differs(fewer):
            scenario = fewer
    for parts in (_transactions, _borders, _single):
        number = len(_statements(scenario))
        while number > 0:
            statements = _statements(scenario)
            some = parts(statements)
            number = min(number, len(some)) - 1
            if number < 0:
                break
            rest = tuple(each for position, each in enumerate(statements) if position not in some[number])
            shorter = _of_statements(scenario, rest)
            if shorter is not None and differs(shorter):
                scenario = shorter
    return scenario


def _transactions(statements: Sequence[str]) -> list[set[int]]:
    """The positions of each with all that it holds."""
    return [set(range(first, last + 1)) for first, last in _bounds(statements)]


def _borders(statements: Sequence[str]) -> list[set[int]]:
    """The positions of a transaction's begin and end, or a savepoint's, whose statements stay."""
    return [{first, last} for first, last in _bounds(statements)]


def _single(statements: Sequence[str]) -> list[set[int]]:
    return [{position} for position in range(len(statements))]


def _bounds(statements: Sequence[str]) -> list[tuple[int, int]]:
    """Begins and ends; what is inside of another comes after it, and is left out before it."""
    bounds, opened = [], list[int]()
    for position, statement in enumerate(statements):
        word = statement.rstrip(";")
        if word in _PAIRS:
            opened.append(position)
        elif opened and word in _PAIRS[statements[opened[-1]].rstrip(";")]:
            bounds.append((opened.pop(), position))
    return sorted(bounds)


def _statements(scenario: Scenario) -> tuple[str, ...]:
    """What can be left out: the changes, or a snapshot's rows."""
    return tuple(each for each in scenario.setup if _is_row(each)) if scenario.is_snapshot else scenario.changes


def _of_statements(scenario: Scenario, statements: tuple[str, ...]) -> Scenario | None:
    if scenario.is_snapshot:
        return replace(scenario, setup=tuple(each for each in scenario.setup if not _is_row(each)) + statements)
    return replace(scenario, changes=statements) if statements and _is_whole(statements) else None


def _is_row(statement: str) -> bool:
    return statement.startswith("INSERT")


def _is_whole(statements: tuple[str, ...]) -> bool:
    """Every BEGIN has its end, every SAVEPOINT stands inside of one and has its way back."""
    opened: list[str] = []
    for statement in statements:
        word = statement.rstrip(";")
        if word in _PAIRS:
            if word != "BEGIN" and not opened:
                return False
            opened.append(word)
        elif any(word in ends for ends in _PAIRS.values()) and (not opened or word not in _PAIRS[opened.pop()]):
            return False
    return not opened


def as_text(scenario: Scenario) -> str:
    """The scenario as a file, to be kept under fixtures/scenarios."""
    return "\n".join(_lines(scenario)) + "\n"


def _lines(scenario: Scenario) -> Iterator[str]:
    (properties,) = scenario.variants.values()
    yield f"-- {scenario.title}"
    yield f"-- reference: {', '.join(scenario.references)}"
    if scenario.publication != PUBLICATION:
        yield f"-- publication: {scenario.publication}"
    yield from (f"-- with: {name} = {value}" for name, value in properties.items())
    yield from scenario.setup
    yield "-- snapshot" if scenario.is_snapshot else "-- changes"
    yield from scenario.changes
