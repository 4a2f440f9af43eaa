"""The plain value of a masked column is in no row of bronze, whether it came by the stream or by a snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.fixtures_house import MakeHouse
    from tests.fixtures_server import Database
    from walhouse.lakehouse.layout import LakeLayout

MASKS = {
    "column.mask.with.4.chars": "public.people.name",
    "column.mask.hash.v2.SHA-256.with.salt.s": "public.people.mail",
    "column.truncate.to.2.chars": "public.people.note",
}


@pytest.mark.server
@pytest.mark.spark
def test_masked_values_never_land_and_gold_is_proven_equal_to_the_source_as_it_may_be_seen(
    spark: SparkSession, database: Database, lake: LakeLayout, make_house: MakeHouse
) -> None:
    database.execute(
        "CREATE TABLE people (id int PRIMARY KEY, name text, mail text, note varchar(20), age int)",
        "ALTER TABLE people REPLICA IDENTITY FULL",
        "INSERT INTO people VALUES (1, 'Ada Plain', 'ada@plain', 'plain one', 36), (2, NULL, NULL, NULL, 1)",
    )
    house = make_house(table_include_list="public.people", **MASKS)
    house.run()
    database.execute("INSERT INTO people VALUES (3, 'Bob Plain', 'bob@plain', 'plain two', 7)")
    database.execute("UPDATE people SET age = 37 WHERE id = 1", "DELETE FROM people WHERE id = 3")
    house.run()
    texts = spark.table(str(lake.bronze)).selectExpr(
        "explode(concat(coalesce(before, array()), coalesce(after, array())))"
    )
    assert texts.where("col ILIKE '%plain%'").count() == 0
    gold = spark.table(str(lake.gold(house.status().tables[0].table))).orderBy("id").select("name", "note", "age")
    assert [tuple(row) for row in gold.collect()] == [("****", "pl", 37), ("****", None, 1)]
    assert all(proof.equal for proof in house.verify())
