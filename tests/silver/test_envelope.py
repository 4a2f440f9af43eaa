"""What becomes of a change: op, key, before, after, headers, and what is told beside them.

Each story is one frame of changes and one Spark job; the tests look at single events of it.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.silver.bronze_rows import Wal, column, numeric_typmod, relation
from walhouse.names import TableName
from walhouse.pgoutput.relation import describe
from walhouse.silver.envelope import envelope
from walhouse.silver.settings import SilverSettings
from walhouse.silver.table import silver_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from walhouse.pgoutput.relation import RelationDescription

pytestmark = pytest.mark.spark

SETTINGS = SilverSettings("shop", "shopdb", version="1.2.3")
P = "__debezium_unavailable_value"

Event = dict[str, Any]


def tell(spark: SparkSession, wal: Wal, *older: RelationDescription) -> dict[tuple[int, str], Event]:
    """The events of a story by (commit LSN, op)."""
    relations = (*older, wal.relation)
    rows = envelope(wal.epoch(spark, *older), silver_schema(relations), SETTINGS).collect()
    told = {(row.commit_lsn, row.op): row.asDict(recursive=True) for row in rows}
    assert len(told) == len(rows)
    return told


# One story with replica identity DEFAULT ---------------------------------------------------------------------------

CUSTOMERS = relation(
    TableName("shop", "Customers"),
    [
        column("id", "int4", nullable=False),
        column("Name", "text", nullable=False),
        column("name", "text"),
        column("photo", "bytea"),
        column("big", "numeric"),
        column("amount", "numeric", typmod=numeric_typmod(10, 2), nullable=False),
        column("born, when", "date", nullable=False),
        column("changed", "timestamptz", nullable=False),
        column("mood", "mood", kind="e", enum_labels=("sad", "ok"), nullable=False),
        column("active", "bool", nullable=False),
        column("data", "bytea", nullable=False),
        column("ratio", "numeric", nullable=False),
    ],
    primary_key=("id",),
)
ROW = {
    "id": "1",
    "Name": "Anna",
    "name": "anna",
    "photo": "\\x0102",
    "big": "1.50",
    "amount": "3.14",
    "born, when": "2016-11-04",
    "changed": "2016-11-04 11:51:30.5+00",
    "mood": "ok",
    "active": "t",
    "data": "\\x",
    "ratio": "0.5",
}
SHOWN = {
    "id": 1,
    "Name": "Anna",
    "name__2": "anna",
    "photo": b"\1\2",
    "big": {"scale": 1, "value": b"\x0f"},
    "amount": b"\x01\x3a",
    "born, when": 17109,
    "changed": "2016-11-04T11:51:30.500000Z",
    "mood": "ok",
    "active": True,
    "data": b"",
    "ratio": {"scale": 1, "value": b"\5"},
}
NOTHING_SENT = {
    "Name": "",
    "name__2": None,
    "photo": None,
    "big": None,
    "amount": b"\0",
    "born, when": 0,
    "changed": "1970-01-01T00:00:00Z",
    "mood": "",
    "active": False,
    "data": b"",
    "ratio": {"scale": 0, "value": b"\0"},
}
READ, INSERT, UPDATE, TOAST, MOVE, SAME_KEY, NAN, DELETE, TRUNCATE, ORIGIN = range(2000, 2100, 10)


@pytest.fixture(scope="module")
def customers(spark: SparkSession) -> dict[tuple[int, str], Event]:
    lost = {**ROW, "Name": None, "photo": None, "big": None}
    wal = (
        Wal(CUSTOMERS, lsn=READ - 10)
        .add("r", after=ROW, seq=-5, lsn=None, xid=(3 << 32) + 7)
        .add("c", after=ROW, xid=(3 << 32) + 700)
        .add("u", after=ROW | {"Name": "Anne"})
        .add("u", after=lost, unchanged=["Name", "photo", "big"])
        .add("u", before={"id": "1"}, after=ROW | {"id": "2", "name": None}, unchanged=["name"])
        .add("u", before={"id": "2"}, after=ROW | {"id": "2"})
        .add("u", after=ROW | {"big": "NaN", "born, when": "yesterday"})
        .add("d", before={"id": "2"})
        .add("t")
        .add("c", after=ROW, origin={"name": "elsewhere", "lsn": 77})
        .add("r", after=ROW, superseded=True)
    )
    return tell(spark, wal)


def test_an_insert_has_its_row_and_no_before(customers: dict[tuple[int, str], Event]) -> None:
    event = customers[INSERT, "c"]
    assert (event["key"], event["before"], event["after"]) == ({"id": 1}, None, SHOWN)
    assert (event["unavailable"], event["unconverted"], event["headers"]) == ([], None, None)


def test_the_source_block_says_where_and_when(customers: dict[tuple[int, str], Event]) -> None:
    assert customers[INSERT, "c"]["source"] == {
        "version": "1.2.3",
        "connector": "postgresql",
        "name": "shop",
        "ts_ms": 1795246200123,
        "snapshot": "false",
        "db": "shopdb",
        "sequence": f'[null,"{INSERT - 5}"]',
        "ts_us": 1795246200123456,
        "ts_ns": 1795246200123456000,
        "schema": "shop",
        "table": "Customers",
        "txId": 700,
        "lsn": INSERT - 5,
        "xmin": None,
        "origin": None,
        "origin_lsn": None,
    }


def test_the_events_own_times_are_those_of_capture(customers: dict[tuple[int, str], Event]) -> None:
    event = customers[INSERT, "c"]
    assert [event[name] for name in ("ts_ms", "ts_us", "ts_ns")] == [
        1795246201654,
        1795246201654321,
        1795246201654321000,
    ]


def test_the_streams_xid_has_32_bits_and_our_own_has_64(customers: dict[tuple[int, str], Event]) -> None:
    event = customers[INSERT, "c"]
    assert (event["source"]["txId"], event["xid"]) == (700, (3 << 32) + 700)


def test_a_snapshot_row_stands_at_its_snapshots_lsn(customers: dict[tuple[int, str], Event]) -> None:
    event = customers[READ, "r"]
    source = event["source"]
    assert (source["snapshot"], source["lsn"], source["txId"]) == ("first_in_data_collection", READ, (3 << 32) + 7)
    assert (event["key"], event["before"], event["after"]) == ({"id": 1}, None, SHOWN)


def test_a_superseded_snapshot_row_gives_no_event(customers: dict[tuple[int, str], Event]) -> None:
    assert (ORIGIN + 10, "r") not in customers


def test_an_update_without_a_key_change_has_no_before(customers: dict[tuple[int, str], Event]) -> None:
    event = customers[UPDATE, "u"]
    assert (event["before"], event["after"]) == (None, SHOWN | {"Name": "Anne"})


def test_an_unchanged_toasted_value_is_the_placeholder_and_is_named(customers: dict[tuple[int, str], Event]) -> None:
    event = customers[TOAST, "u"]
    assert event["after"] == SHOWN | {"Name": P, "photo": P.encode(), "big": None}
    assert event["unavailable"] == ["Name", "photo", "big"]


def test_a_key_change_is_a_delete_and_a_create(customers: dict[tuple[int, str], Event]) -> None:
    deleted, created = customers[MOVE, "d"], customers[MOVE, "c"]
    assert (deleted["key"], deleted["before"], deleted["after"]) == ({"id": 1}, {"id": 1} | NOTHING_SENT, None)
    assert (created["key"], created["before"]) == ({"id": 2}, None)
    assert created["after"] == SHOWN | {"id": 2, "name__2": P}
    assert deleted["source"] == created["source"]
    assert (deleted["seq"], created["seq"]) == (0, 0)
    assert (MOVE, "u") not in customers


def test_the_halves_of_a_key_change_carry_each_others_key(customers: dict[tuple[int, str], Event]) -> None:
    assert customers[MOVE, "d"]["headers"] == {"__debezium.newkey": '{"id":2}'}
    assert customers[MOVE, "c"]["headers"] == {"__debezium.oldkey": '{"id":1}'}


def test_the_delete_half_has_nothing_unavailable(customers: dict[tuple[int, str], Event]) -> None:
    assert customers[MOVE, "d"]["unavailable"] == []
    assert customers[MOVE, "c"]["unavailable"] == ["name"]


def test_an_old_tuple_with_the_same_key_is_an_update(customers: dict[tuple[int, str], Event]) -> None:
    event = customers[SAME_KEY, "u"]
    assert (event["before"], event["headers"]) == ({"id": 2} | NOTHING_SENT, None)


def test_a_text_that_no_rule_takes_is_null_and_kept_beside(customers: dict[tuple[int, str], Event]) -> None:
    event = customers[NAN, "u"]
    assert event["after"] == SHOWN | {"big": None, "born, when": None}
    assert event["unconverted"] == {"after.big": "NaN", "after.born, when": "yesterday"}


def test_a_delete_fills_required_columns_that_were_not_sent(customers: dict[tuple[int, str], Event]) -> None:
    event = customers[DELETE, "d"]
    assert (event["key"], event["before"], event["after"]) == ({"id": 2}, {"id": 2} | NOTHING_SENT, None)
    assert event["before_kind"] == "K"


def test_a_truncate_has_neither_key_nor_row(customers: dict[tuple[int, str], Event]) -> None:
    event = customers[TRUNCATE, "t"]
    assert (event["key"], event["before"], event["after"]) == (None, None, None)


def test_the_origin_of_a_replicated_transaction_is_named(customers: dict[tuple[int, str], Event]) -> None:
    source = customers[ORIGIN, "c"]["source"]
    assert (source["origin"], source["origin_lsn"]) == ("elsewhere", 77)


# Other identities and keys -----------------------------------------------------------------------------------------


def test_replica_identity_full_gives_the_old_row_and_its_toasted_values(spark: SparkSession) -> None:
    table = relation(
        TableName("s", "full"),
        [column("k", "numeric", nullable=False), column("v", "text"), column("since", "int4", nullable=False)],
        primary_key=("k",),
        identity="f",
    )
    old = {"k": "1.0", "v": "long", "since": "3"}
    told = tell(
        spark,
        Wal(table, lsn=0)
        .add("u", before=old, after=old | {"v": None, "since": "4"}, unchanged=["v"])
        .add("u", before=old, after=old | {"k": "1.00"})
        .add("u", before=old, after=old | {"k": "2", "v": None}, unchanged=["v"])
        .add("d", before=old | {"since": None})
        .add("u", before=old, after=old | {"v": None}),
    )
    first = told[10, "u"]
    assert (first["before"]["v"], first["after"]["v"], first["unavailable"]) == ("long", "long", [])
    assert told[20, "u"]["headers"] is None, "1.0 and 1.00 are one key"
    assert told[30, "d"]["before"]["v"] == "long"
    assert told[30, "c"]["after"]["v"] == "long"
    assert json.loads(told[30, "d"]["headers"]["__debezium.newkey"]) == {"k": {"scale": 0, "value": "Ag=="}}
    assert told[40, "d"]["before"]["since"] is None, "a null that was sent is a null"
    assert (told[50, "u"]["after"]["v"], told[50, "u"]["unavailable"]) == (None, []), "also where the old row had more"


@pytest.mark.parametrize("identity", ["d", "f"])
def test_an_old_tuple_under_a_root_holds_what_its_leaf_sends_whatever_the_roots_identity(
    spark: SparkSession, identity: str
) -> None:
    columns = [column("id", "int4", nullable=False), column("n", "int4", nullable=False), column("v", "text")]
    table = relation(TableName("s", f"root_{identity}"), columns, primary_key=("id",), identity=identity)
    told = tell(
        spark,
        Wal(replace(table, partitioned=True), lsn=0)
        .add("u", before={"id": "1", "n": "1", "v": "x"}, after={"id": "1", "n": "1", "v": "y"})
        .add("u", before={"n": "1"}, after={"id": "1", "n": "2", "v": "y"})
        .add("u", before={"n": "1"}, after={"id": "0", "n": "2", "v": "y"})
        .add("d", before={"id": "1"}),
    )
    assert [event["before"] for event in told.values() if event["before"]] == [
        {"id": 1, "n": 1, "v": "x"},
        {"id": 0, "n": 1, "v": None},
        {"id": 0, "n": 1, "v": None},
        {"id": 1, "n": 0, "v": None},
    ]
    assert [at for at in told if at[0] in {20, 30}] == [(20, "d"), (20, "c"), (30, "u")], "the old key is made up, too"


def test_a_table_without_a_key_has_none_and_no_key_change(spark: SparkSession) -> None:
    table = relation(TableName("s", "bag"), [column("a", "int4"), column("b", "text")], identity="f")
    told = tell(
        spark,
        Wal(table, lsn=0)
        .add("c", after={"a": "1"})
        .add("u", before={"a": "1"}, after={"a": "2", "b": "x"})
        .add("d", before={"a": "2", "b": "x"}),
    )
    assert [event["key"] for event in told.values()] == [None, None, None]
    assert (told[20, "u"]["before"], told[20, "u"]["after"]) == ({"a": 1, "b": None}, {"a": 2, "b": "x"})


def test_a_key_has_its_own_order_and_may_be_toasted(spark: SparkSession) -> None:
    columns = [column("x", "text", nullable=False), column("y", "int4", nullable=False)]
    table = relation(TableName("s", "pair"), columns, primary_key=("y", "x"))
    key = {"x": "long", "y": "1"}
    told = tell(
        spark,
        Wal(table, lsn=0)
        .add("u", before=key, after={"y": "1"}, unchanged=["x"])
        .add("u", before=key, after={"y": "2"}, unchanged=["x"]),
    )
    assert list(told[10, "u"]["key"].items()) == [("y", 1), ("x", "long")]
    assert told[10, "u"]["unavailable"] == []
    assert told[20, "d"]["headers"] == {"__debezium.newkey": '{"y":2,"x":"long"}'}


def test_a_unique_key_outside_the_identity_is_filled_and_so_seems_to_change(spark: SparkSession) -> None:
    """As the engine has it (scenario key_change_by_index)."""
    columns = [column("pk", "int4", nullable=False), column("val", "int4", identity=True)]
    table = relation(TableName("nopk", "t1"), columns, primary_key=(), unique_keys=(("pk",), ("val",)), identity="i")
    told = tell(
        spark,
        Wal(table, lsn=0).add("u", before={"val": "7"}, after={"pk": "1", "val": "8"}).add("d", before={"val": "8"}),
    )
    assert [told[at]["key"] for at in ((10, "d"), (10, "c"), (20, "d"))] == [{"pk": 0}, {"pk": 1}, {"pk": 0}]
    assert [told[at]["before"] for at in ((10, "d"), (20, "d"))] == [{"pk": 0, "val": 7}, {"pk": 0, "val": 8}]


def test_each_row_is_read_by_its_own_relation_version(spark: SparkSession) -> None:
    name = TableName("s", "grown")
    old = relation(name, [column("id", "int4", nullable=False), column("gone", "text")], primary_key=("id",))
    new = relation(
        name,
        [column("added", "int4", nullable=False), column("id", "int4", nullable=False)],
        primary_key=("id",),
    )
    told = tell(
        spark,
        Wal(new, lsn=0)
        .add("c", relation=old, after={"id": "1", "gone": "x"})
        .add("c", after={"id": "2", "added": "5"})
        .add("d", relation=old, before={"id": "1"}),
        old,
    )
    assert told[10, "c"]["after"] == {"id": 1, "gone": "x", "added": None}
    assert told[20, "c"]["after"] == {"id": 2, "gone": None, "added": 5}
    assert told[30, "d"]["before"] == {"id": 1, "gone": None, "added": None}, (
        "a column that was not there is not filled"
    )


def test_of_a_table_without_columns_only_truncates_and_rows_that_a_snapshot_read_are_events(
    spark: SparkSession,
) -> None:
    story = Wal(relation(TableName("s", "empty"), []), lsn=0)
    told = tell(spark, story.add("c", after={}).add("d", before={}).add("t").add("r", after={}))
    assert list(told) == [(30, "t"), (40, "r")]
    assert told[40, "r"]["after"] == {"_": None}


def test_a_row_of_which_no_column_is_kept_is_an_event(spark: SparkSession) -> None:
    described = describe(1, TableName("s", "left_out"), "d", [column("a", "text")], kept=())
    told = tell(spark, Wal(described, lsn=0).add("c", after={}))
    assert told[10, "c"]["after"] == {"_": None}


def test_under_yugabytedbs_change_what_a_new_row_lacks_is_unchanged_and_not_null(spark: SparkSession) -> None:
    columns = [column("id", "int4", nullable=False), column("n", "int4"), column("note", "text")]
    table = relation(TableName("s", "yb"), columns, primary_key=("id",), identity="c")
    told = tell(
        spark,
        Wal(table, lsn=0)
        .add("u", after={"id": "1", "n": "5"}, unchanged=["note"])
        .add("u", after={"id": "1", "note": None}, unchanged=["n"])
        .add("d", before={"id": "1"}),
    )
    assert told[10, "u"]["after"] == {"id": 1, "n": 5, "note": "__debezium_unavailable_value"}
    assert told[20, "u"]["after"] == {"id": 1, "n": None, "note": None}
    assert [event["unavailable"] for event in told.values()] == [["note"], ["n"], []]
    assert (told[30, "d"]["key"], told[30, "d"]["before"]) == ({"id": 1}, {"id": 1, "n": None, "note": None})
