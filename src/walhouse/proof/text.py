"""Gold written as PostgreSQL would write it, so that both sides of the proof are text.

Invariant: nothing here inverts or uses the conversions of ``walhouse.gold.types``, which are what is to be proven.
Floats are not compared as text at all, since two correct printers may differ: both sides give their IEEE 754 bits, the
source's made by PostgreSQL itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql import functions as F
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegralType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from walhouse.gold.columns import RESCUED
from walhouse.names import quote, quote_postgres

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import Column
    from pyspark.sql.types import StructType

    from walhouse.gold.columns import GoldColumn
    from walhouse.pgoutput.column import ColumnDescription
    from walhouse.pgoutput.relation import RelationDescription


class _Ieee(NamedTuple):
    """A binary floating point format: exponent's bias, bits of the fraction, and how long its bits are as text."""

    bias: int
    fraction_bits: int
    digits: int
    infinity: str
    nan: str
    """The one NaN; both sides have others only by accident of arithmetic."""


_FLOAT8: Final = _Ieee(1023, 52, 16, "7ff0000000000000", "7ff8000000000000")
_FLOAT4: Final = _Ieee(127, 23, 8, "7f800000", "7fc00000")


def source_expressions(relation: RelationDescription) -> list[str]:
    """For each column, the SQL that the source's SELECT is to print: the column itself, or a float's bits."""
    return [_source_expression(column) for column in relation.columns]


def gold_texts(columns: Sequence[GoldColumn], schema: StructType) -> Column:
    """A row of a gold table as ARRAY<STRING>: PostgreSQL's texts, floats as bits, rescued texts as they are kept."""
    return F.array(*(_gold_text(column.name, schema[column.name].dataType) for column in columns))


def change_text(text: Column, column: ColumnDescription) -> Column:
    """A column's text in a change's image as the proof writes it: only floats differ."""
    match column.resolved_type:
        case "float8":
            return _bits(text.try_cast("double"), _FLOAT8)
        case "float4":
            # through float, not double: a text rounded twice is another number
            return _bits(text.try_cast("float"), _FLOAT4)
        case _:
            return text


def _source_expression(column: ColumnDescription) -> str:
    name = quote_postgres(column.name)
    match column.resolved_type:
        case "float8":
            return f"CASE WHEN {name} = 'NaN' THEN '{_FLOAT8.nan}' ELSE encode(float8send({name}), 'hex') END"
        case "float4":
            return f"CASE WHEN {name} = 'NaN' THEN '{_FLOAT4.nan}' ELSE encode(float4send({name}), 'hex') END"
        case _:
            return name


def _gold_text(name: str, data_type: DataType) -> Column:
    return F.coalesce(F.col(RESCUED)[name], _native_text(F.col(quote(name)), data_type))


def _native_text(value: Column, data_type: DataType) -> Column:
    if isinstance(data_type, DecimalType):
        return _decimal_text(value, data_type.scale)
    if isinstance(data_type, _PLAIN):
        return value.cast("string")
    return _WRITERS[type(data_type)](value)


def _decimal_text(value: Column, scale: int) -> Column:
    """Digits with exactly ``scale`` decimals. (A decimal's string may have an exponent where ANSI mode is off.)"""
    return F.replace(F.format_number(value, scale), F.lit(","), F.lit(""))


def _utc_text(value: Column) -> Column:
    """Counted from the epoch, so that the session's time zone plays no part."""
    epoch = F.lit("1970-01-01 00:00:00").cast("timestamp_ntz")
    return F.concat(F.timestamp_add("MICROSECOND", F.unix_micros(value), epoch).cast("string"), F.lit("+00"))


def _bits(value: Column, form: _Ieee) -> Column:
    """The bits of an IEEE number, as hexadecimal text.

    Every step is exact: it handles powers of two, and whole numbers below 2^53. For subnormal numbers the exponent
    stays at its least and the fraction has no leading one; since the exponent counts from there, both are one sum.
    """
    number = F.abs(value.cast("double"))
    guess = F.floor(F.log2(number)).cast("double")
    power = F.pow(F.lit(2.0), guess)
    exponent = guess + F.when(number >= power * 2, 1.0).when(number < power, -1.0).otherwise(0.0)
    exponent = F.greatest(exponent, F.lit(float(1 - form.bias)))
    fraction = (number / F.pow(F.lit(2.0), exponent)) * F.lit(float(2**form.fraction_bits))
    whole = F.shiftleft((exponent + (form.bias - 1)).cast("bigint"), form.fraction_bits) + fraction.cast("bigint")
    magnitude = (
        F.when(number == float("inf"), F.lit(form.infinity))
        .when(number == 0.0, F.lit("0" * form.digits))
        .otherwise(F.lpad(F.lower(F.hex(whole)), form.digits, "0"))
    )
    # the first digit holds the sign's bit, and below it at most a seven
    negative = value.cast("string").startswith("-")
    first = F.translate(F.substring(magnitude, 1, 1), "01234567", "89abcdef")
    signed = F.when(negative, F.concat(first, F.substring(magnitude, 2, form.digits))).otherwise(magnitude)
    return F.when(F.isnan(value), F.lit(form.nan)).when(value.isNotNull(), signed)


# Digits; ISO dates with four digits of the year; a fraction without zeros at its end.
_PLAIN: Final = (StringType, IntegralType, DateType, TimestampNTZType)

_WRITERS: Final[dict[type[DataType], Callable[[Column], Column]]] = {
    BooleanType: lambda value: F.when(value, F.lit("t")).when(~value, F.lit("f")),
    TimestampType: _utc_text,
    BinaryType: lambda value: F.concat(F.lit("\\x"), F.lower(F.hex(value))),
    DoubleType: lambda value: _bits(value, _FLOAT8),
    FloatType: lambda value: _bits(value, _FLOAT4),
}
