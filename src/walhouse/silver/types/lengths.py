"""How long the values of a column can be, as PostgreSQL's JDBC driver counts.

Invariant: a number's digits, a time's characters, 2147483647 where there is no limit. A domain has those of its base
type.
Source: PgJDBC, ``ResultSetMetaData``, which Debezium asks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from walhouse.pgoutput.column import ColumnDescription

_UNLIMITED: Final = 2**31 - 1

_LENGTHS: Final[Mapping[str, int]] = {
    "bool": 1,
    "char": 1,
    "int2": 5,
    "int4": 10,
    "int8": 19,
    "oid": 10,
    "float4": 8,
    "float8": 17,
    "date": 13,
    "interval": 49,
}
_UNLIMITED_NUMERIC: Final = 131_089
"""All digits that a numeric without a precision can have, as the driver counts them."""

_TIME_LENGTHS: Final[Mapping[str, int]] = {"time": 8, "timetz": 14, "timestamp": 22, "timestamptz": 28}
"""Without the fraction of a second."""


def length(column: ColumnDescription) -> int:
    """Digits of a number, bits of a bit string, characters of anything else; -1 if unknown."""
    name, modifier = _scalar_type(column), column.modifier
    if name in _TIME_LENGTHS:
        return _TIME_LENGTHS[name] + {-1: 7, 0: 0, 1: 3}.get(modifier, modifier + 1)
    if name == "numeric":
        return _UNLIMITED_NUMERIC if modifier < 0 else (modifier - 4) >> 16
    if name == "bit":
        return modifier
    if name in {"varchar", "bpchar", "varbit"} and modifier >= 0:
        return modifier if name == "varbit" else modifier - 4
    return _LENGTHS.get(name, _UNLIMITED)


def can_be_cut(column: ColumnDescription, limit: int) -> bool:
    """Whether its values can be longer than ``column.truncate.to.<limit>.chars`` leaves them."""
    return not 0 <= length(column) <= limit


def scale(column: ColumnDescription) -> int:
    """Digits after the point, also of seconds; 0 for what has none."""
    name, modifier = _scalar_type(column), column.modifier
    if name == "numeric":
        return 0 if modifier < 0 else (modifier - 4) & 0xFFFF
    if name in _TIME_LENGTHS or name == "interval":
        return 6 if modifier < 0 else modifier & 0xFFFF
    return {"float4": 8, "float8": 17}.get(name, 0)


def _scalar_type(column: ColumnDescription) -> str:
    """An array's element; empty for an array of domains, of which the driver knows nothing, and if it is unknown."""
    name = column.resolved_type or ""
    if column.element_type is None:
        return name
    return column.element_type if name == f"_{column.element_type}" else ""
