"""Status: how far everything is, and what is not as the source has it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.fixtures_house import AfterPartOfSnapshot, logged_in_as
from walhouse.errors import PrivilegeError, SourceUnreachableError
from walhouse.names import TableName
from walhouse.postgres.finding import Severity

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fixtures_house import MakeHouse
    from tests.fixtures_server import Database
    from walhouse.config.connection import ConnectionSettings
    from walhouse.ops.status import SnapshotStatus

pytestmark = [pytest.mark.server, pytest.mark.spark]

PRICES = TableName("public", "prices")


def test_status_tells_positions_lag_and_the_values_that_are_kept_as_text_until_they_are_repaired(
    database: Database, make_house: MakeHouse
) -> None:
    database.execute(
        "CREATE TABLE prices (id int PRIMARY KEY, price numeric(10, 2))",
        "INSERT INTO prices VALUES (1, 'NaN'), (2, 5), (3, 'NaN')",
    )
    house = make_house()
    empty = house.status()
    assert (empty.captured_to, empty.tables) == (None, ())
    house.run()
    status = house.status()
    (table,) = status.tables
    assert (table.table, table.captured, table.silver, table.gold) == (PRICES, *[status.captured_to] * 3)
    assert table.counts["silver_events"] == 3
    assert table.counts["silver_unconverted"] == 2
    assert table.counts["gold_rescued"] == 2

    database.execute("UPDATE prices SET price = 7 WHERE id = 1")
    house.capture()
    behind = house.status()
    assert behind.captured_to is not None
    assert status.captured_to is not None
    assert behind.captured_to > status.captured_to
    assert behind.tables[0].gold == status.captured_to
    house.gold()
    repaired = house.status()
    assert repaired.tables[0].counts["gold_rescued"] == 1
    assert repaired.tables[0].gold == behind.captured_to

    told = json.loads(repaired.to_json())
    assert told["tables"][0]["table"] == "public.prices"
    assert told["captured_to"] == str(repaired.captured_to)
    assert told["retained_bytes"] >= 0
    assert told["lag_bytes"] >= 0


@pytest.mark.parametrize("kind", ["blocking", "incremental"])
def test_a_snapshot_that_was_interrupted_is_so_until_something_of_it_is_read_again(
    kind: str, database: Database, make_house: MakeHouse
) -> None:
    database.execute(
        "CREATE TABLE prices (id int PRIMARY KEY, price text)",
        "INSERT INTO prices SELECT n, repeat('1', 900) FROM generate_series(1, 50) AS n",
    )
    house = make_house(
        snapshot_mode="no_data",
        lake_snapshot_chunk_pages=1,
        lake_snapshot_pass_pages=1,
        lake_snapshot_pass_rows=10,
        incremental_snapshot_chunk_size=10,
    )
    house.run()
    house.signal("execute-snapshot", {"data-collections": [r"public\.prices"], "type": kind})

    def fail() -> None:
        raise SourceUnreachableError("The server is away.")

    seen: list[SnapshotStatus] = []
    with pytest.raises(SourceUnreachableError):
        house.capture(AfterPartOfSnapshot(fail))
    seen += house.status().snapshots
    house.capture(AfterPartOfSnapshot(lambda: seen.extend(house.status().snapshots)))
    assert [(each.table, each.state, each.interrupted) for each in seen] == [
        (PRICES, "interrupted", "The server is away."),
        (PRICES, "reading", None),
    ]
    assert house.status().snapshots == ()


def test_what_events_leave_out_is_named_by_the_check_and_counted_by_the_status(
    database: Database, make_house: MakeHouse
) -> None:
    database.execute(
        "CREATE TABLE searches (id int PRIMARY KEY, wanted tsquery)",
        "INSERT INTO searches VALUES (1, 'cat & dog'), (2, NULL), (3, 'bird')",
    )
    house = make_house()
    warnings = [each.problem for each in house.check() if each.severity is Severity.WARNING]
    assert "Events and silver leave out wanted (tsquery): Debezium does not know the type." in warnings
    house.run()
    database.execute("UPDATE searches SET wanted = 'cat' WHERE id = 2")
    house.run()
    (table,) = house.status().tables
    assert table.counts["silver_without_field"] == 3
    assert all(proof.equal for proof in house.verify())


def test_the_check_after_a_first_run_that_was_refused_says_of_no_slot_that_the_lake_goes_on_from_it(
    database: Database, role: Callable[[str], ConnectionSettings], make_house: MakeHouse
) -> None:
    """It has a bronze by then, with nothing in it."""
    with pytest.raises(PrivilegeError):
        make_house(**logged_in_as(role("")), snapshot_mode="no_data", publication_autocreate_mode="all_tables").run()
    house = make_house()
    assert house.layout.has_bronze
    [slot] = [each for each in house.check() if each.subject.startswith("slot ")]
    assert (slot.severity, "will be made" in slot.problem) == (Severity.OK, True)
