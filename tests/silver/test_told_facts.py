"""What the catalog says of a table changes between two passes, and the server's own description of it does not."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from walhouse.changes.relations import RelationCatalog
from walhouse.names import TableName

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession

    from tests.fixtures_house import MakeHouse
    from tests.fixtures_server import Database
    from walhouse.api import Walhouse
    from walhouse.lakehouse.layout import LakeLayout

pytestmark = [pytest.mark.server, pytest.mark.spark]


def by_table(lines: Iterable[str]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for line in lines:
        record = json.loads(line)
        found.setdefault(record["destination"].removeprefix("test.public."), []).append(record)
    return found


def optional(record: dict[str, Any], field: str) -> bool:
    """Whether the schema of ``after`` lets the field be NULL."""
    images = {image["field"]: image for image in record["value"]["schema"]["fields"]}
    return bool(next(each for each in images["after"]["fields"] if each["field"] == field)["optional"])


def follow(house: Walhouse) -> None:
    house.capture()
    house.silver()


def test_each_event_has_the_defaults_nullability_and_key_of_its_time(database: Database, make_house: MakeHouse) -> None:
    database.execute(
        "CREATE TABLE defaults (id int PRIMARY KEY, v int DEFAULT 1)",
        "CREATE TABLE required (id int PRIMARY KEY, v int NOT NULL)",
        "CREATE TABLE keyless (id int NOT NULL, v int)",
        "ALTER TABLE keyless REPLICA IDENTITY FULL",
        "INSERT INTO required VALUES (1, 1), (2, 2)",
    )
    house = make_house(snapshot_mode="no_data", extended_headers_enabled=False)
    house.capture()
    database.execute(
        "INSERT INTO defaults VALUES (1, NULL)",
        "DELETE FROM required WHERE id = 1",
        "INSERT INTO keyless VALUES (1, 1)",
        "UPDATE keyless SET id = 2",
    )
    follow(house)
    database.execute(
        "ALTER TABLE defaults ALTER v SET DEFAULT 7",
        "ALTER TABLE required ALTER v DROP NOT NULL",
        "CREATE UNIQUE INDEX by_id ON keyless (id)",
        "INSERT INTO defaults VALUES (2, NULL)",
        "DELETE FROM required WHERE id = 2",
        "UPDATE keyless SET id = 3",
    )
    follow(house)
    database.execute("ALTER TABLE defaults ALTER v SET DEFAULT 1", "INSERT INTO defaults VALUES (3, NULL)")
    follow(house)
    tables = [TableName("public", name) for name in ("defaults", "required", "keyless")]
    lines = list(house.events(schemas=True))
    found = by_table(lines)
    values = {name: [each["value"] and each["value"]["payload"] for each in found[name]] for name in found}
    assert [each["after"]["v"] for each in values["defaults"]] == [1, 7, 1]
    assert [each["before"]["v"] for each in values["required"] if each] == [0, None]
    assert [optional(each, "v") for each in found["required"] if each["value"]] == [False, True]
    keys = [each["key"] and each["key"]["payload"] for each in found["keyless"]]
    assert keys == [None, None, {"id": 2}, {"id": 2}, {"id": 3}]
    house.rebuild("silver", tables)
    assert list(house.events(schemas=True)) == lines


@pytest.mark.parametrize(
    ("change", "back"),
    [
        ("ALTER v SET DEFAULT 7", "ALTER v SET DEFAULT 1"),
        ("DROP CONSTRAINT t_pkey", "ADD PRIMARY KEY (id)"),
        ("ADD w int", "DROP w"),
    ],
)
def test_a_table_that_is_again_what_it_was_is_known_as_that(
    spark: SparkSession, database: Database, lake: LakeLayout, make_house: MakeHouse, change: str, back: str
) -> None:
    table = TableName("public", "t")
    database.execute("CREATE TABLE t (id int PRIMARY KEY, v int DEFAULT 1)", "ALTER TABLE t REPLICA IDENTITY FULL")
    house = make_house()
    house.capture()
    for number, altered in enumerate((change, back), start=1):
        database.execute(f"ALTER TABLE t {altered}", f"INSERT INTO t (id) VALUES ({number})")
        house.capture()
    relations = RelationCatalog(spark, lake)
    relations.refresh(1000)
    current = relations.by_table()[table][-1]
    assert current.primary_key == ("id",)
    assert [(column.name, column.default) for column in current.columns] == [("id", None), ("v", "1")]
    assert len(relations.by_table()[table]) == 2
    house.run()
    assert [proof.equal for proof in house.verify()] == [True]
