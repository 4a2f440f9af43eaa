"""numeric and money, by ``decimal.handling.mode``.

Precise is Connect's Decimal (with a precision) and Debezium's VariableScaleDecimal (without one).

Invariant: exact for every number that PostgreSQL can print, whatever its length. NaN and the infinities have no such
form; Debezium makes them NULL (``decimal.handling.mode`` precise), and so does this, with the text kept beside it.
Source: Debezium documentation, PostgreSQL connector, "Decimal types".

The value's bytes are the unscaled integer, two's complement, big-endian, as few as possible. Up to 18 digits it fits a
BIGINT; a longer one is turned from chunks of 9 decimal digits into limbs of 32 bits by a fold, without a Python worker.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from pyspark.sql.types import BinaryType, DecimalType, DoubleType, IntegerType, StringType, StructField, StructType

from walhouse.pgoutput.column import numeric_modifiers
from walhouse.silver.modes import DecimalMode
from walhouse.silver.types.silver_type import SilverType, let, like, when_like

if TYPE_CHECKING:
    from walhouse.pgoutput.column import ColumnDescription
    from walhouse.silver.modes import TypeModes

DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"
VARIABLE: Final = StructType([StructField("scale", IntegerType()), StructField("value", BinaryType())])

_NUMBER: Final = r"-?[0-9]+(?:\.[0-9]+)?"
_WHOLE: Final = "-?[0-9]+"
_FITS_BIGINT: Final = 18
_CHUNK: Final = 9
_LIMB_BITS: Final = 32
_SPARK_PRECISION: Final = 38
_WORDS: Final = {"NaN": "NAN", "Infinity": "POSITIVE_INFINITY", "-Infinity": "NEGATIVE_INFINITY"}
"""What Debezium calls them in ``decimal.handling.mode`` string."""


def numeric(column: ColumnDescription, modes: TypeModes) -> SilverType:
    """numeric(p,s), or numeric without modifiers."""
    modifiers = numeric_modifiers(column.modifier)
    if modes.decimal is DecimalMode.DOUBLE:
        return _double()
    if modes.decimal is DecimalMode.STRING:
        return _plain(0 if modifiers is None else modifiers.scale)
    if modifiers is None:
        return _exact_text() if modes.decimal is DecimalMode.NATIVE else _variable_scale()
    return _native(*modifiers) if modes.decimal is DecimalMode.NATIVE else _decimal(*modifiers)


def numeric_element(column: ColumnDescription, modes: TypeModes) -> SilverType:
    """In an array, which Debezium cannot convert if one of its elements is no number."""
    scalar = numeric(column, modes)
    if modes.decimal is DecimalMode.NATIVE:
        return scalar
    return replace(scalar, convert=lambda text: when_like(text, _NUMBER, scalar.convert(text)), total=False)


def _double() -> SilverType:
    """As Java rounds a BigDecimal: too large a number becomes infinite."""
    return SilverType(
        DoubleType(),
        "double",
        lambda text: when_like(text, f"{_NUMBER}|NaN|-?Infinity", f"try_cast({text} AS double)"),
        "0D",
    )


def _plain(scale: int) -> SilverType:
    """Digits as PostgreSQL prints them, and Debezium's words for what is no number."""
    words = "".join(f" WHEN {{text}} = '{word}' THEN '{theirs}'" for word, theirs in _WORDS.items())
    shown = "{text}"
    if scale < 0:
        # a default may have decimals of its own
        with_point = "concat({text}, CASE WHEN contains({text}, '.') THEN '' ELSE '.' END)"
        shown = let("number", with_point, f"rpad(number, instr(number, '.') + {_scale_of_debezium(scale)}, '0')")
    return SilverType(
        StringType(),
        "string",
        lambda text: f"CASE{words.format(text=text)} ELSE {shown.format(text=text)} END",
        f"'0{'.' * bool(scale)}{'0' * _scale_of_debezium(scale)}'",
        total=True,
    )


def _scale_of_debezium(scale: int) -> int:
    """A scale below zero (PostgreSQL 15 and later) is read by Debezium 3.6 as a number of 11 bits."""
    return scale & 0x7FF


def _native(precision: int, scale: int) -> SilverType:
    """Spark's decimal where it has room, else the text."""
    if not 0 <= scale <= precision <= _SPARK_PRECISION:
        return _exact_text()
    kind = DecimalType(precision, scale)
    name = kind.simpleString()
    return SilverType(
        kind, name, lambda text: when_like(text, _NUMBER, f"try_cast({text} AS {name})"), f"CAST(0 AS {name})"
    )


def _exact_text() -> SilverType:
    return SilverType(StringType(), "string", lambda text: text, "'0'", total=True)


def money(_: ColumnDescription, modes: TypeModes) -> SilverType:
    """money as a lc_monetary of the United States prints it: ``-$1,234.56``. Only exact decimals are rounded."""
    digits = modes.money_digits

    def bare(text: str) -> str:
        return f"replace(replace({text}, '$', ''), ',', '')"

    def amount(text: str) -> str:
        return f"round(try_cast({bare(text)} AS decimal(38, 10)), {digits})"

    def when_money(text: str, value: str) -> str:
        return when_like(text, r"-?[$]?[0-9]{1,3}(?:,?[0-9]{3}){0,6}(?:\.[0-9]+)?", value)

    if modes.decimal is DecimalMode.DOUBLE:
        return SilverType(
            DoubleType(),
            "double",
            lambda text: when_money(text, f"try_cast({bare(text)} AS double)"),
            "0D",
        )
    if modes.decimal is DecimalMode.STRING:
        return SilverType(
            StringType(),
            "string",
            lambda text: when_money(text, bare(text)),
            f"'{'0.' + '0' * digits if digits else '0'}'",
        )
    if modes.decimal is DecimalMode.NATIVE:
        kind = DecimalType(19 + digits, digits)
        return SilverType(
            kind,
            kind.simpleString(),
            lambda text: when_money(text, f"try_cast({amount(text)} AS {kind.simpleString()})"),
            f"CAST(0 AS {kind.simpleString()})",
        )
    return SilverType(
        BinaryType(),
        "bytes",
        lambda text: when_money(text, _twos_complement(f"replace(string({amount(text)}), '.', '')")),
        "X'00'",
        semantic=DECIMAL,
        version=1,
        parameters={"scale": str(digits)},
    )


def _decimal(precision: int, scale: int) -> SilverType:
    scale = _scale_of_debezium(scale)
    digits = max(precision, precision + scale)

    def convert(text: str) -> str:
        if scale == 0:
            return _twos_complement(text, digits)
        # fewer decimals come from before the column was given more of them
        filled = f"concat({text}, '{'0' * scale}')"
        unscaled = rf"regexp_replace({filled}, r'^(-?[0-9]+)\.([0-9]{{{scale}}})0*\z', r'$1$2')"
        long = _twos_complement(unscaled, digits)
        if scale >= _FITS_BIGINT:
            return long
        as_printed = rf"-?[0-9]{{1,{_FITS_BIGINT - scale}}}\.[0-9]{{{scale}}}"
        short = _bytes_of_bigint(f"try_cast(replace({text}, '.', '') AS bigint)")
        return f"CASE WHEN {like(text, as_printed)} THEN {short} ELSE {long} END"

    return SilverType(
        BinaryType(),
        "bytes",
        convert,
        "X'00'",
        semantic=DECIMAL,
        version=1,
        parameters={"scale": str(scale), "connect.decimal.precision": str(precision)},
    )


def _variable_scale() -> SilverType:
    def convert(text: str) -> str:
        bare = f"CASE WHEN contains({text}, '.') THEN rtrim('0', {text}) ELSE {text} END"
        scale = rf"length(regexp_extract({text}, r'\.([0-9]*[1-9])0*$', 1))"
        value = _twos_complement(f"replace({bare}, '.', '')")
        return when_like(text, _NUMBER, f"named_struct('scale', {scale}, 'value', {value})")

    return SilverType(
        VARIABLE,
        "struct",
        convert,
        "named_struct('scale', 0, 'value', X'00')",
        semantic="io.debezium.data.VariableScaleDecimal",
        version=1,
    )


def _twos_complement(integer: str, digits: int | None = None) -> str:
    """The bytes of a whole number's text; ``digits`` is the most it can have, None if that is unknown."""
    fits = like(integer, f"-?[0-9]{{1,{_FITS_BIGINT}}}")
    short = f"CASE WHEN {fits} THEN {_bytes_of_bigint(f'try_cast({integer} AS bigint)')}"
    if digits is not None and digits <= _FITS_BIGINT:
        return f"{short} END"
    return f"{short} WHEN {like(integer, _WHOLE)} THEN {_shortest(_hex_of_any(integer))} END"


def _bytes_of_bigint(value: str) -> str:
    return _shortest(f"lpad(hex({value}), 16, '0')")


def _shortest(digits: str) -> str:
    """Bytes from the hexadecimal digits of a two's complement, without the leading ones that say nothing."""
    return f"unhex(regexp_replace({digits}, '^(?:(?:00)+(?=[0-7])|(?:FF)+(?=[89A-F]))', ''))"


def _hex_of_any(integer: str) -> str:
    """Two's complement, whole limbs, of a whole number's text of any length.

    The fold makes ``limbs * 10^9 + chunk``, lowest limb first. A carry moves by one limb only in each step, which a
    limb of 64 bits has room for: it stays below 2^33, its product below 2^63. The second fold settles the carries and
    prints.
    """
    # from the right, so that all chunks but the first are full; each chunk's digits then stand the wrong way round
    chunks = f"reverse(regexp_extract_all(reverse({integer}), '[0-9]{{1,{_CHUNK}}}', 0))"
    chunk = f"try_cast(reverse(chunk) AS bigint) * CASE WHEN startswith({integer}, '-') THEN -1 ELSE 1 END"
    base, limb_mask = f"{10**_CHUNK}L", f"{(1 << _LIMB_BITS) - 1}L"
    carry_from = f"CASE WHEN i = 0 THEN {chunk} ELSE shiftright(get(limbs, i - 1) * {base}, {_LIMB_BITS}) END"
    moved = f"transform(limbs, (limb, i) -> ((limb * {base}) & {limb_mask}) + {carry_from})"
    top = f"array(shiftright(element_at(limbs, -1) * {base}, {_LIMB_BITS}))"
    limbs = f"aggregate({chunks}, array(0L), (limbs, chunk) -> concat({moved}, {top}))"
    value = "(limb + done.carry)"
    printed = f"concat(lpad(hex({value} & {limb_mask}), {_LIMB_BITS // 4}, '0'), done.digits)"
    settled = f"named_struct('digits', {printed}, 'carry', shiftright({value}, {_LIMB_BITS}))"
    return f"aggregate({limbs}, named_struct('digits', '', 'carry', 0L), (done, limb) -> {settled}).digits"
