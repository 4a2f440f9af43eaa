from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walhouse.config.columns import ColumnRules, parse_keys
from walhouse.config.filters import NameFilter, TableFilter, split_list
from walhouse.names import TableName

ORDERS = TableName("shop", "orders")


def test_a_list_is_split_at_commas_trimmed_and_a_backslash_keeps_a_comma() -> None:
    assert split_list(r" shop\.a , shop\.b{1\,2} ,, c\\,d ") == (r"shop\.a", r"shop\.b{1,2}", r"c\\", "d")


@given(st.lists(st.text(alphabet="abc.*+[]| ", min_size=1).map(str.strip).filter(bool)))
def test_a_list_of_patterns_without_commas_or_backslashes_survives_joining(patterns: list[str]) -> None:
    assert split_list(" , ".join(patterns)) == tuple(patterns)


@pytest.mark.parametrize(
    ("pattern", "captured"),
    [
        (r"shop\.orders", True),
        (r"SHOP\.Orders", True),
        ("shop.orders", True),
        (r"shop\..*", True),
        ("orders", False),
        (r"shop\.order", False),
        (r"hop\.orders", False),
    ],
)
def test_a_table_pattern_matches_the_whole_name_without_case(pattern: str, captured: bool) -> None:
    assert TableFilter(tables=NameFilter(include=(pattern,))).captures(ORDERS) is captured
    assert TableFilter(tables=NameFilter(exclude=(pattern,))).captures(ORDERS) is not captured


def test_schema_and_table_lists_must_both_let_a_table_through() -> None:
    both = TableFilter(schemas=NameFilter(include=("shop",)), tables=NameFilter(exclude=(r".*\.orders",)))
    assert not both.captures(ORDERS)
    assert both.captures(TableName("shop", "customers"))
    assert not both.captures(TableName("public", "customers"))


@pytest.mark.parametrize("schema", ["pg_catalog", "information_schema", "pg_toast", "pg_temp_3", "pg_toast_temp_3"])
def test_the_systems_schemas_are_never_captured(schema: str) -> None:
    everything = TableFilter(schemas=NameFilter(include=(".*",)), tables=NameFilter(include=(".*",)))
    assert not everything.captures(TableName(schema, "pg_class"))


def test_an_excluded_column_is_left_out_unless_it_is_part_of_the_key() -> None:
    columns = ("id", "name", "phone", "Phone2")
    left_out = TableFilter(columns=NameFilter(exclude=(r"shop\.orders\.phone\d?", r".*\.id")))
    assert left_out.kept_columns(ORDERS, columns, key=("id",)) == (0, 1)


def test_an_include_list_of_columns_speaks_for_every_table() -> None:
    kept = TableFilter(columns=NameFilter(include=(r"shop\.orders\.name",)))
    assert kept.kept_columns(ORDERS, ("id", "name", "note"), key=("id",)) == (0, 1)
    assert kept.kept_columns(TableName("shop", "customers"), ("id", "name"), key=("id",)) == (0,)


def test_a_case_sensitive_filter_tells_names_apart_that_differ_in_case_only() -> None:
    upper, lower = TableName("public", "Users"), TableName("public", "users")
    told = TableFilter(tables=NameFilter(include=(r"public\.Users",), case_sensitive=True))
    assert (told.captures(upper), told.captures(lower)) == (True, False)
    left_out = TableFilter(columns=NameFilter(exclude=(r"public\.users\.Name",), case_sensitive=True))
    assert left_out.kept_columns(lower, ("id", "name", "Name"), key=("id",)) == (0, 1)
    keys = ColumnRules(NameFilter(), parse_keys("public.Users:a;public.users:b"), case_sensitive=True)
    assert (keys.key_of(upper, ("a", "b")), keys.key_of(lower, ("a", "b"))) == (("a",), ("b",))


def test_a_filter_can_be_sent_to_a_task() -> None:
    original = TableFilter(tables=NameFilter(include=(r"shop\..*",)))
    assert pickle.loads(pickle.dumps(original)) == original
