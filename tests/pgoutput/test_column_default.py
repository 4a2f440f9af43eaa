"""What is read out of a default's expression. Scenarios defaults and defaults_not_read show the same on the engine."""

from __future__ import annotations

import pytest

from walhouse.pgoutput.column import ColumnDescription
from walhouse.pgoutput.column_default import default_text

INT, TEXT, BOOL, NUMERIC, DATE, TIMESTAMP, JSON, BIT, INET, DOMAIN = 23, 25, 16, 1700, 1082, 1114, 114, 1560, 869, 99999
SCALE_2 = (8 << 16) + 2 + 4


def column(oid: int, default: str | None, typmod: int = -1) -> ColumnDescription:
    return ColumnDescription("c", oid, typmod, identity=False, default=default)


@pytest.mark.parametrize(
    ("oid", "expression", "text"),
    [
        (INT, None, None),
        (INT, "42", "42"),
        (INT, "'-7'::integer", "-7"),
        (INT, "NULL::integer", None),
        (INT, "nextval('t_id_seq'::regclass)", "0"),
        (INT, "(40 + 2)", None),
        (TEXT, "'it''s'::text", "it's"),
        (TEXT, "''::text", ""),
        (TEXT, "('a'::text || 'b'::text)", "a"),
        (TEXT, "upper('x'::text)", ""),
        (TEXT, "CURRENT_USER", "CURRENT_USER"),
        (BOOL, "true", "t"),
        (BOOL, "(1 = 1)", "f"),
        (DATE, "'0044-03-15 BC'::date", "0044-03-15 BC"),
        (DATE, "'infinity'::date", None),
        (DATE, "CURRENT_DATE", "1970-01-01"),
        (DATE, "('now'::text)::date", None),
        (TIMESTAMP, "now()", "1970-01-01 00:00:00"),
        (JSON, "json_build_object('a', 1)", "{}"),
        (BIT, "B'110'::\"bit\"", "110"),
        (BIT, "(5)::bit(3)", None),
        (INET, "'10.0.0.1'::inet", None),
        (DOMAIN, "'1'::text", None),
    ],
)
def test_a_default_is_the_first_literal_or_a_stand_in(oid: int, expression: str | None, text: str | None) -> None:
    assert default_text(column(oid, expression)) == text


@pytest.mark.parametrize(
    ("expression", "text"),
    [("1.5", "1.50"), ("'-7'::integer", "-7.00"), ("2.500", "2.50"), ("2.555", None), ("'NaN'::numeric", None)],
)
def test_a_number_gets_the_digits_of_its_column_and_none_if_it_has_more(expression: str, text: str | None) -> None:
    assert default_text(column(NUMERIC, expression, SCALE_2)) == text


@pytest.mark.parametrize(
    ("expression", "text"),
    [("'happy'::mood", "happy"), ("'it''s'::mood", "it''s"), ("('a'::text)::mood", None), ("'a'::other", None)],
)
def test_an_enums_label_is_taken_out_of_a_plain_cast_alone_with_its_quotes_as_they_are(
    expression: str, text: str | None
) -> None:
    label = ColumnDescription("c", 17000, -1, identity=False, kind="e", type_name="mood", default=expression)
    assert default_text(label) == text
