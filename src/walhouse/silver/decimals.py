"""numeric as Connect's Decimal (with a precision) and as Debezium's VariableScaleDecimal (without one).

Invariant: exact for every number that PostgreSQL can print, whatever its length. NaN and the infinities have no such
form; Debezium makes them NULL (``decimal.handling.mode`` precise), and so does this, with the text kept beside it.
Source: Debezium documentation, PostgreSQL connector, "Decimal types".

The value's bytes are the unscaled integer, two's complement, big-endian, as few as possible. Up to 18 digits it fits a
BIGINT; a longer one is turned from chunks of 9 decimal digits into limbs of 32 bits by a fold, without a Python worker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812  (the name everybody knows it by)
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

from walhouse.silver.silver_type import SilverType, typmod, when_like

if TYPE_CHECKING:
    from pyspark.sql import Column

    from walhouse.pgoutput.relation import ColumnDescription

DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"
VARIABLE: Final = StructType([StructField("scale", IntegerType()), StructField("value", BinaryType())])

_NUMBER: Final = r"-?[0-9]+(?:\.[0-9]+)?"
_FITS_BIGINT: Final = 18
_CHUNK: Final = 9
_LIMB_BITS: Final = 32
_LIMB: Final = (1 << _LIMB_BITS) - 1


def numeric(column: ColumnDescription) -> SilverType:
    """numeric(p,s), or numeric without modifiers."""
    modifier = typmod(column)
    if modifier < 0:
        return _variable_scale()
    precision, scale = precision_and_scale(modifier)
    return _decimal(precision, scale)


def precision_and_scale(modifier: int) -> tuple[int, int]:
    """What a numeric's typmod holds: the precision above, the scale in the low 11 bits, signed since PostgreSQL 15."""
    bits = modifier - 4
    return (bits >> 16) & 0xFFFF, ((bits & 0x7FF) ^ 1024) - 1024


def _decimal(precision: int, scale: int) -> SilverType:
    digits = max(precision, precision - scale)

    def convert(text: Column) -> Column:
        if scale <= 0:
            return _twos_complement(F.regexp_replace(text, f"(?<=[0-9])0{{{-scale}}}$", "") if scale else text, digits)
        as_printed = rf"^-?[0-9]{{1,{max(_FITS_BIGINT - scale, 1)}}}\.[0-9]{{{scale}}}$"
        short = _bytes_of_bigint(F.replace(text, F.lit("."), F.lit("")).try_cast("bigint"))
        # fewer decimals come from before the column was given more of them
        filled = F.concat(text, F.lit("0" * scale))
        unscaled = F.regexp_replace(filled, rf"^(-?[0-9]+)\.([0-9]{{{scale}}})0*$", "$1$2")
        long = _twos_complement(unscaled, digits)
        return F.when(text.rlike(as_printed), short).otherwise(long) if scale < _FITS_BIGINT else long

    return SilverType(
        BinaryType(),
        "bytes",
        convert,
        lambda: F.unhex(F.lit("00")),
        semantic=DECIMAL,
        version=1,
        parameters={"scale": str(scale), "connect.decimal.precision": str(precision)},
    )


def _variable_scale() -> SilverType:
    def convert(text: Column) -> Column:
        bare = F.when(text.contains("."), F.rtrim(text, F.lit("0"))).otherwise(text)
        fraction = F.regexp_extract(text, r"\.([0-9]*[1-9])0*$", 1)
        unscaled = F.replace(bare, F.lit("."), F.lit(""))
        number = F.struct(F.length(fraction).alias("scale"), _twos_complement(unscaled).alias("value"))
        return when_like(text, _NUMBER, number)

    def zero() -> Column:
        return F.struct(F.lit(0).alias("scale"), F.unhex(F.lit("00")).alias("value"))

    return SilverType(VARIABLE, "struct", convert, zero, semantic="io.debezium.data.VariableScaleDecimal", version=1)


def _twos_complement(integer: Column, digits: int | None = None) -> Column:
    """The bytes of a whole number's text; ``digits`` is the most it can have, None if that is unknown."""
    short = F.when(integer.rlike(rf"^-?[0-9]{{1,{_FITS_BIGINT}}}$"), _bytes_of_bigint(integer.try_cast("bigint")))
    if digits is not None and digits <= _FITS_BIGINT:
        return short
    return short.otherwise(when_like(integer, "-?[0-9]+", _shortest(_hex_of_any(integer))))


def _bytes_of_bigint(value: Column) -> Column:
    return _shortest(F.lpad(F.hex(value), 16, "0"))


def _shortest(digits: Column) -> Column:
    """Bytes from the hexadecimal digits of a two's complement, without the leading ones that say nothing."""
    return F.unhex(F.regexp_replace(digits, "^(?:(?:00)+(?=[0-7])|(?:FF)+(?=[89A-F]))", ""))


def _hex_of_any(integer: Column) -> Column:
    """Two's complement, whole limbs, of a whole number's text of any length."""
    # from the right, so that all chunks but the first are full; each chunk's digits then stand the wrong way round
    chunks = F.reverse(F.regexp_extract_all(F.reverse(integer), F.lit(f"[0-9]{{1,{_CHUNK}}}"), F.lit(0)))
    negative = integer.startswith("-")

    def append(limbs: Column, chunk: Column) -> Column:
        value = F.reverse(chunk).try_cast("bigint")
        return _times_chunk(limbs, F.when(negative, -value).otherwise(value))

    limbs = F.aggregate(chunks, F.array(F.lit(0).cast("bigint")), append)
    start = F.struct(F.lit("").alias("hex"), F.lit(0).cast("bigint").alias("carry"))
    return F.aggregate(limbs, start, _settle)["hex"]


def _times_chunk(limbs: Column, chunk: Column) -> Column:
    """``limbs * 10^9 + chunk``, lowest limb first.

    A carry moves by one limb only, which a limb of 64 bits has room for: it stays below 2^33, its product below 2^63.
    """
    product = 10**_CHUNK
    moved = F.transform(
        limbs,
        lambda limb, i: (
            (limb * product).bitwiseAND(_LIMB)
            + F.when(i == 0, chunk).otherwise(F.shiftright(F.get(limbs, i - 1) * product, _LIMB_BITS))
        ),
    )
    return F.concat(moved, F.array(F.shiftright(F.element_at(limbs, -1) * product, _LIMB_BITS)))


def _settle(done: Column, limb: Column) -> Column:
    """Settle the carries, lowest limb first, and print each limb before the digits of those below it."""
    value = limb + done["carry"]
    digits = F.lpad(F.hex(value.bitwiseAND(_LIMB)), _LIMB_BITS // 4, "0")
    return F.struct(F.concat(digits, done["hex"]).alias("hex"), F.shiftright(value, _LIMB_BITS).alias("carry"))
