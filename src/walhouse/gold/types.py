"""PostgreSQL's types as native Delta types: which texts a conversion takes, and what it makes of them.

Invariant: a value is either converted without loss, so that PostgreSQL would print the same text again, or it is not
converted at all. That a cast succeeds proves nothing (Spark reads ``0044-03-15 BC`` as a date, ``1e400`` as infinity),
so each conversion has an anchored pattern, or prints the value again and compares. A type that is not listed here is
PostgreSQL's own text.

Source: PostgreSQL documentation, chapter 8 "Data Types", under the session settings that capture uses (DateStyle ISO,
TimeZone UTC, bytea_output hex, extra_float_digits at full precision).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from walhouse.pgoutput.column import numeric_modifiers

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column

    from walhouse.pgoutput.column import ColumnDescription, NumericModifiers

MAX_PRECISION: Final = 38

# \A and \z, not ^ and $: Java's $ also matches before a line feed at the end. No group is repeated without a bound,
# since Java's matcher recurses for each repetition and a long value would overflow its stack.
_YEAR = r"(?:[1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])"
_DATE = _YEAR + r"-[0-9]{2}-[0-9]{2}"
_TIMESTAMP = _DATE + r" [0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{0,5}[1-9])?"
_FLOAT = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:e[+-][0-9]{2,3})?|-?Infinity|NaN"


@dataclass(frozen=True, slots=True)
class GoldType:
    """One native type. ``convert`` turns text into the value, or NULL where it does not take the text.

    ``refuses`` is True if PostgreSQL itself can print texts that the type cannot hold (``infinity``, ``NaN``, BC).
    ``total`` is True if every text is its own value.
    """

    spark_type: DataType
    convert: Callable[[Column], Column]
    refuses: bool
    total: bool = False


def gold_type(column: ColumnDescription) -> GoldType:
    """The native type of a column, by its base type (domains resolved)."""
    if column.resolved_type == "numeric":
        return _numeric(numeric_modifiers(column.modifier))
    return _TYPES.get(column.resolved_type or "", TEXT)


def _numeric(modifiers: NumericModifiers | None) -> GoldType:
    if modifiers is None:
        return TEXT
    precision, scale = modifiers
    if precision > MAX_PRECISION or not 0 <= scale <= precision:
        return TEXT
    whole = rf"(?:0|[1-9][0-9]{{0,{precision - scale - 1}}})" if precision > scale else "0"
    pattern = rf"\A-?{whole}" + (rf"\.[0-9]{{{scale}}}" if scale else "") + r"\z"
    data_type = DecimalType(precision, scale)

    def convert(text: Column) -> Column:
        # a decimal would lose the sign of a negative zero, which PostgreSQL does not have either
        negative_zero = text.startswith("-") & ~text.rlike("[1-9]")
        return F.when(text.rlike(pattern) & ~negative_zero, text.try_cast(data_type))

    return GoldType(data_type, convert, refuses=True)


def _guarded(data_type: DataType, pattern: str, *, refuses: bool) -> GoldType:
    """A plain cast under its pattern; a text that matches and still cannot be cast (``2024-02-30``) gives NULL."""
    anchored = rf"\A(?:{pattern})\z"
    return GoldType(data_type, lambda text: F.when(text.rlike(anchored), text.try_cast(data_type)), refuses)


def _float(data_type: DataType) -> GoldType:
    anchored = rf"\A(?:{_FLOAT})\z"

    def convert(text: Column) -> Column:
        value = text.try_cast(data_type)
        infinite = F.abs(value) == F.lit(float("inf"))
        overflowed = infinite & ~text.endswith("Infinity")
        underflowed = (value == F.lit(0.0)) & ~text.isin("0", "-0")
        return F.when(text.rlike(anchored) & ~overflowed & ~underflowed, value)

    return GoldType(data_type, convert, refuses=False)


def _boolean() -> GoldType:
    return GoldType(
        BooleanType(),
        lambda text: F.when(text == "t", F.lit(True)).when(text == "f", F.lit(False)),
        refuses=False,
    )


def _bytea() -> GoldType:
    pattern = r"\A\\x[0-9a-f]*\z"

    def convert(text: Column) -> Column:
        return F.when(text.rlike(pattern) & (F.length(text) % 2 == 0), F.unhex(F.substr(text, F.lit(3))))

    return GoldType(BinaryType(), convert, refuses=False)


def _integer(data_type: DataType) -> GoldType:
    def convert(text: Column) -> Column:
        value = text.try_cast(data_type)
        # as strict as a pattern: there is one text of each number. And it takes a third of a pattern's time
        return F.when(value.cast("string") == text, value)

    return GoldType(data_type, convert, refuses=False)


TEXT: Final = GoldType(StringType(), lambda text: text, refuses=False, total=True)
"""PostgreSQL's own text: uuid, json, time, interval, arrays, enums, composites, char(n) with its blanks, and so on."""

_TYPES: Final[dict[str, GoldType]] = {
    "bool": _boolean(),
    "int2": _integer(ShortType()),
    "int4": _integer(IntegerType()),
    "int8": _integer(LongType()),
    "oid": _guarded(LongType(), "0|[1-9][0-9]{0,9}", refuses=False),
    "float4": _float(FloatType()),
    "float8": _float(DoubleType()),
    "date": _guarded(DateType(), _DATE, refuses=True),
    "timestamp": _guarded(TimestampNTZType(), _TIMESTAMP, refuses=True),
    "timestamptz": _guarded(TimestampType(), _TIMESTAMP + r"\+00", refuses=True),
    "bytea": _bytea(),
}
