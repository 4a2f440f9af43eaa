"""What a field's schema tells of its column."""

from __future__ import annotations

from typing import Any

import pytest

from tests.silver.bronze_rows import column, numeric_typmod, relation
from walhouse.config.masks import MaskRule
from walhouse.config.schema_notes import SchemaNotes
from walhouse.names import TableName
from walhouse.silver.records.connect_schema import key_schema, type_schema, value_schema
from walhouse.silver.records.source_types import note_parameters
from walhouse.silver.settings import NO_NOTES, EventsSettings
from walhouse.silver.types.lengths import length, scale
from walhouse.silver.types.registry import silver_type

TABLE = TableName("s", "t")
ALL = SchemaNotes(columns=(".*",))
UNLIMITED = 2_147_483_647


@pytest.mark.parametrize(
    ("base_type", "facts", "expected"),
    [
        ("int4", {}, (10, 0)),
        ("bool", {}, (1, 0)),
        ("text", {}, (UNLIMITED, 0)),
        ("varchar", {"typmod": 9}, (5, 0)),
        ("varchar", {}, (UNLIMITED, 0)),
        ("bit", {"typmod": 8}, (8, 0)),
        ("varbit", {"typmod": 9}, (9, 0)),
        ("numeric", {}, (131_089, 0)),
        ("numeric", {"typmod": numeric_typmod(10, 3)}, (10, 3)),
        ("numeric", {"typmod": numeric_typmod(4, -2)}, (4, 2046)),
        ("float8", {}, (17, 17)),
        ("date", {}, (13, 0)),
        ("timestamptz", {}, (35, 6)),
        ("timestamptz", {"typmod": 3}, (32, 3)),
        ("time", {"typmod": 0}, (8, 0)),
        ("time", {"typmod": 1}, (11, 1)),
        ("interval", {"typmod": 0x7FFF0003}, (49, 3)),
        ("mood", {"kind": "e", "enum_labels": ("sad",)}, (UNLIMITED, 0)),
        ("_numeric", {"element_type": "numeric", "typmod": numeric_typmod(5, 2)}, (5, 2)),
        ("_price", {"element_type": "numeric"}, (UNLIMITED, 0)),
    ],
)
def test_length_and_scale_are_those_of_the_jdbc_driver(
    base_type: str, facts: dict[str, Any], expected: tuple[int, int]
) -> None:
    described = column("c", base_type, **facts)
    assert (length(described), scale(described)) == expected


def test_a_column_tells_its_type_length_scale_and_name() -> None:
    price = column("Price", "numeric", typmod=numeric_typmod(8, 2), declared_type="price")
    assert list(note_parameters(TABLE, price, ALL).items()) == [
        ("__debezium.source.column.type", "PRICE"),
        ("__debezium.source.column.length", "8"),
        ("__debezium.source.column.scale", "2"),
        ("__debezium.source.column.name", "Price"),
    ]


def test_a_column_that_is_not_asked_for_tells_nothing() -> None:
    assert note_parameters(TABLE, column("a", "int4"), NO_NOTES) == {}
    assert note_parameters(TABLE, column("a", "int4"), SchemaNotes(columns=(r"s\.t\.b",), types=(r"s\.t\.int8",))) == {}
    assert note_parameters(TABLE, column("a", "int4"), SchemaNotes(types=(r"S\.T\.INT4",)))


def test_a_type_is_named_as_it_was_declared() -> None:
    price = column("a", "numeric", declared_type="price")
    assert note_parameters(TABLE, price, SchemaNotes(types=(r"s\.t\.price",)))
    assert note_parameters(TABLE, price, SchemaNotes(types=(r"s\.t\.numeric",))) == {}


@pytest.mark.parametrize("kind", ["mask", "hash"])
def test_a_hidden_column_tells_that_and_nothing_else(kind: str) -> None:
    hidden = SchemaNotes(masks=(MaskRule("p", (r"s\.t\.a",), kind, 5),), columns=(".*",))
    assert note_parameters(TABLE, column("a", "text"), hidden) == {"masked": "true"}


def test_a_cut_column_tells_its_length_unless_it_is_too_short_to_be_cut() -> None:
    cut = SchemaNotes(masks=(MaskRule("p", (".*",), "truncate", 5),), columns=(".*",))
    assert note_parameters(TABLE, column("a", "text"), cut) == {"truncateLength": "5"}
    assert note_parameters(TABLE, column("a", "varchar", typmod=9), cut) == {}
    assert note_parameters(TABLE, column("a", "varchar", typmod=10), cut) == {"truncateLength": "5"}
    assert note_parameters(TABLE, column("a", "int4"), cut) == {"truncateLength": "5"}


def test_notes_come_after_the_types_own_parameters_and_never_into_keys() -> None:
    described = relation(TABLE, [column("n", "numeric", typmod=numeric_typmod(5, 2))], primary_key=("n",))
    settings = EventsSettings("p", notes=ALL)
    (field,) = value_schema(described, settings, "p.s.t")["fields"][0]["fields"]
    assert list(field["parameters"])[:3] == ["scale", "connect.decimal.precision", "__debezium.source.column.type"]
    (field,) = key_schema(described, settings, "p.s.t")["fields"]
    assert list(field["parameters"]) == ["scale", "connect.decimal.precision"]
    kind = silver_type(column("a", "int4"))
    assert kind is not None
    assert "parameters" not in type_schema(kind, optional=True)
