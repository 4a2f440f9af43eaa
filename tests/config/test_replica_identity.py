"""replica.identity.autoset.values is read as Debezium reads it, and never leaves a choice between two entries."""

from __future__ import annotations

import pytest

from walhouse.config.replica_identity import Identity, IdentityEntry, IdentityRules, parse_identities
from walhouse.errors import ConfigurationError
from walhouse.names import TableName

ORDERS = TableName("shop", "orders")


def test_each_kind_is_read_with_its_table_and_in_any_case() -> None:
    text = r" shop\.orders:FULL , shop\.b{1\,2}:default, shop\.c:Nothing,shop\.d:INDEX d_Key "
    assert parse_identities(text) == (
        IdentityEntry(r"shop\.orders", Identity.FULL),
        IdentityEntry(r"shop\.b{1,2}", Identity.DEFAULT),
        IdentityEntry(r"shop\.c", Identity.NOTHING),
        IdentityEntry(r"shop\.d", Identity.INDEX, "d_Key"),
    )


def test_a_pattern_may_hold_colons() -> None:
    assert parse_identities("(?:a|b).t:INDEX x:y") == (IdentityEntry("(?:a|b).t", Identity.INDEX, "x:y"),)


@pytest.mark.parametrize(
    "text", ["shop.orders", "shop.orders:ALL", "shop.orders:INDEX", "a b:FULL", "a.b:FULL x", ":FULL"]
)
def test_an_entry_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not of the form table:FULL, :DEFAULT, :NOTHING or :INDEX name"):
        parse_identities(text)


def test_a_pattern_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match=r"the pattern 'a\.\[b'"):
        parse_identities("a.[b:FULL")


@pytest.mark.parametrize(
    ("pattern", "case_sensitive", "found"),
    [("SHOP.ORDERS", False, True), ("SHOP.ORDERS", True, False), ("orders", False, False), ("shop.*", True, True)],
)
def test_a_pattern_matches_the_whole_name_as_in_all_lists(pattern: str, case_sensitive: bool, found: bool) -> None:
    rules = IdentityRules((IdentityEntry(pattern, Identity.FULL),), case_sensitive)
    assert (rules.of(ORDERS) is not None) is found


def test_two_entries_for_one_table_are_an_error_that_names_them() -> None:
    rules = IdentityRules(parse_identities("shop.*:FULL,.*orders:INDEX i,other:FULL"))
    with pytest.raises(ConfigurationError, match=r"for shop\.orders: shop\.\*:FULL, \.\*orders:INDEX i"):
        rules.of(ORDERS)
    assert rules.of(TableName("shop", "customers")) == IdentityEntry("shop.*", Identity.FULL)
