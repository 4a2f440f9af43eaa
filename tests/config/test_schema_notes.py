"""Which columns' schemas tell what, by the connector's properties."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from walhouse.config.configuration import parse
from walhouse.errors import ConfigurationError
from walhouse.names import TableName

if TYPE_CHECKING:
    from walhouse.config.connector import Connector

HEAD = "connector:\n  topic.prefix: p\n  database.hostname: h\n  database.user: u\n  database.dbname: d\n"
TABLE = TableName("s", "t")


def connector(*lines: str) -> Connector:
    body = "".join(f"  {line}\n" for line in lines)
    return parse(f"{HEAD}{body}lake:\n  path: lake\n", Path("/nowhere/walhouse.yml")).connector


def test_a_column_is_chosen_by_its_own_name_or_by_its_types() -> None:
    notes = connector(
        r"column.propagate.source.type: S\.T\.a", r"datatype.propagate.source.type: 's\.t\.int4, s\.u\.(.*)'"
    ).schema_notes
    assert notes.tells_source(TABLE, "a", "text")
    assert notes.tells_source(TABLE, "b", "int4")
    assert not notes.tells_source(TABLE, "b", "text")
    assert not notes.tells_source(TABLE, "aa", "text"), "a pattern matches the whole name"


def test_nothing_is_told_unless_it_is_asked_for() -> None:
    notes = connector().schema_notes
    assert not notes.tells_source(TABLE, "a", "text")
    assert not notes.is_masked(TABLE, "a")
    assert notes.truncated_to(TABLE, "a") is None


def test_of_several_rules_for_a_column_one_is_told() -> None:
    notes = connector(
        r"column.truncate.to.7.chars: s\.t\.a",
        r"column.mask.with.3.chars: s\.t\.(a|b)",
        r"column.mask.hash.v2.MD5.with.salt.x: s\.t\.c",
    ).schema_notes
    told = {name: (notes.truncated_to(TABLE, name), notes.is_masked(TABLE, name)) for name in "abcd"}
    assert told == {"a": (7, False), "b": (None, True), "c": (None, True), "d": (None, False)}


@pytest.mark.parametrize("name", ["schema.name.adjustment.mode", "field.name.adjustment.mode"])
def test_an_unknown_way_of_adjusting_names_is_refused_with_those_there_are(name: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"connector\.{name}.*'none', 'avro' or 'avro_unicode'"):
        connector(f"{name}: protobuf")
