from __future__ import annotations

import pytest
from pydantic_core import PydanticUndefined

from walhouse.config.connector import MASKS, STATEMENTS, Connector, debezium_name
from walhouse.config.masks import is_mask
from walhouse.config.properties import TABLE, Property, State, find

OTHERS = {MASKS, "case.sensitive.filters"}
"""The field for all properties whose names say what they ask for, and what the lake's section tells the connector."""

FIELDS = {
    debezium_name(name): field for name, field in Connector.model_fields.items() if debezium_name(name) not in OTHERS
}
IF_GIVEN = {"snapshot.max.threads", "incremental.snapshot.watermarking.strategy"}
"""They count only if they are given: Debezium's default is not what happens here, as their notes say."""

USED = [record for record in TABLE if record.state is State.USED]


def test_the_properties_that_are_used_are_exactly_the_models_fields() -> None:
    gathered = {record.name for record in USED if record.is_pattern}
    assert {record.name for record in USED} == set(FIELDS) | gathered
    masks = gathered - {f"{STATEMENTS}.*"}
    assert all(is_mask(name.replace("<length>", "5").replace("*", "v2.MD5.with.salt.x")) for name in masks)


def test_no_property_is_listed_twice() -> None:
    names = [record.name for record in TABLE]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("record", [record for record in USED if not record.is_pattern], ids=lambda r: r.name)
def test_a_fields_default_is_the_tables(record: Property) -> None:
    default = FIELDS[record.name].default
    if record.name in IF_GIVEN:
        assert default is None
        return
    if default is PydanticUndefined or default in (None, (), "", {}):
        shown = None
    elif isinstance(default, tuple):
        shown = ",".join(default)
    else:
        shown = str(default).lower() if isinstance(default, bool) else str(default)
    assert shown == record.default


@pytest.mark.parametrize("record", [record for record in TABLE if record.state is not State.USED], ids=lambda r: r.name)
def test_a_property_that_is_not_used_says_why(record: Property) -> None:
    assert record.note


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("column.mask.with.10.chars", "column.mask.with.<length>.chars"),
        ("column.mask.hash.v2.SHA-256.with.salt.abc", "column.mask.hash.*"),
        ("key.converter.schemas.enable", "key.converter.*"),
        ("snapshot.select.statement.overrides.shop.orders", "snapshot.select.statement.overrides.*"),
        ("topic.prefix", "topic.prefix"),
    ],
)
def test_a_name_of_a_family_finds_its_record(name: str, family: str) -> None:
    record = find(name)
    assert record is not None
    assert record.name == family


@pytest.mark.parametrize(
    "name", ["topic.prefixx", "column.mask.with..chars", "driver.", "Topic.prefix", "topic_prefix"]
)
def test_a_name_that_debezium_does_not_have_finds_nothing(name: str) -> None:
    assert find(name) is None
