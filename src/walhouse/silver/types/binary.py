"""bytea, and everything that Debezium shows as bytes of its text: ``binary.handling.mode``.

Source: Debezium documentation, PostgreSQL connector, "binary.handling.mode".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.types import BinaryType, StringType

from walhouse.names import string_literal
from walhouse.silver.modes import BinaryMode
from walhouse.silver.types.silver_type import SilverType

if TYPE_CHECKING:
    from collections.abc import Callable

    from walhouse.pgoutput.column import ColumnDescription
    from walhouse.silver.modes import TypeModes
    from walhouse.silver.settings import SilverSettings


def bytea(_: ColumnDescription, modes: TypeModes) -> SilverType:
    """Printed with bytea_output = hex."""

    def convert(text: str) -> str:
        whole_bytes = f"startswith({text}, r'\\x') AND length({text}) % 2 = 0"
        return f"CASE WHEN {whole_bytes} THEN {in_mode(f'unhex(substring({text}, 3))', modes.binary)} END"

    return _type(modes.binary, convert)


def text_as_bytes(_: ColumnDescription, modes: TypeModes) -> SilverType:
    """A type that Debezium does not know: the bytes of what PostgreSQL prints (``include.unknown.datatypes``)."""
    return _type(modes.binary, lambda text: in_mode(f"encode({text}, 'UTF-8')", modes.binary))


def in_mode(octets: str, mode: BinaryMode) -> str:
    """Bytes as the mode shows them, as SQL."""
    if mode is BinaryMode.HEX:
        return f"lower(hex({octets}))"
    if mode is BinaryMode.BASE64:
        return _base64(octets)
    if mode is BinaryMode.BASE64_URL_SAFE:
        return f"translate({_base64(octets)}, '+/', '-_')"
    return octets


def _base64(octets: str) -> str:
    """Spark breaks the line after 76 characters."""
    return rf"replace(base64({octets}), '\r\n', '')"


def _type(mode: BinaryMode, convert: Callable[[str], str]) -> SilverType:
    if mode is BinaryMode.BYTES:
        return SilverType(BinaryType(), "bytes", convert, "X''", unavailable=_placeholder_bytes)
    # the engine encodes bytes, and its mark of what was not sent is none: in base64 NULL comes out
    shown = _placeholder_text if mode is BinaryMode.HEX else None
    return SilverType(StringType(), "string", convert, "''", unavailable=shown)


def _placeholder_bytes(settings: SilverSettings) -> str:
    return f"X'{settings.placeholder_bytes.hex()}'"


def _placeholder_text(settings: SilverSettings) -> str:
    """The plain text, in none of the encodings."""
    return string_literal(settings.placeholder_text)
