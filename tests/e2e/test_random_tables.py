"""Gold is the source for tables and changes that nobody thought of: the oracle's random cases through the whole path.

One case in the suite, more by ``make random CASES=40 SEED=1``. What is masked is compared as it may be seen, columns
that the lists leave out are not.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final

import pytest

from oracle.random_cases.alterations import FOLLOWED_BY_GOLD
from oracle.random_cases.scenarios import random_scenario
from oracle.random_cases.shrinking import as_text
from oracle.record import IMPATIENT, REFUSED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oracle.scenario import Scenario
    from tests.fixtures_house import MakeHouse
    from tests.fixtures_server import Database

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.contrib]

_FIRST: Final = int(os.environ.get("WALHOUSE_RANDOM_SEED", "3"))
_CASES: Final = int(os.environ.get("WALHOUSE_RANDOM_CASES", "1"))

_PREPARED: Final = "PREPARE TRANSACTION 'p';"
_ENDS: Final = {"COMMIT;", "ROLLBACK;", _PREPARED}
_OPTION: Final = re.compile(r"publish\w*(?: = (?:'[^']*'|\w+))?")


@pytest.mark.usefixtures("deletion_vectors")
@pytest.mark.parametrize("seed", range(_FIRST, _FIRST + _CASES))
def test_gold_of_random_tables_is_proven_equal_after_random_changes(
    seed: int, database: Database, make_house: MakeHouse
) -> None:
    """A snapshot of what is there first, then two parts of the stream; before the second all is to be read again."""
    scenario = random_scenario(seed, FOLLOWED_BY_GOLD)
    database.execute(*scenario.setup, f"CREATE PUBLICATION walhouse_test {_whole(scenario.publication)}")
    settings: dict[str, object] = {"publication_autocreate_mode": "disabled", "incremental_snapshot_chunk_size": 2}
    house = make_house(**settings, **_properties(scenario))
    first, second = _halves(scenario.changes)
    for part in ((), first):
        _change(database, part)
        house.run()
    house.signal("execute-snapshot", {"data-collections": [".*"]})
    _change(database, second)
    house.run()
    assert [str(proof.table) for proof in house.verify() if not proof.equal] == [], as_text(scenario)


def _whole(publication: str) -> str:
    """The publication with all operations, as lists of tables have: gold cannot follow what is not published."""
    if publication.startswith("FOR TABLE"):
        return publication
    options = [option for option in _OPTION.findall(publication) if not option.startswith("publish =")]
    return f"FOR ALL TABLES WITH ({', '.join(options)})" if options else "FOR ALL TABLES"


def _properties(scenario: Scenario) -> dict[str, str]:
    """The connector's, without those of the engine that prints events."""
    (properties,) = scenario.variants.values()
    return {name: value for name, value in properties.items() if not name.startswith("converter.")}


def _halves(changes: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Cut between two transactions, while none is prepared: a table without a key is read once that has ended."""
    inside, prepared = False, False
    for number, statement in enumerate(changes, start=1):
        inside = statement == "BEGIN;" or (inside and statement not in _ENDS)
        prepared = statement == _PREPARED or (prepared and not statement.endswith("PREPARED 'p';"))
        if not inside and not prepared and number * 2 >= len(changes):
            return changes[:number], changes[number:]
    return changes, ()


def _change(database: Database, statements: Sequence[str]) -> None:
    with database.connect(options=IMPATIENT) as client:
        for statement in statements:
            try:
                client.execute(statement.encode())
            except REFUSED:
                continue
