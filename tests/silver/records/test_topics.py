"""Destinations, keys and settings: what needs no Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.silver.bronze_rows import column, relation
from walhouse.errors import NameCollisionError
from walhouse.names import TableName
from walhouse.silver.keys import key_columns
from walhouse.silver.records.topics import message_topic, require_distinct_topics, sanitise, table_topic
from walhouse.silver.settings import EventsSettings, SilverSettings

if TYPE_CHECKING:
    from walhouse.pgoutput.relation import RelationDescription


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("p.public.orders", "p.public.orders"),
        ("p.s.Orders & žš", "p.s.Orders_____"),
        ("p.s.😀", "p.s.__"),
        ("a" * 300, "a" * 249),
        (".", "_"),
        ("..", "__"),
    ],
)
def test_a_destination_is_a_name_that_kafka_takes(name: str, expected: str) -> None:
    assert sanitise(name) == expected


def test_the_delimiter_stands_between_the_parts_but_for_messages() -> None:
    settings = EventsSettings("p", delimiter="-")
    assert (table_topic(TableName("s", "t"), settings), message_topic(settings)) == ("p-s-t", "p.message")


def test_two_tables_with_one_destination_are_refused() -> None:
    settings = EventsSettings("p")
    require_distinct_topics([TableName("s", "a b"), TableName("s", "a-b")], settings)
    with pytest.raises(NameCollisionError, match=r"s\.a b and of s\.a&b would both go to p\.s\.a_b"):
        require_distinct_topics([TableName("s", "a b"), TableName("s", "a&b")], settings)


def test_a_placeholder_in_hex_is_the_bytes_it_names() -> None:
    settings = SilverSettings("p", "d", placeholder="hex:c5be00")
    assert (settings.placeholder_bytes, settings.placeholder_text) == (b"\xc5\xbe\x00", "ž\0")


def keyed(primary: tuple[str, ...] | None, *unique: tuple[str, ...], identity: str = "d") -> RelationDescription:
    columns = [column("a", "int4", identity=identity == "i"), column("b", "int4"), column("c", "int4")]
    return relation(TableName("s", "t"), columns, primary_key=primary, unique_keys=unique, identity=identity)


def test_the_key_is_the_primary_key_in_its_order() -> None:
    assert key_columns(keyed(("b", "a"), ("c",))) == ("b", "a")


def test_the_key_is_else_the_first_unique_key() -> None:
    assert key_columns(keyed((), ("c",), ("a",))) == ("c",)  # O41


def test_a_table_without_either_has_no_key() -> None:
    assert key_columns(keyed((), identity="f")) == ()
    assert key_columns(keyed((), (), identity="i")) == (), "nothing is left of the unique index, and no other stands in"


def test_an_unknown_key_is_the_replica_identity_if_that_is_a_key() -> None:
    assert key_columns(keyed(None, identity="i")) == ("a",)
    assert key_columns(keyed(None, identity="f")) == ()
