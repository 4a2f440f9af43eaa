"""Names of schemas and of fields as Avro takes them: ``schema.name.adjustment.mode``, ``field.name.adjustment.mode``.

Invariant: names change where events are printed, and nowhere else; a name without an illegal character stays. A
character is a UTF-16 unit, as in Java.
Source: Debezium 3.6, PostgreSQL connector, "Connector properties"; Apache Avro specification, "Names".
"""

from __future__ import annotations

import re
import unicodedata
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from walhouse.errors import FieldCollisionError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from walhouse.names import TableName


class NameMode(StrEnum):
    """What becomes of a character that Avro does not take."""

    NONE = "none"
    """It stays."""
    AVRO = "avro"
    """It becomes ``_``; before a digit in the first place comes a ``_``."""
    AVRO_UNICODE = "avro_unicode"
    """It becomes ``_u`` and its code in hexadecimal digits; ``_`` itself is such a character, too."""


_LEGAL_FIRST: Final = {NameMode.AVRO: re.compile("[A-Za-z_]"), NameMode.AVRO_UNICODE: re.compile("[A-Za-z]")}
_LEGAL: Final = {NameMode.AVRO: re.compile("[A-Za-z0-9_]"), NameMode.AVRO_UNICODE: re.compile("[A-Za-z0-9]")}


def schema_name(name: str, mode: NameMode) -> str:
    """The name of a schema, whose dots stay; only its very first character is held to the rule for first ones."""
    return _adjusted(name, mode, dots=True)


def field_name(name: str, mode: NameMode) -> str:
    """The name of a column's field."""
    return _adjusted(name, mode, dots=False)


def require_distinct_fields(table: TableName, columns: Iterable[str], mode: NameMode) -> None:
    """Raise FieldCollisionError if two columns would be printed under one name."""
    owners: dict[str, str] = {}
    for column in columns:
        field = field_name(column, mode)
        if owners.setdefault(field, column) != column:
            raise FieldCollisionError(
                f"The columns {owners[field]!r} and {column!r} of {table} would both be printed as {field}.",
                todo="Set field.name.adjustment.mode to another mode, or leave one of them out by column.exclude.list.",
                table=str(table),
                columns=(owners[field], column),
                name=field,
            )


def _adjusted(name: str, mode: NameMode, *, dots: bool) -> str:
    if mode is NameMode.NONE or not name:
        return name
    first, *rest = _units(name)
    legal = _LEGAL[mode]
    begin = first if _LEGAL_FIRST[mode].fullmatch(first) else _replaced(first, mode)
    if begin == "_" and mode is NameMode.AVRO and unicodedata.category(first) == "Nd":
        begin += first
    return begin + "".join(
        unit if legal.fullmatch(unit) or (dots and unit == ".") else _replaced(unit, mode) for unit in rest
    )


def _replaced(unit: str, mode: NameMode) -> str:
    """Debezium puts zeros before codes of one or two digits only: ž is ``_u17e``."""
    if mode is NameMode.AVRO:
        return "_"
    code = f"{ord(unit):x}"
    return f"_u00{code}" if len(code) <= 2 else f"_u{code}"


def _units(name: str) -> list[str]:
    octets = name.encode("utf-16-be", "surrogatepass")
    return [chr(int.from_bytes(octets[at : at + 2])) for at in range(0, len(octets), 2)]
