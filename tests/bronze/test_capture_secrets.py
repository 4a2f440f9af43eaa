"""What capture must not take, must not need, and must not show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from tests.bronze.test_capture import begun, ids, nothing, rows
from tests.fixtures_house import logged_in_as
from walhouse.bronze.source import load
from walhouse.lakehouse.answers import few_rows
from walhouse.pgoutput.image import unpack_row

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

    from tests.fixtures_house import MakeHouse
    from tests.fixtures_server import Database
    from walhouse.config.connection import ConnectionSettings
    from walhouse.lakehouse.layout import LakeLayout

pytestmark = [pytest.mark.server, pytest.mark.spark]


def test_what_the_configuration_leaves_out_never_lands(
    spark: SparkSession, table: Database, lake: LakeLayout, make_house: MakeHouse
) -> None:
    table.execute("CREATE TABLE people (id int PRIMARY KEY, secret text, name text)", "CREATE TABLE other (id int)")
    house = make_house(
        table_include_list="public.people",
        column_exclude_list="public.people.secret,public.people.id",
        message_prefix_include_list="wanted",
    )
    table.execute("INSERT INTO people VALUES (1, 'hush', 'Ann')")
    house.capture()
    table.execute(
        "INSERT INTO people VALUES (2, 'hush', 'Bob')",
        "INSERT INTO t VALUES (1, 'hush')",
        "SELECT pg_logical_emit_message(true, 'wanted', 'yes')",
        "SELECT pg_logical_emit_message(true, 'unwanted', 'hush')",
        "SELECT pg_logical_emit_message(false, 'unwanted', 'hush')",
    )
    house.capture()
    frame = spark.table(str(lake.bronze))
    assert frame.where(F.contains("after", F.lit("hush"))).count() == 0
    assert [unpack_row(row["after"]) for row in rows(spark, lake)] == [["2", "Bob"]]
    assert [row["message"]["prefix"] for row in rows(spark, lake, "message")] == ["wanted"]


def test_a_table_whose_name_differs_in_case_only_never_lands_where_filters_tell_case(
    spark: SparkSession, table: Database, lake: LakeLayout, make_house: MakeHouse
) -> None:
    table.execute('CREATE TABLE "T" (id int PRIMARY KEY, v text)', "INSERT INTO \"T\" VALUES (1, 'hush')")
    house = make_house(
        table_include_list="public.t", message_prefix_include_list="Wanted", lake_case_sensitive_filters=True
    )
    house.capture()
    table.execute(
        "INSERT INTO t VALUES (1, 'x')",
        "INSERT INTO \"T\" VALUES (2, 'hush')",
        "SELECT pg_logical_emit_message(true, 'wanted', 'hush')",
    )
    house.capture()
    assert [unpack_row(row["after"]) for row in rows(spark, lake)] == [["1", "x"]]
    assert rows(spark, lake, "snapshot") == rows(spark, lake, "message") == []


def test_a_role_that_may_replicate_and_select_is_enough(
    spark: SparkSession,
    table: Database,
    role: Callable[[str], ConnectionSettings],
    lake: LakeLayout,
    make_house: MakeHouse,
) -> None:
    reader = role("REPLICATION")
    table.execute(
        "INSERT INTO t VALUES (1, 'x')",
        "CREATE PUBLICATION walhouse_test FOR TABLE t",
        f"GRANT SELECT ON t TO {reader.user}",
    )
    house = make_house(**logged_in_as(reader), publication_autocreate_mode="disabled")
    house.capture()
    table.execute("INSERT INTO t VALUES (2, 'y')")
    house.capture()
    assert [unpack_row(row["after"])[0] for row in rows(spark, lake, "snapshot")] == ["1"]
    assert ids(spark, lake) == ["2"]


@pytest.mark.parametrize("writer", ["arrow", "spark"])
def test_no_plan_shows_the_password_or_the_address(
    table: Database,
    make_house: MakeHouse,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    writer: str,
) -> None:
    frames: list[DataFrame] = []

    def loaded(*arguments: Any) -> DataFrame:
        frames.append(load(*arguments))
        return frames[-1]

    def answered(lines: DataFrame) -> list[dict[str, Any]]:
        frames.append(lines)
        return few_rows(lines)

    monkeypatch.setattr("walhouse.bronze.append.load", loaded)
    monkeypatch.setattr("walhouse.bronze.files.few_rows", answered)
    house = make_house(lake_writer=writer)
    capture = begun(house)
    table.execute("INSERT INTO t VALUES (1, 'x')")
    capture.run(capture.target(), nothing)
    for frame in frames:  # the snapshot's, then the stream's
        frame.explain(extended=True)
    shown = capsys.readouterr().out
    password = table.settings.password
    assert password is not None
    assert len(frames) == 2
    assert shown.count("Parsed Logical Plan") == 2
    assert shown.count("MapInArrow read_postgresql") >= 2
    assert password.reveal() not in shown
    assert str(table.settings.port) not in shown
    assert password.reveal() not in repr(house._capture_settings)
