"""The default of a column as Debezium reads it: not what PostgreSQL would compute, but what stands in the expression.

A literal is taken as it is; a call is not made, the type's stand-in is taken for it (zero, the empty text, the epoch);
what is neither has no default. Debezium puts it into the field's schema, into required fields that were not sent, and,
by Kafka Connect's JSON converter, wherever the value is NULL.

Invariant: a default is a text that the type's own rule in silver converts, or None; it never comes from a value.
Source: Debezium documentation, PostgreSQL connector, "Default values"; what is read how was seen on its engine 3.6.3
(scenarios ``defaults`` and ``defaults_not_read``).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from walhouse.pgoutput.column import numeric_modifiers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from walhouse.pgoutput.column import ColumnDescription


class _Reading(NamedTuple):
    """How the default of a type is read."""

    stand_in: str
    """In place of what a function would give."""
    accepted: str = ".*"
    """The texts that are a value; others are no default."""


_WHOLE: Final = r"-?[0-9]+"
_FLOAT: Final = r"-?[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?|NaN|-?Infinity"
_DATE: Final = r"[0-9]{4,}-[0-9]{2}-[0-9]{2}"
_TIME: Final = r"(?!24)[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?"
_BC: Final = "(?: BC)?"
_NUMERIC: Final = 1700
_BOOL: Final = 16

_READINGS: Final[Mapping[int, _Reading]] = {
    _BOOL: _Reading("false"),
    20: _Reading("0", _WHOLE),  # int8
    21: _Reading("0", _WHOLE),  # int2
    23: _Reading("0", _WHOLE),  # int4
    25: _Reading(""),  # text
    114: _Reading("{}"),  # json
    142: _Reading(""),  # xml
    700: _Reading("0", _FLOAT),  # float4
    701: _Reading("0", _FLOAT),  # float8
    1042: _Reading(""),  # bpchar
    1043: _Reading(""),  # varchar
    1082: _Reading("1970-01-01", _DATE + _BC),  # date
    1083: _Reading("00:00:00", _TIME),  # time
    1114: _Reading("1970-01-01 00:00:00", f"{_DATE} {_TIME}{_BC}"),  # timestamp
    1184: _Reading("1970-01-01 00:00:00+00", rf"{_DATE} {_TIME}[+-][0-9:]+{_BC}"),  # timestamptz
    1186: _Reading("00:00:00"),  # interval
    1560: _Reading("00", "[01]+"),  # bit
    1562: _Reading("0", "[01]*"),  # varbit
    _NUMERIC: _Reading("0", r"-?[0-9]+(?:\.[0-9]+)?"),
    2950: _Reading("00000000-0000-0000-0000-000000000000", "[0-9a-fA-F-]{36}"),  # uuid
    3802: _Reading("{}"),  # jsonb
}
"""By the type's OID, so that a domain has none."""

_CALL: Final = re.compile(r"[(]?[A-Za-z0-9_.]+\((?:.+(?:, ?.+)*)?\)")
_CURRENT: Final = frozenset({"current_timestamp", "current_time", "current_date", "localtime", "localtimestamp"})
_QUOTED: Final = re.compile("'([^']*(?:''[^']*)*)'")


def default_is_read(column: ColumnDescription) -> bool:
    """Whether Debezium reads a default of the column's type at all: an enum or one of the list, no domain over these.

    It asks that of the catalog's type, that of now, and reads the expression by the type of the message.
    """
    is_enum = column.kind == "e" and not column.is_of_domain
    return is_enum or column.type_oid in _READINGS


def default_text(column: ColumnDescription) -> str | None:
    """The default as PostgreSQL would print the value."""
    if column.default is None or column.default.startswith("NULL::"):
        return None
    if column.kind == "e":
        return _enum_label(column.default, column.type_name)
    reading = _READINGS.get(column.type_oid)
    if reading is None:
        return None
    text = _literal(column.default, reading.stand_in)
    if text is None or not re.fullmatch(reading.accepted, text, re.DOTALL):
        return None
    if column.type_oid == _BOOL:
        return "t" if text.lower() == "true" else "f"
    return _scaled(text, column.modifier) if column.type_oid == _NUMERIC else text


def _literal(expression: str, stand_in: str) -> str | None:
    """The expression's first literal; all of it where it has no quotes."""
    if _CALL.match(expression) or expression.lower() in _CURRENT:
        return stand_in
    if "'" not in expression:
        return expression
    quoted = _QUOTED.search(expression)
    return None if quoted is None else quoted[1].replace("''", "'")


def _enum_label(expression: str, type_name: str | None) -> str | None:
    """Of a plain ``'label'::type``, with its quotes still doubled."""
    literal, cast, name = expression.rpartition("::")
    is_plain = bool(cast) and name == type_name and len(literal) > 1 and literal[0] == literal[-1] == "'"
    return literal[1:-1] if is_plain else None


def _scaled(number: str, modifier: int) -> str | None:
    """With the digits of the column's scale, as a value has them; None if it has more."""
    modifiers = numeric_modifiers(modifier)
    if modifiers is None or modifiers.scale < 0:
        return number
    scale = modifiers.scale
    whole, _, fraction = number.partition(".")
    fraction = fraction.rstrip("0")
    if len(fraction) > scale:
        return None
    return f"{whole}.{fraction.ljust(scale, '0')}" if scale else whole
