"""A session that was there before walhouse: what it says of zones, casts and names changes nothing, or is refused."""

from __future__ import annotations

import io
import json
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.fixtures_house import houses
from walhouse.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.fixtures_house import MakeHouse
    from tests.fixtures_server import Database
    from walhouse.api import Walhouse
    from walhouse.lakehouse.layout import LakeLayout

pytestmark = [pytest.mark.server, pytest.mark.spark]

FOREIGN = {
    "spark.sql.session.timeZone": "America/New_York",
    "spark.sql.ansi.enabled": "false",
    "spark.sql.ansi.doubleQuotedIdentifiers": "true",
    "spark.sql.caseSensitive": "true",
    "spark.sql.storeAssignmentPolicy": "LEGACY",
    "spark.sql.legacy.timeParserPolicy": "LEGACY",
    "spark.sql.legacy.castComplexTypesToString.enabled": "true",
    "spark.sql.legacy.sizeOfNull": "true",
    "spark.sql.legacy.charVarcharAsString": "true",
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
    "spark.sql.decimalOperations.allowPrecisionLoss": "false",
    "spark.sql.sources.partitionOverwriteMode": "dynamic",
    "spark.sql.datetime.java8API.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "false",
    "spark.sql.shuffle.partitions": "7",
    "spark.sql.variable.substitute": "true",
    "spark.databricks.delta.schema.autoMerge.enabled": "true",
}
SCHEMA = r"""
    CREATE TABLE t (id int PRIMARY KEY, "Name" text, ts timestamp, tz timestamptz, d date, tm time, tmz timetz,
        n numeric, n2 numeric(10,2), f float4, g float8, b bytea, j jsonb, iv interval, texts text[], tzs timestamptz[],
        bo bool, bits bit(3), m money, ch char(9) DEFAULT 'it''s \ "', vc varchar(20) DEFAULT '${x:y} ${z}$')"""
ROWS = r"""
    INSERT INTO t VALUES
    (1, 'a\n\\"''', '1582-10-10 03:04:05.123456', '2024-03-10 02:30:00-05', '1500-02-28', '23:59:59.999999',
        '12:00:00.5+05:45', 'NaN', 12345678.90, 'NaN', 'Infinity', '\xdeadbeef', '{"a": 1.0}', '1 year 2 mons -3 days',
        ARRAY['a,b', NULL, 'x"y\'], ARRAY[timestamptz '2024-11-03 01:30:00-04'], true, B'101', '12.34'),
    (2, NULL, 'infinity', '-infinity', 'infinity', '24:00', '00:00:00-15:59', 1e30, -0.01, -0.0, 5e-324, '', '[]',
        '-1 day', '{}', '{}', false, B'000', '-0.01'),
    (3, '', '0044-03-15 00:00:00 BC', '0001-01-01 00:00:00+00', '4714-11-24 BC', '00:00', '00:00+00', 0.5, 0, 1e-45, 0,
        '\x00', 'null', '0', '{{a,b},{c,d}}', ARRAY[timestamptz '1900-01-01 00:00:00+00'], NULL, NULL, NULL)"""
CHANGES = (
    "UPDATE t SET ts = ts + interval '1 hour' WHERE id = 1",
    "UPDATE t SET id = 20 WHERE id = 2",
    "DELETE FROM t WHERE id = 3",
    "INSERT INTO t (id) VALUES (4)",
)


@contextmanager
def set_to(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    before = {name: spark.conf.get(name, None) for name in settings}
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, old in before.items():
            spark.conf.unset(name) if old is None else spark.conf.set(name, old)


def events_of(house: Walhouse) -> list[object]:
    printed = io.BytesIO()
    house.events().write(printed)
    lines = [json.loads(line) for line in printed.getvalue().decode().splitlines()]
    return [
        (line["key"], line["value"] and [line["value"][name] for name in ("op", "before", "after")]) for line in lines
    ]


@pytest.mark.slow
def test_silver_and_gold_are_the_same_whatever_a_session_says_of_zones_casts_and_names(
    spark: SparkSession, database: Database, lake: LakeLayout, tmp_path: Path
) -> None:
    found = []
    for name, settings in ({"ours": {}, "foreign": FOREIGN}).items():
        database.execute("DROP TABLE IF EXISTS t", SCHEMA, ROWS)
        own = replace(lake, path=tmp_path / name, gold_schema=f"{lake.gold_schema}_{name}")
        own = replace(own, bronze_schema=f"{lake.bronze_schema}_{name}", silver_schema=f"{lake.silver_schema}_{name}")
        own = replace(own, ops_schema=f"{lake.ops_schema}_{name}")
        folder = tmp_path / f"conf-{name}"
        folder.mkdir()
        with houses(spark, database, own, folder) as make, set_to(spark, settings):
            house = make()
            house.run()
            database.execute(*CHANGES)
            house.run()
            assert [proof.equal for proof in house.verify()] == [True]
            found.append((events_of(house), spark.table(f"{own.gold_schema}.public_t").columns))
            house.drop()
        for schema in own.schemas:
            spark.sql(f"DROP SCHEMA IF EXISTS `{schema}` CASCADE")
    assert found[0] == found[1]
    assert "${x:y} ${z}$" in str(found[0])
    assert len(found[0][0]) == 10


@pytest.mark.parametrize(
    ("name", "value"),
    [("spark.sql.parser.escapedStringLiterals", "true"), ("spark.sql.timestampType", "TIMESTAMP_NTZ")],
)
def test_a_session_in_which_queries_would_mean_another_thing_is_refused(
    spark: SparkSession, make_house: MakeHouse, lake: LakeLayout, name: str, value: str
) -> None:
    begun = make_house()
    assert begun.spark is spark
    with set_to(spark, {name: value}):
        for house in (make_house(), begun):  # one that is opened, and one that was open already
            with pytest.raises(ConfigurationError, match=name):
                house.run()
        with pytest.raises(ConfigurationError, match=name):
            make_house().events()
    assert not lake.has_bronze
