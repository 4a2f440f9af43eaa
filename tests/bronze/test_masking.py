"""The plain value of a masked column is in no row of bronze, whether it came by the stream or by a snapshot."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from walhouse.bronze.masking import MaskBook
from walhouse.config.columns import ColumnRules, parse_keys
from walhouse.config.filters import NameFilter
from walhouse.config.masks import Masks, parse_masks
from walhouse.names import TableName
from walhouse.pgoutput.column import ColumnDescription
from walhouse.pgoutput.image import pack, unpack
from walhouse.pgoutput.relation import describe
from walhouse.pgoutput.row import ROW, TEXTS

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
    images = spark.table(str(lake.bronze)).where("before IS NOT NULL OR after IS NOT NULL")
    assert images.count() == 5
    assert images.where("concat_ws('|', before, after) ILIKE '%plain%'").count() == 0
    gold = spark.table(str(lake.gold(house.status().tables[0].table))).orderBy("id").select("name", "note", "age")
    assert [tuple(row) for row in gold.collect()] == [("****", "pl", 37), ("****", None, 1)]
    assert all(proof.equal for proof in house.verify())


def lists(*rows: list[str | None]) -> pa.RecordBatch:
    return of_version(RELATION.version, *rows)


def of_version(version: int, *rows: list[str | None] | None) -> pa.RecordBatch:
    empty = {field.name: pa.nulls(len(rows), field.type) for field in ROW}
    versions = pa.array([version] * len(rows), pa.int64())
    columns = {**empty, "relation_version": versions, "after": pack(pa.array(rows, TEXTS))}
    return pa.RecordBatch.from_arrays([columns[field.name] for field in ROW], schema=ROW)


def masks(properties: dict[str, str]) -> Masks:
    return Masks(parse_masks(properties), ColumnRules(NameFilter(), ()))


RELATION = describe(
    1,
    TableName("s", "t"),
    "d",
    [
        ColumnDescription("id", 23, -1, identity=True),
        ColumnDescription("domain", 20_000, -1, identity=False),
        ColumnDescription("number", 23, -1, identity=False),
    ],
)


def test_a_type_that_nobody_knows_any_more_is_masked_and_a_number_is_not() -> None:
    book = MaskBook(masks({"column.mask.with.2.chars": "s.t.*"}))
    masked = book.masked(lists(["1", "plain", "7"], ["2", None, None]), {RELATION.version: RELATION})
    assert unpack(masked["after"]).to_pylist() == [["1", "**", "7", "**"], ["2", "**", None, "**"]]


def test_rows_of_a_relation_that_is_not_described_are_an_error_and_never_plain() -> None:
    book = MaskBook(masks({"column.mask.with.2.chars": "s.t.*"}))
    with pytest.raises(KeyError):
        book.masked(lists(["1", "plain", "7"]), {})


def test_a_text_longer_than_javas_short_strings_has_a_hash_too() -> None:
    book = MaskBook(masks({"column.mask.hash.SHA-256.with.salt.s": "s.t.domain"}))
    masked = book.masked(lists(["1", "x" * 70_000, "7"]), {RELATION.version: RELATION})
    serialised = b"\xac\xed\x00\x05|" + (70_000).to_bytes(8) + b"x" * 70_000
    assert unpack(masked["after"]).to_pylist()[0][1] == hashlib.sha256(b"s" + serialised).hexdigest()


def test_what_rows_show_of_a_masked_key_stands_behind_the_texts_of_all_columns() -> None:
    columns = [ColumnDescription(name, 25, -1, identity=name != "note") for name in ("a", "note", "b")]
    keyed = replace(describe(1, TableName("s", "t"), "d", columns), primary_key=("b", "a"))
    book = MaskBook(masks({"column.truncate.to.1.chars": "s.t.*"}))
    mixed = pa.concat_batches(
        [of_version(keyed.version, ["one", "two", "three"], None, ["x", None, "yy"]), lists(["other"])]
    )
    described = {keyed.version: keyed, RELATION.version: RELATION}
    assert unpack(book.masked(mixed, described)["after"]).to_pylist() == [
        ["one", "t", "three", "o", "t", "t"],
        None,
        ["x", None, "yy", "x", None, "y"],
        ["other"],
    ]
    assert book.masked_columns(keyed) == ("a", "note", "b")
    of_a_proof = unpack(book.masked(mixed, described, for_events=False)["after"]).to_pylist()
    assert of_a_proof == [["one", "t", "three"], None, ["x", None, "yy"], ["other"]]


def test_a_chosen_key_is_plain_and_so_is_the_primary_one() -> None:
    columns = [ColumnDescription(name, 25, -1, identity=name == "id") for name in ("id", "mail", "note")]
    keyed = replace(describe(1, TableName("s", "t"), "d", columns), primary_key=("id",))
    chosen = ColumnRules(NameFilter(), parse_keys("s.t:mail"))
    book = MaskBook(Masks(parse_masks({"column.mask.with.1.chars": "s.t.*"}), chosen))
    masked = book.masked(of_version(keyed.version, ["1", "m", "n"]), {keyed.version: keyed})
    assert unpack(masked["after"]).to_pylist() == [["1", "m", "*", "*", "*", "*"]]


def test_a_text_is_cut_where_java_would_and_never_within_a_character() -> None:
    """Java counts a character beyond U+FFFF twice."""
    text, cut = "a😀b😀c", {1: "a", 2: "a", 3: "a😀", 4: "a😀b", 5: "a😀b", 6: "a😀b😀", 7: "a😀b😀c", 8: "a😀b😀c"}
    for length, expected in cut.items():
        book = MaskBook(masks({f"column.truncate.to.{length}.chars": "s.t.domain"}))
        masked = book.masked(lists(["1", text, "7"]), {RELATION.version: RELATION})
        assert unpack(masked["after"]).to_pylist()[0][1] == expected


@pytest.mark.parametrize(
    ("facts", "is_hidden"),
    [
        ({"base_type": "mood", "kind": "e"}, True),
        ({"base_type": "name"}, True),
        ({"base_type": "varchar"}, True),
        ({"base_type": "citext"}, False),
        ({"base_type": "uuid"}, False),
        ({"base_type": "_text"}, False),
    ],
)
def test_what_holds_characters_to_the_driver_is_hidden_and_what_does_not_is_cut_where_events_are_made(
    facts: dict[str, str], is_hidden: bool
) -> None:
    column = ColumnDescription("v", 20_000, -1, identity=False, **facts)  # type: ignore[arg-type]  # texts alone
    told = describe(1, TableName("s", "t"), "d", [column])
    rows = of_version(told.version, ["plain"])
    hidden = MaskBook(masks({"column.mask.with.1.chars": "s.t.v"})).masked(rows, {told.version: told})
    assert unpack(hidden["after"]).to_pylist() == [["*", "*"] if is_hidden else ["plain"]]
    cut = MaskBook(masks({"column.truncate.to.2.chars": "s.t.v"}))
    assert unpack(cut.masked(rows, {told.version: told})["after"]).to_pylist() == [
        ["pl", "pl"] if is_hidden else ["plain"]
    ]
    assert cut.cut_to(told.name, column) == (None if is_hidden else 2)


@pytest.mark.parametrize(
    ("type_name", "modifier", "text", "length", "cut"),
    [
        ("char", -1, "\\377", 1, None),
        ("char", -1, "\\377", 0, ""),
        ("varchar", 6, "😀a", 2, None),
        ("varchar", 6, "😀a", 1, ""),
        ("varchar", -1, "😀a", 2, "😀"),
        ("bpchar", 7, "a😀b", 3, None),
        ("bpchar", 7, "a😀b", 2, "a"),
    ],
)
def test_nothing_is_cut_of_a_column_that_is_declared_no_longer_than_the_rule_leaves_it(
    type_name: str, modifier: int, text: str, length: int, cut: str | None
) -> None:
    """PostgreSQL prints a byte of "char" as four characters, and counts one where Java counts two."""
    column = ColumnDescription("c", 18, modifier, identity=False, base_type=type_name)
    told = describe(1, TableName("s", "t"), "d", [column])
    rows = of_version(told.version, [text])
    expected = [text] if cut is None else [cut, cut]
    for rule, shown in ((f"truncate.to.{length}.chars", expected), ("mask.with.2.chars", ["**", "**"])):
        hidden = MaskBook(masks({f"column.{rule}": "s.t.c"})).masked(rows, {told.version: told})
        assert unpack(hidden["after"]).to_pylist() == [shown]
