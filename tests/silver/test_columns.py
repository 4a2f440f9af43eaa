"""Which field a column has: one for each form of its values, for ever."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.silver.bronze_rows import column, numeric_typmod, relation
from walhouse.names import TableName
from walhouse.silver.columns import Form, alike, fields_of, fields_of_version, name_fields, silver_columns
from walhouse.silver.modes import DEFAULTS
from walhouse.silver.table import silver_schema, struct_of

if TYPE_CHECKING:
    from walhouse.pgoutput.column import ColumnDescription
    from walhouse.pgoutput.relation import RelationDescription

INT, TEXT = Form("int", None, None), Form("string", None, None)
NAME = TableName("s", "t")


def version(number: int, *columns: ColumnDescription) -> RelationDescription:
    return replace(relation(NAME, columns), version=number)


def price(precision: int, scale: int) -> ColumnDescription:
    name = f"numeric({precision},{scale})"
    return column("price", "numeric", typmod=numeric_typmod(precision, scale), type_name=name)


def test_fields_that_differ_in_case_only_get_a_number_and_keep_it() -> None:
    columns = [(name, INT) for name in ("A", "a", "b", "A__2")]
    assert list(name_fields(columns, {}).values()) == ["A", "a__2", "b", "A__2__2"]
    given = {("A", INT): "A", ("a", INT): "a__2"}
    assert name_fields([("a", INT), ("B", INT)], given)["a", INT] == "a__2"


def test_a_column_has_a_field_for_each_form_of_its_values() -> None:
    assert list(name_fields([("a", INT), ("a", TEXT), ("a", INT)], {}).values()) == ["a", "a__2"]


def test_versions_are_apart_only_where_a_columns_values_take_another_form() -> None:
    first = version(1, column("id", "int4"), column("name", "varchar", type_name="varchar(5)"), price(8, 2))
    longer = version(2, column("id", "int4"), column("name", "text"), price(12, 2))
    wider = version(3, column("id", "int8"), column("name", "text"))
    scaled = version(4, column("id", "int8"), price(12, 4))
    back = version(5, column("id", "int4"))
    groups = alike([first, longer, wider, scaled, back], DEFAULTS)
    assert [[each.version for each in group] for group in groups] == [[1, 2, 5], [3, 4]]
    assert alike([first], DEFAULTS) == [(first,)]


def test_versions_are_apart_where_a_columns_texts_are_converted_in_another_way() -> None:
    """Of a ``name`` Debezium shows no values: an inet of before must not be taken for one."""
    address, name = version(1, column("a", "inet")), version(2, column("a", "name"))
    assert alike([address, name], DEFAULTS) == [(address,), (name,)]
    assert [field.name for field in struct_of(silver_schema([address, name]), "after")] == ["a"]


def test_types_of_one_spark_type_that_mean_something_else_do_not_share_a_field() -> None:
    stamp, number = version(1, column("at", "timestamp")), version(2, column("at", "int8"))
    after = struct_of(silver_schema([stamp, number]), "after")
    assert [(field.name, field.dataType.simpleString()) for field in after] == [("at", "bigint"), ("at__2", "bigint")]


def test_each_version_finds_its_own_fields_again() -> None:
    old, new = version(1, column("id", "int4"), price(8, 2)), version(2, column("id", "int8"), price(8, 3))
    after = struct_of(silver_schema([old, new]), "after")
    found = [
        {name: field.name for name, field in fields_of_version(after, each, DEFAULTS).items()} for each in (old, new)
    ]
    assert found == [{"id": "id", "price": "price"}, {"id": "id__2", "price": "price__2"}]
    assert [column.field for column in silver_columns([new], DEFAULTS, fields_of(after))] == ["id__2", "price__2"]
