"""Epochs into silver's Delta tables: once is as good as twice, and tables grow with their source."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.silver.bronze_rows import EPOCH, Wal, column, message_frame, numeric_typmod, relation, transaction_frame
from walhouse.changes.epoch import TableEpoch
from walhouse.errors import ConversionError, TypeConflictError
from walhouse.lakehouse.tables import current_version
from walhouse.names import TRANSACTIONS, TableName
from walhouse.silver.apply import apply_messages, apply_silver, apply_transactions
from walhouse.silver.modes import DecimalMode, TypeModes
from walhouse.silver.settings import ConversionFailures, SilverSettings
from walhouse.silver.table import struct_of
from walhouse.silver.without_field import count_without_field

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from walhouse.lakehouse.layout import LakeLayout

pytestmark = pytest.mark.spark

SETTINGS = SilverSettings("shop", "shopdb")
NAME = TableName("shop", "Orders, old")
KEY = column("Id", "int4", nullable=False)
PRICE = column("price", "numeric", typmod=numeric_typmod(10, 2), type_name="numeric(10,2)")

FIRST = relation(NAME, [KEY, column("id", "text"), PRICE], primary_key=("Id",))


def test_an_epoch_applied_twice_or_in_parts_is_applied_once(spark: SparkSession, lake: LakeLayout) -> None:
    wal = (
        Wal(FIRST)
        .add("c", after={"Id": "1", "id": "a", "price": "1.00"})
        .add("u", before={"Id": "1"}, after={"Id": "2", "price": "NaN"}, unchanged=["id"])
    )
    part = Wal(FIRST, rows=wal.rows[:1])
    wal.add("d", before={"Id": "2"})

    begun = apply_silver(spark, lake, part.epoch(spark), SETTINGS)
    whole = apply_silver(spark, lake, wal.epoch(spark), SETTINGS)
    again = apply_silver(spark, lake, wal.epoch(spark), SETTINGS)

    assert begun.counts == {"events": 1, "unavailable": 0, "unconverted": 0}
    assert whole.counts == {"events": 3, "unavailable": 1, "unconverted": 1}
    assert again.counts == {"events": 0, "unavailable": 1, "unconverted": 1}
    assert again.version == whole.version == current_version(spark, lake, lake.silver(NAME))
    written = (
        spark.table(str(lake.silver(NAME))).orderBy("commit_lsn", "seq", "op").select("commit_lsn", "op").collect()
    )
    assert [tuple(row) for row in written] == [(1010, "c"), (1020, "c"), (1020, "d"), (1030, "d")]


def test_an_epoch_without_events_only_makes_the_table(spark: SparkSession, lake: LakeLayout) -> None:
    applied = apply_silver(spark, lake, Wal(FIRST).epoch(spark), SETTINGS)
    assert applied == (0, {"events": 0, "unavailable": 0, "unconverted": 0})


def test_the_table_tells_what_debezium_would_and_whose_each_field_is(spark: SparkSession, lake: LakeLayout) -> None:
    apply_silver(spark, lake, Wal(FIRST).epoch(spark), SETTINGS)
    after = struct_of(spark.table(str(lake.silver(NAME))).schema, "after")
    facts = {field.name: json.loads(field.metadata["comment"]) for field in after.fields}
    assert list(facts) == ["Id", "id__2", "price"]
    assert (facts["Id"]["optional"], facts["id__2"]["column"]) == (False, "id")
    assert facts["price"] == {
        "type": "bytes",
        "name": "org.apache.kafka.connect.data.Decimal",
        "version": 1,
        "optional": True,
        "parameters": {"scale": "2", "connect.decimal.precision": "10"},
        "column": "price",
        "source": "numeric(10,2)",
    }
    properties = {row.key: row.value for row in spark.sql(f"SHOW TBLPROPERTIES {lake.silver(NAME)}").collect()}
    assert (properties["walhouse.source.schema"], properties["walhouse.source.table"]) == ("shop", "Orders, old")


def test_a_column_added_later_is_a_field_added_and_one_removed_stays(spark: SparkSession, lake: LakeLayout) -> None:
    apply_silver(spark, lake, Wal(FIRST).add("c", after={"Id": "1", "id": "a"}).epoch(spark), SETTINGS)
    second = relation(NAME, [column("new, one", "date"), KEY, column("id", "text")], primary_key=("Id", "id"))
    wal = Wal(second, lsn=2000)
    wal.add("c", relation=FIRST, after={"Id": "2", "id": "b", "price": "2.00"})
    wal.add("c", after={"Id": "3", "id": "c", "new, one": "1970-01-02"})
    applied = apply_silver(spark, lake, wal.epoch(spark, FIRST), SETTINGS)

    assert applied.counts["events"] == 2
    rows = spark.table(str(lake.silver(NAME))).orderBy("commit_lsn").collect()
    assert [row.after.asDict() for row in rows] == [
        {"Id": 1, "id__2": "a", "price": None, "new, one": None},
        {"Id": 2, "id__2": "b", "price": b"\0\xc8", "new, one": None},
        {"Id": 3, "id__2": "c", "price": None, "new, one": 1},
    ]
    assert [row.key.asDict() for row in rows] == [
        {"Id": 1, "id__2": None},
        {"Id": 2, "id__2": None},
        {"Id": 3, "id__2": "c"},
    ]
    added = struct_of(spark.table(str(lake.silver(NAME))).schema, "before")["new, one"]
    assert json.loads(added.metadata["comment"])["name"] == "io.debezium.time.Date"

    only = relation(NAME, [column("id", "text")], primary_key=("id",))
    apply_silver(spark, lake, Wal(only, lsn=3000).add("c", after={"id": "d"}).epoch(spark), SETTINGS)
    last = spark.table(str(lake.silver(NAME))).orderBy("commit_lsn").collect()[-1]
    assert last.after.asDict() == {"Id": None, "id__2": "d", "price": None, "new, one": None}


def test_a_column_whose_type_is_altered_gets_a_further_field(spark: SparkSession, lake: LakeLayout) -> None:
    name = TableName("shop", "altered")
    first = replace(relation(name, [KEY, column("id", "text"), PRICE], primary_key=("Id",)), version=1)
    wider = relation(name, [column("Id", "int8", nullable=False), column("id", "int4"), PRICE], primary_key=("Id",))
    begun = Wal(first).add("c", after={"Id": "1", "id": "text", "price": "1.00"})
    apply_silver(spark, lake, begun.epoch(spark), SETTINGS)
    both = (
        Wal(wider, lsn=2000)
        .add("u", relation=first, after={"Id": "1", "price": "2.00"}, unchanged=["id"])
        .add("u", before={"Id": "1"}, after={"Id": "5000000000", "id": "7", "price": "3.00"})
    )
    apply_silver(spark, lake, both.epoch(spark, first), SETTINGS)
    rows = spark.table(str(lake.silver(name))).orderBy("commit_lsn", "op").collect()
    assert [row.op for row in rows] == ["c", "u", "c", "d"]
    assert [row.key.asDict() for row in rows] == [
        {"Id": 1, "Id__3": None},
        {"Id": 1, "Id__3": None},
        {"Id": None, "Id__3": 5000000000},
        {"Id": None, "Id__3": 1},
    ]
    placeholder = "__debezium_unavailable_value"
    assert [row.after and (row.after["id__2"], row.after["id__4"]) for row in rows] == [
        ("text", None),
        (placeholder, None),
        (None, 7),
        None,
    ]
    assert [row.after and bytes(row.after["price"]) for row in rows] == [b"\x64", b"\x00\xc8", b"\x01\x2c", None]
    assert [row.unavailable for row in rows] == [[], ["id"], [], []]


def test_the_same_column_under_other_modes_is_refused_and_nothing_is_written(
    spark: SparkSession, lake: LakeLayout
) -> None:
    applied = apply_silver(spark, lake, Wal(FIRST).add("c", after={"Id": "1"}).epoch(spark), SETTINGS)
    texts = replace(SETTINGS, types=TypeModes(decimal=DecimalMode.STRING))
    with pytest.raises(TypeConflictError, match="Set the handling modes back") as refused:
        apply_silver(spark, lake, Wal(FIRST, lsn=2000).add("c", after={"Id": "2"}).epoch(spark), texts)
    fields = refused.value.fields
    told = tuple(fields[name] for name in ("table", "column", "found", "expected"))
    assert told == (str(NAME), "after.price", "binary", "string"), "the source's table, as walhouse rebuild wants it"
    assert current_version(spark, lake, lake.silver(NAME)) == applied.version


def test_a_table_that_gets_a_key_later_gets_key_fields(spark: SparkSession, lake: LakeLayout) -> None:
    name = TableName("s", "bag")
    bag = relation(name, [column("a", "int4")], identity="f")
    apply_silver(spark, lake, Wal(bag).add("c", after={"a": "1"}).epoch(spark), SETTINGS)
    keyed = relation(name, [column("a", "int4", nullable=False)], primary_key=("a",))
    apply_silver(spark, lake, Wal(keyed, lsn=2000).add("c", after={"a": "2"}).epoch(spark), SETTINGS)
    rows = spark.table(str(lake.silver(name))).orderBy("commit_lsn").collect()
    assert [row.key and row.key.asDict() for row in rows] == [None, {"_": None, "a": 2}]


def test_a_value_without_a_form_is_told_by_its_place_or_stops_the_epoch(
    spark: SparkSession, lake: LakeLayout, caplog: pytest.LogCaptureFixture
) -> None:
    name = TableName("s", "odd")
    table = relation(name, [column("id", "int4"), column("n", "numeric", typmod=numeric_typmod(5, 2))])
    wal = Wal(table, lsn=0x500).add("c", after={"id": "1", "n": "1.50"}).add("c", after={"id": "2", "n": "NaN"})
    fail = replace(SETTINGS, conversion_failures=ConversionFailures.FAIL)
    with pytest.raises(ConversionError) as failure:
        apply_silver(spark, lake, wal.epoch(spark), fail)
    assert (failure.value.fields["lsn"], failure.value.fields["columns"]) == ("0/514", ["after.n"])
    assert "NaN" not in str(failure.value)
    assert spark.table(str(lake.silver(name))).count() == 0
    warn = replace(SETTINGS, conversion_failures=ConversionFailures.WARN)
    assert apply_silver(spark, lake, wal.epoch(spark), warn).counts["unconverted"] == 1
    assert "s.odd: 1 values cannot be converted" in caplog.text
    assert "0/514: after.n" in caplog.text


def test_an_array_of_which_elements_are_lost_is_counted_and_kept_beside_and_stops_nothing(
    spark: SparkSession, lake: LakeLayout, caplog: pytest.LogCaptureFixture
) -> None:
    name = TableName("s", "deep")
    numbers = column("n", "_int4", element_type="int4")
    table = relation(name, [column("id", "int4", nullable=False), numbers], primary_key=("id",))
    wal = Wal(table, lsn=0x500).add("c", after={"id": "1", "n": "{1,NULL}"}).add("c", after={"id": "2", "n": "{{1}}"})
    fail = replace(SETTINGS, conversion_failures=ConversionFailures.FAIL)
    assert apply_silver(spark, lake, wal.epoch(spark), fail).counts == {"events": 2, "unavailable": 0, "unconverted": 1}
    rows = spark.table(str(lake.silver(name))).orderBy("commit_lsn").select("after.n", "unconverted").collect()
    assert [tuple(row) for row in rows] == [([1, None], None), ([None], {"after.n": "{{1}}"})]
    assert caplog.text == ""
    price = column("n", "numeric", typmod=numeric_typmod(5, 2))
    altered = relation(name, [column("id", "int4", nullable=False), price], primary_key=("id",))
    later = Wal(altered, lsn=0x900).add("c", after={"id": "3", "n": "NaN"})
    with pytest.raises(ConversionError):
        apply_silver(spark, lake, later.epoch(spark), fail)
    warn = replace(SETTINGS, conversion_failures=ConversionFailures.WARN)
    assert apply_silver(spark, lake, wal.epoch(spark), warn).counts["unconverted"] == 1
    assert "s.deep: 1 values cannot be converted" in caplog.text


def test_values_of_columns_that_events_leave_out_are_counted(spark: SparkSession, lake: LakeLayout) -> None:
    name = TableName("s", "unknown")
    columns = [column("id", "int4", nullable=False), column("q", "tsquery"), column("v", "int4")]
    table = relation(name, columns, primary_key=("id",), identity="f")
    wal = (
        Wal(table)
        .add("c", after={"id": "1", "q": "'a'", "v": "1"})
        .add("u", before={"id": "1", "q": "'a'", "v": "1"}, after={"id": "1", "v": "2"})
        .add("u", before={"id": "1", "v": "2"}, after={"id": "1", "q": "'b'", "v": "3"})
    )
    counts = apply_silver(spark, lake, wal.epoch(spark), SETTINGS).counts
    assert counts == {"events": 3, "unavailable": 0, "unconverted": 0, "without_field": 3}
    altered = relation(name, [*columns[:2], column("v", "tsquery")], primary_key=("id",))
    assert altered.version != table.version
    wal = Wal(table).add("c", after={"id": "1", "v": "1"})
    wal.add("c", after={"id": "2", "q": "'c'", "v": "'d'"}, relation=altered)
    changes, versions = wal.frame(spark), (table, altered)
    assert count_without_field(changes, versions, SETTINGS.types) == {"without_field": 2}
    assert count_without_field(changes, versions, TypeModes(unknown=True)) == {}


def test_a_transaction_has_one_row_however_often_its_epoch_is_applied(spark: SparkSession, lake: LakeLayout) -> None:
    begun = transaction_frame(spark, [{"commit_lsn": 900, "xid": (1 << 32) + 13}, {"commit_lsn": 950, "xid": 14}])
    epoch = TableEpoch(EPOCH, TRANSACTIONS, begun, (), None)
    assert apply_transactions(spark, lake, epoch).counts == {"events": 2}
    assert apply_transactions(spark, lake, epoch).counts == {"events": 0}
    rows = spark.table(str(lake.silver_transactions)).orderBy("commit_lsn").collect()
    assert [(row.id, row.xid) for row in rows] == [("13:900", (1 << 32) + 13), ("14:950", 14)]


def test_logical_messages_have_an_envelope_of_their_own(spark: SparkSession, lake: LakeLayout) -> None:
    frame = message_frame(
        spark,
        [
            {
                "commit_lsn": 500,
                "seq": -1,
                "lsn": 500,
                "xid": 12,
                "message": {"prefix": "foo", "content": bytearray(b"bar"), "transactional": False},
            },
            {
                "commit_lsn": 900,
                "seq": 3,
                "lsn": 800,
                "xid": (1 << 32) + 13,
                "message": {"prefix": "p", "content": bytearray(b""), "transactional": True},
            },
        ],
    )
    epoch = TableEpoch(EPOCH, TableName("", "message"), frame, (), None)
    assert apply_messages(spark, lake, epoch, SETTINGS).counts == {"events": 2}
    assert apply_messages(spark, lake, epoch, SETTINGS).counts == {"events": 0}
    alone, inside = (
        row.asDict(recursive=True) for row in spark.table(str(lake.silver_messages)).orderBy("seq").collect()
    )
    assert alone["message"] == {"prefix": "foo", "content": b"bar"}  # O42
    assert (alone["op"], alone["transactional"], alone["xid"]) == ("m", False, None)
    source = alone["source"]
    assert (source["schema"], source["table"], source["txId"], source["lsn"]) == ("", "", None, 500)
    assert (inside["source"]["txId"], inside["xid"], inside["commit_lsn"]) == (13, (1 << 32) + 13, 900)
