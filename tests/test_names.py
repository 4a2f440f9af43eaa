from __future__ import annotations

import pytest

from walhouse.names import TableName, Tables, table_names

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
