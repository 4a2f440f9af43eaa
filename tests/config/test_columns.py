"""``message.key.columns`` gives the keys that Debezium's engine gives, each case seen there."""

from __future__ import annotations

import pytest

from walhouse.config.columns import ColumnRules, parse_keys
from walhouse.config.filters import NameFilter
from walhouse.names import TableName

T = TableName("public", "t")
COLUMNS = ("a", "b", "d", "id")


def key_of(text: str, table: TableName = T, columns: tuple[str, ...] = COLUMNS) -> tuple[str, ...]:
    return ColumnRules(NameFilter(), parse_keys(text)).key_of(table, columns)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("public.t:a;public.(.*):b", ("a", "b")),
        ("public.t:b;public.t:a", ("b", "a")),
        ("public.t:a,b;public.t:d", ("a", "b", "d")),
        ("public.u:a;public.t:b", ("b",)),
        ("public.t:nope,a", ("a",)),
        ("public.t:nope", ()),
        ("t:b", ()),
    ],
)
def test_a_key_has_the_columns_of_all_entries_that_match_in_their_order(text: str, key: tuple[str, ...]) -> None:
    assert key_of(text) == key


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("public.t:.*", COLUMNS),
        ("public.t:[ab]", ("a", "b")),
        ("public.t:(d|a),id", ("a", "d", "id")),
        ("PUBLIC.T:A", ("a",)),
        ("public.t|public.u:b", ()),
        ("public.t:d|a", ("d",)),
        ("x,public.t:b", ("b",)),
    ],
)
def test_a_columns_pattern_and_its_tables_are_one_for_the_whole_name(text: str, key: tuple[str, ...]) -> None:
    """Of several columns that one pattern matches the table's order counts; a bar without brackets parts the whole."""
    assert key_of(text) == key


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("public.t:b, a", ("b", "a")),
        ("public.t: b ;public.t:a", ("b", "a")),
        (" public.t:b;", ("b",)),
        ("public.t:b, ,a", ("b", "a")),
        ("public.t :b", ()),
    ],
)
def test_blanks_around_columns_and_a_semicolon_behind_all_do_not_count(text: str, key: tuple[str, ...]) -> None:
    assert key_of(text) == key


def test_a_column_may_have_a_blank_or_a_dot_in_its_name() -> None:
    columns = ("A", "B c", "x.y")
    assert key_of("public.u:b c", TableName("public", "u"), columns) == ("B c",)
    assert key_of(r"public.u:x\.y,x.y", TableName("public", "u"), columns) == ("x.y",)


def test_a_column_that_two_entries_name_stands_once() -> None:
    """Debezium's engine stops there."""
    assert key_of("public.t:b,a;.*:b") == ("b", "a")


@pytest.mark.parametrize("text", ["", ";", ";public.t:a", "public.t:a;;public.t:b", "public.t:b,", "public.t:b:c", "t"])
def test_an_entry_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not of the form table:column,column"):
        parse_keys(text)


@pytest.mark.parametrize("text", ["public.[t:a", "public.t:(a", "(public.t:a)", "public.t:a\\"])
def test_a_wrong_pattern_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"the pattern '.*': "):
        parse_keys(text)
