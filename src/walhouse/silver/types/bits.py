"""bit and bit varying.

Source: Debezium documentation, PostgreSQL connector, "Basic types". The documents say that the value has as many bytes
as the length needs; the engine leaves trailing zero bytes out, and so does this.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from pyspark.sql.types import BinaryType, BooleanType

from walhouse.silver.types.silver_type import SilverType, when_like

if TYPE_CHECKING:
    from walhouse.pgoutput.column import ColumnDescription
    from walhouse.silver.modes import TypeModes

_UNLIMITED: Final = 2147483647


def bit(column: ColumnDescription, _: TypeModes) -> SilverType:
    """bit(1), which is a boolean, or bit(n)."""
    return _boolean() if column.modifier == 1 else _bits(column.modifier)


def varbit(column: ColumnDescription, _: TypeModes) -> SilverType:
    """bit varying(1), which is a boolean, bit varying(n), or one without a limit."""
    length = column.modifier
    return _boolean() if length == 1 else _bits(length if length > 0 else _UNLIMITED)


def array_of_bits(column: ColumnDescription, modes: TypeModes) -> SilverType:
    """bit[]: Debezium declares it as a single one, and has no value then."""
    declared = bit(column, modes)
    return replace(declared, convert=lambda _: f"CAST(NULL AS {declared.spark.simpleString()})")


def _boolean() -> SilverType:
    return SilverType(
        BooleanType(),
        "boolean",
        lambda text: f"CASE {text} WHEN '1' THEN true WHEN '0' THEN false END",
        "false",
    )


def _bits(length: int) -> SilverType:
    """Little-endian: the rightmost bit is the lowest one of the first byte."""

    def convert(text: str) -> str:
        # zeros at the start are the zero bytes at the end
        bits = f"ltrim('0', {text})"
        octets = f"regexp_extract_all(lpad({bits}, int(ceil(length({bits}) / 8) * 8), '0'), '[01]{{8}}', 0)"
        digits = f"array_join(reverse(transform({octets}, octet -> lpad(conv(octet, 2, 16), 2, '0'))), '')"
        return when_like(text, "[01]*", f"unhex({digits})")

    return SilverType(
        BinaryType(),
        "bytes",
        convert,
        "X''",
        semantic="io.debezium.data.Bits",
        version=1,
        parameters={"length": str(length)},
    )
