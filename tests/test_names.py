from __future__ import annotations

import pytest

from walhouse.names import TableName, Tables, caseless, table_names

ORDERS = TableName("shop", "orders")


@pytest.mark.parametrize(
    "given",
    [
        ORDERS,
        "shop.orders",
        [ORDERS],
        ["shop.orders"],
        (ORDERS,),
        ['"shop".orders'],
        iter(["shop.orders"]),
    ],
)
def test_a_table_may_be_named_by_itself_in_a_list_or_written_out(given: Tables) -> None:
    assert table_names(given) == [ORDERS]


def test_several_tables_keep_their_order() -> None:
    assert table_names(["b.c", ORDERS, '"a.b".c']) == [TableName("b", "c"), ORDERS, TableName("a.b", "c")]


@pytest.mark.parametrize("text", ["orders", "", "a.b.c", "shop.", "'shop'.\"orders"])
def test_what_names_no_table_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected SCHEMA\.TABLE"):
        table_names([text])


@pytest.mark.parametrize(
    "names", [("Case", "cASE"), ("ı", "I", "i", "İ", "i\u0307", "I\u0307"), ("Σ", "σ", "ς"), ("K", "\u212a")]
)
def test_names_that_spark_takes_for_one_are_one(names: tuple[str, ...]) -> None:
    """By its resolver, which compares letters without case, or by its search for duplicates, in lower case."""
    assert len({caseless(name) for name in names}) == 1


def test_names_that_spark_tells_apart_are_several() -> None:
    assert len({caseless(name) for name in ("ß", "ss", "e", "é", "e\u0301", "i\u0308")}) == 6
