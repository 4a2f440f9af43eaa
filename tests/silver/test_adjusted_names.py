"""Names as Avro takes them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walhouse.errors import FieldCollisionError
from walhouse.names import TableName
from walhouse.silver.adjusted_names import NameMode, field_name, require_distinct_fields, schema_name

TABLE = TableName("s", "t")
NAMES = st.text(min_size=1, max_size=12)


@pytest.mark.parametrize(
    ("name", "avro", "unicode"),
    [
        ("plain9", "plain9", "plain9"),
        ("a b", "a_b", "a_u0020b"),
        ("a_b", "a_b", "a_u005fb"),
        ("_a", "_a", "_u005fa"),
        ("a.b", "a_b", "a_u002eb"),
        ("2nd", "_2nd", "_u0032nd"),
        ("-x", "_x", "_u002dx"),
        ("ž", "_", "_u17e"),
        ("a\n", "a_", "a_u00a"),
        ("日x", "_x", "_u65e5x"),
        ("😀", "__", "_ud83d_ude00"),
        ("٣", "_٣", "_u663"),
    ],
)
def test_a_fields_name_has_letters_digits_and_underscores_only(name: str, avro: str, unicode: str) -> None:
    assert field_name(name, NameMode.AVRO) == avro
    assert field_name(name, NameMode.AVRO_UNICODE) == unicode


def test_a_schemas_name_keeps_its_dots_but_not_in_the_first_place() -> None:
    assert schema_name("1-p.s.a_b-c.Key", NameMode.AVRO) == "_1_p.s.a_b_c.Key"
    assert schema_name("1-p.s.a_b-c.Key", NameMode.AVRO_UNICODE) == "_u0031_u002dp.s.a_u005fb_u002dc.Key"
    assert schema_name(".p", NameMode.AVRO) == "_p"


@given(NAMES)
def test_without_a_mode_every_name_stays(name: str) -> None:
    assert field_name(name, NameMode.NONE) == schema_name(name, NameMode.NONE) == name


@given(NAMES, st.sampled_from([NameMode.AVRO, NameMode.AVRO_UNICODE]))
def test_an_ascii_name_becomes_one_that_avro_takes(name: str, mode: NameMode) -> None:
    ascii_name = name.encode("ascii", "replace").decode()
    assert re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", field_name(ascii_name, mode))
    assert re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.]*", schema_name(ascii_name, mode))


def test_two_columns_that_would_be_printed_under_one_name_are_refused() -> None:
    with pytest.raises(FieldCollisionError, match=r"'a b' and 'a-b' of s\.t would both be printed as a_b") as caught:
        require_distinct_fields(TABLE, ["id", "a b", "a-b"], NameMode.AVRO)
    assert caught.value.fields == {"table": "s.t", "columns": ("a b", "a-b"), "name": "a_b"}
    for mode in (NameMode.NONE, NameMode.AVRO_UNICODE):
        require_distinct_fields(TABLE, ["id", "a b", "a-b", "a_b"], mode)
