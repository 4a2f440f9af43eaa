"""Every recorded scenario: walhouse's events are Debezium's, field by field.

The recordings hold real pgoutput frames and the records of Debezium's own engine over the same WAL (``make record``).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from oracle.compare import differences
from oracle.recording import FOLDER, Recording
from oracle.replay import Replay
from oracle.scenario import Scenario, parse_scenario, scenarios
from oracle.server import lacking

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.fixtures_server import Database

SCENARIOS = scenarios()


@pytest.mark.spark
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_events_are_those_of_debeziums_engine(scenario: Scenario, spark: SparkSession) -> None:
    recording = Recording.load(scenario.name)
    assert recording.variants.keys() == scenario.variants.keys(), "record it again: the scenario was changed"
    replay = Replay(spark, recording)
    found = {
        name: differences(variant.events, replay.lines(variant.properties))
        for name, variant in recording.variants.items()
    }
    assert not any(found.values()), found


def test_every_scenario_is_recorded_and_names_what_it_covers() -> None:
    assert {path.stem for path in FOLDER.glob("*.json")} == {scenario.name for scenario in SCENARIOS}
    assert all(re.fullmatch(r"\d+(\.\d+)?", each) for scenario in SCENARIOS for each in scenario.references)


def test_a_difference_in_any_field_is_found() -> None:
    one = '{"destination":"p.t","key":{"id":1},"value":{"op":"c","n":4.0,"source":{"version":"a"}},"headers":{}}'
    assert differences([one], [one.replace('"a"', '"b"')]) == [], "the version is not compared"
    assert differences([one], [one.replace("4.0", "4")]) == ["p.t[0].value.n: 4.0 from Debezium, 4 from walhouse"]
    assert differences([one], []) == ["p.t: 1 records from Debezium, 0 from walhouse"]
    assert differences([one], [one.replace('"op":"c"', '"op":null')])
    assert differences([one], [one.replace('"op":"c",', "")])
    assert differences([one], [one.replace('"headers":{}', '"headers":{"a":"b"}')])


def test_a_scenario_is_read_as_it_is_written() -> None:
    text = (
        "-- What it is.\n-- reference: 4.2, 1.1\n-- needs: postgis, xml\n"
        "-- with: a.b = x\n-- variants: c = 1 | 2\n-- variants: d = 3\n"
        "CREATE TABLE t (id int);\n-- changes\nINSERT INTO t\n  VALUES (1);\nBEGIN;\nCOMMIT;\n"
    )
    scenario = parse_scenario("name", text)
    assert (scenario.title, scenario.references) == ("What it is.", ("4.2", "1.1"))
    assert scenario.needs == ("postgis", "xml")
    assert scenario.variants == {
        "c=1": {"a.b": "x", "c": "1"},
        "c=2": {"a.b": "x", "c": "2"},
        "d=3": {"a.b": "x", "d": "3"},
    }
    assert scenario.setup == ("CREATE TABLE t (id int);",)
    assert scenario.changes == ("INSERT INTO t\n  VALUES (1);", "BEGIN;", "COMMIT;")


@pytest.mark.server
def test_what_a_server_lacks_for_a_scenario_is_known_before_it_runs(database: Database) -> None:
    assert lacking(database.dsn, ("plpgsql", "no_such_extension")) == ["no_such_extension"]
    with_xml = database.execute("SELECT count(*) FROM pg_config WHERE setting LIKE '%--with-libxml%'") == [(1,)]
    assert lacking(database.dsn, ("xml",)) == ([] if with_xml else ["xml"])


def test_a_scenario_without_a_reference_is_refused() -> None:
    with pytest.raises(ValueError, match="a title, a reference"):
        parse_scenario("name", "-- What it is.\nCREATE TABLE t (id int);\n-- changes\nINSERT INTO t VALUES (1);\n")
