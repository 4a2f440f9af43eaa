"""point, and PostGIS's geometry and geography.

Source: Debezium documentation, PostgreSQL connector, "Network address types", "PostGIS types"; well-known binary as in
OGC 06-103r4; IEEE 754 for the bytes of a double.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from pyspark.sql.types import BinaryType, DoubleType, IntegerType, StructType

from walhouse.silver.types.binary import text_as_bytes
from walhouse.silver.types.silver_type import SilverType, let, like, when_like

if TYPE_CHECKING:
    from walhouse.pgoutput.column import ColumnDescription
    from walhouse.silver.modes import TypeModes

_NUMBER: Final = r"-?[0-9]+(?:\.[0-9]+)?(?:e[+-][0-9]+)?|NaN|-?Infinity"
_POINT: Final = (
    StructType().add("x", DoubleType()).add("y", DoubleType()).add("wkb", BinaryType()).add("srid", IntegerType())
)
_GEOMETRY: Final = StructType().add("wkb", BinaryType()).add("srid", IntegerType())
_EMPTY: Final = "named_struct('wkb', X'010700000000000000', 'srid', CAST(NULL AS int))"


def point(_: ColumnDescription, __: TypeModes) -> SilverType:
    """x and y, and both once more as well-known binary."""

    def convert(text: str) -> str:
        texts = [f"regexp_extract({text}, r'^[(]({_NUMBER}),({_NUMBER})[)]$', {group})" for group in (1, 2)]
        wkb = f"unhex(concat('0101000000', {', '.join(map(_little_endian, texts))}))"
        x, y = (f"try_cast({each} AS double)" for each in texts)
        value = f"named_struct('x', {x}, 'y', {y}, 'wkb', {wkb}, 'srid', CAST(NULL AS int))"
        return when_like(text, f"[(](?:{_NUMBER}),(?:{_NUMBER})[)]", value)

    origin = f"X'0101{'0' * 38}'"
    zero = f"named_struct('x', 0D, 'y', 0D, 'wkb', {origin}, 'srid', CAST(NULL AS int))"
    return SilverType(_POINT, "struct", convert, zero, semantic="io.debezium.data.geometry.Point", version=1)


def geometry(_: ColumnDescription, __: TypeModes) -> SilverType:
    """The extended well-known binary that PostGIS prints, and its spatial reference once more."""
    return _postgis("io.debezium.data.geometry.Geometry")


def geography(_: ColumnDescription, __: TypeModes) -> SilverType:
    """As geometry."""
    return _postgis("io.debezium.data.geometry.Geography")


def unknown_shape(column: ColumnDescription, modes: TypeModes) -> SilverType:
    """box, circle, line, lseg, path, polygon: Debezium 3.6 shows the JDBC driver's text, whose numbers are Java's."""
    scalar = text_as_bytes(column, modes)

    def convert(text: str) -> str:
        numbers = f"regexp_extract_all({text}, r'{_NUMBER}', 0)"
        between = f"split({text}, r'{_NUMBER}', -1)"
        printed = f"zip_with({between}, {numbers}, (a, b) -> concat(a, coalesce(string(try_cast(b AS double)), '')))"
        return scalar.convert(f"array_join({printed}, '')")

    return replace(scalar, convert=convert)


def _postgis(semantic: str) -> SilverType:
    def convert(text: str) -> str:
        little = f"startswith({text}, '01')"
        flags = f"CASE WHEN {little} THEN {_swapped(f'substring({text}, 3, 8)')} ELSE substring({text}, 3, 8) END"
        has_srid = f"(try_cast(conv({flags}, 16, 10) AS bigint) & 536870912L) <> 0"
        digits = f"CASE WHEN {little} THEN {_swapped(f'substring({text}, 11, 8)')} ELSE substring({text}, 11, 8) END"
        srid = f"CASE WHEN {has_srid} THEN try_cast(conv({digits}, 16, 10) AS int) END"
        value = f"named_struct('wkb', unhex({text}), 'srid', {srid})"
        is_whole = f"{like(text, '0[01][0-9A-Fa-f]{8,}')} AND length({text}) % 2 = 0"
        return f"CASE WHEN {is_whole} THEN {value} END"

    return SilverType(_GEOMETRY, "struct", convert, _EMPTY, semantic=semantic, version=1, unavailable=None)


def _swapped(digits: str) -> str:
    """Four bytes in hexadecimal, the other way round."""
    return f"concat({', '.join(f'substring({digits}, {at}, 2)' for at in (7, 5, 3, 1))})"


def _little_endian(text: str) -> str:
    """The 16 hexadecimal digits of a double's bytes, lowest first, from its text."""
    swapped = f"concat({', '.join(f'substring(digits, {at}, 2)' for at in range(15, 0, -2))})"
    return let("digits", f"lpad(hex({_bits(text)}), 16, '0')", swapped)


def _bits(text: str) -> str:
    """A double's 64 bits as BIGINT: arithmetic with powers of two, which is exact."""
    # the logarithm may round to the next whole number
    settled = "CASE WHEN v * pow(2D, -e) >= 2 THEN e + 1 WHEN v * pow(2D, -e) < 1 THEN e - 1 ELSE e END"
    normal = "shiftleft(bigint(e + 1023), 52) + bigint((v * pow(2D, -e) - 1) * 4503599627370496D)"
    magnitude = (
        "CASE WHEN isnan(v) THEN 9221120237041090560L WHEN v = double('Infinity') THEN 9218868437227405312L"
        " WHEN v < 2.2250738585072014E-308D THEN bigint(v * pow(2D, 537) * pow(2D, 537))"
        f" ELSE {let('e', let('e', 'int(floor(log2(v)))', settled), normal)} END"
    )
    unsigned = let("v", f"abs(try_cast({text} AS double))", magnitude)
    return f"({unsigned} + CASE WHEN startswith({text}, '-') THEN shiftleft(-1L, 63) ELSE 0L END)"
