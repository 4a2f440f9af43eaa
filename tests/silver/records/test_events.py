"""Silver printed as Debezium's records."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql.classic.dataframe import DataFrame as ClassicFrame

from tests.silver.bronze_rows import EPOCH, Wal, column, message_frame, numeric_typmod, relation
from walhouse.changes.epoch import TableEpoch
from walhouse.errors import FieldCollisionError, QueryError
from walhouse.lakehouse.layout import LakeLayout
from walhouse.lsn import Lsn
from walhouse.names import TableName
from walhouse.silver.adjusted_names import NameMode
from walhouse.silver.apply import apply_messages, apply_silver
from walhouse.silver.records import pieces
from walhouse.silver.records.events import events, lines_of
from walhouse.silver.records.rows import PrintedRows
from walhouse.silver.settings import EventsSettings, SilverSettings
from walhouse.silver.table import silver_schema

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

PLAIN = EventsSettings("p", context_headers=False)
ALL = replace(PLAIN, skipped_operations=frozenset())

ORDERS = TableName("shop", "Orders & co")
KEY = column("id", "int4", nullable=False)
OLD = relation(ORDERS, [KEY, column("Note", "text")], primary_key=("id",))
NEW = relation(
    ORDERS,
    [
        column("note", "text"),
        column("data", "bytea"),
        KEY,
        column("ratio", "float8"),
        column("less", "float4"),
        column("any", "numeric"),
        column("price", "numeric", typmod=numeric_typmod(5, 2)),
    ],
    primary_key=("id",),
)
BAG = relation(TableName("shop", "bag"), [column("a", "int4")], identity="f")
NEVER = relation(TableName("shop", "never"), [KEY], primary_key=("id",))

TABLES = {ORDERS: (OLD, NEW), BAG.name: (BAG,), NEVER.name: (NEVER,)}


@pytest.fixture(scope="module")
def told(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> LakeLayout:
    """A silver lake with two tables and a message whose changes are interleaved."""
    path: Path = tmp_path_factory.mktemp("events")
    layout = LakeLayout(path=path, silver_schema="silver_events", bronze_schema="bronze_events")
    settings = SilverSettings("p", "db", version="9")
    orders = (
        Wal(NEW)
        .add("c", relation=OLD, commit_lsn=100, after={"id": "1", "Note": 'say "ž"'})
        .add("u", commit_lsn=300, seq=1, before={"id": "1"}, after={"id": "2", "note": "x"})
        .add(
            "c",
            commit_lsn=300,
            seq=10,
            after={
                "id": "3",
                "data": "\\x0102",
                "ratio": "NaN",
                "less": "-Infinity",
                "any": "10.1111",
                "price": "3.14",
            },
        )
        .add("t", commit_lsn=400)
    )
    bag = Wal(BAG).add("c", commit_lsn=200, after={"a": "7"}).add("d", commit_lsn=300, seq=9, before={"a": "7"})
    messages = message_frame(
        spark,
        [
            {
                "commit_lsn": 300,
                "seq": -1,
                "lsn": 300,
                "message": {"prefix": "foo", "content": bytearray(b"bar"), "transactional": False},
            }
        ],
    )
    apply_silver(spark, layout, orders.epoch(spark, OLD), settings)
    apply_silver(spark, layout, bag.epoch(spark), settings)
    apply_messages(spark, layout, TableEpoch(EPOCH, TableName("", "message"), messages, (), None), settings)
    return layout


def records(spark: SparkSession, layout: LakeLayout, settings: EventsSettings, **span: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in events(spark, layout, settings, TABLES, **span)]


def brief(record: dict[str, Any]) -> tuple[str, Any, str | None]:
    value = record["value"]
    return record["destination"], record["key"], None if value is None else value["op"]


def test_all_tables_come_in_one_order_with_tombstones_in_their_place(spark: SparkSession, told: LakeLayout) -> None:
    orders, bag = "p.shop.Orders___co", "p.shop.bag"
    assert [brief(record) for record in records(spark, told, ALL)] == [
        (orders, {"id": 1}, "c"),
        (bag, None, "c"),
        ("p.message", {"prefix": "foo"}, "m"),
        (orders, {"id": 1}, "d"),
        (orders, {"id": 1}, None),
        (orders, {"id": 2}, "c"),
        (bag, None, "d"),
        (bag, None, None),
        (orders, {"id": 3}, "c"),
        (orders, None, "t"),
    ]


def test_tombstones_and_truncates_are_as_configured(spark: SparkSession, told: LakeLayout) -> None:
    shown = records(spark, told, replace(PLAIN, tombstones=False))
    assert [record["value"]["op"] for record in shown] == ["c", "c", "m", "d", "c", "d", "c"]


@pytest.mark.parametrize("settings", [ALL, replace(ALL, transactions=True)], ids=["plain", "with places"])
def test_events_cut_into_pieces_are_the_same(
    spark: SparkSession, told: LakeLayout, settings: EventsSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = records(spark, told, settings)
    monkeypatch.setattr(pieces, "_STEP", 1)
    monkeypatch.setattr(pieces, "_PARTS", (1, 3))
    monkeypatch.setattr(pieces, "_PART_STEPS", 1)
    assert records(spark, told, settings) == whole


@pytest.mark.parametrize("large", ["false", "true"])
def test_events_are_written_as_the_lines_that_they_are(spark: SparkSession, told: LakeLayout, large: str) -> None:
    spark.conf.set("spark.sql.execution.arrow.useLargeVarTypes", large)
    try:
        _written_as_lines(spark, told)
    finally:
        spark.conf.unset("spark.sql.execution.arrow.useLargeVarTypes")


def _written_as_lines(spark: SparkSession, told: LakeLayout) -> None:
    lines, written = list(events(spark, told, ALL, TABLES)), io.BytesIO()
    events(spark, told, ALL, TABLES).write(written)
    assert "ž" in lines[0]
    assert written.getvalue().decode("utf-8") == "".join(f"{line}\n" for line in lines)


def test_a_spark_before_4_1_prints_the_same(
    spark: SparkSession, told: LakeLayout, monkeypatch: pytest.MonkeyPatch
) -> None:
    newer = records(spark, told, ALL)
    for frame in (ClassicFrame, DataFrame):
        monkeypatch.delattr(frame, "repartitionById", raising=False)
    monkeypatch.setattr(pieces, "_STEP", 1)
    assert records(spark, told, ALL) == newer


def test_a_range_holds_the_commits_that_start_in_it(spark: SparkSession, told: LakeLayout) -> None:
    shown = records(spark, told, PLAIN, from_lsn=Lsn(200), to_lsn=Lsn(300), only=list(TABLES))
    assert [brief(record) for record in shown] == [("p.shop.bag", None, "c")]


def test_a_table_that_the_lake_does_not_know_is_named(spark: SparkSession, told: LakeLayout) -> None:
    with pytest.raises(QueryError, match=r"nothing of shop\.typo in the lake"):
        records(spark, told, PLAIN, only=[ORDERS, TableName("shop", "typo")])


def test_a_value_is_printed_as_the_json_converter_prints_it(spark: SparkSession, told: LakeLayout) -> None:
    (line,) = events(spark, told, PLAIN, {ORDERS: (OLD, NEW)}, to_lsn=Lsn(200), only=[ORDERS])
    assert line == (
        '{"destination":"p.shop.Orders___co","key":{"id":1},"value":{"before":null,'
        '"after":{"id":1,"Note":"say \\"ž\\""},'
        '"source":{"version":"9","connector":"postgresql","name":"p","ts_ms":1795246200123,"snapshot":"false",'
        '"db":"db","sequence":"[null,\\"1005\\"]","ts_us":1795246200123456,"ts_ns":1795246200123456000,'
        '"schema":"shop","table":"Orders & co","txId":700,"lsn":1005,"xmin":null,"origin":null,"origin_lsn":null},'
        '"transaction":null,"op":"c","ts_ms":1795246201654,"ts_us":1795246201654321,"ts_ns":1795246201654321000},'
        '"headers":{}}'
    )


def test_special_values_and_bytes_are_printed_as_text(spark: SparkSession, told: LakeLayout) -> None:
    created = records(spark, told, PLAIN)[-1]["value"]["after"]
    assert list(created.items()) == [
        ("note", None),
        ("data", "AQI="),
        ("id", 3),
        ("ratio", "NaN"),
        ("less", "-Infinity"),
        ("any", {"scale": 4, "value": "AYr3"}),
        ("price", "ATo="),
    ]


def test_a_key_change_names_the_other_key_in_headers_of_both_halves(spark: SparkSession, told: LakeLayout) -> None:
    context = {
        "__debezium.context.connectorLogicalName": "p",
        "__debezium.context.taskId": "0",
        "__debezium.context.connectorName": "postgresql",
        "__debezium.context.runId": "r1",
    }
    orders = "p.shop.Orders___co"
    shown = [
        (record["value"] and record["value"]["op"], record["headers"])
        for record in records(spark, told, EventsSettings("p", run_id="r1"))
        if record["destination"] == orders
    ]
    assert shown == [
        ("c", context),
        ("d", {"__debezium.newkey": '{"id":2}'} | context),
        (None, {"__debezium.newkey": '{"id":2}'} | context),
        ("c", {"__debezium.oldkey": '{"id":1}'} | context),
        ("c", context),
    ]


def test_a_message_has_its_own_envelope(spark: SparkSession, told: LakeLayout) -> None:
    (message,) = [record for record in records(spark, told, PLAIN) if record["destination"] == "p.message"]
    value = message["value"]
    assert list(value) == ["op", "ts_ms", "source", "transaction", "message"]
    assert value["message"] == {"prefix": "foo", "content": "YmFy"}  # O42


def test_columns_that_would_share_a_field_are_refused_before_anything_is_printed(spark: SparkSession) -> None:
    table = relation(TableName("s", "t"), [column("a b", "int4"), column("a-b", "int4")])
    frame = spark.createDataFrame([], silver_schema([table]))
    with pytest.raises(FieldCollisionError, match=r"'a b' and 'a-b' of s\.t would both be printed as a_b"):
        lines_of(PrintedRows({table.name: frame}), replace(PLAIN, field_names=NameMode.AVRO), {table.name: [table]})


def test_a_lake_without_silver_has_no_events(spark: SparkSession, lake: LakeLayout) -> None:
    assert records(spark, lake, PLAIN) == []
