"""interval, by ``interval.handling.mode``.

Invariant: read from the text under IntervalStyle postgres, which signs each part by itself. Of an infinite one the
engine knows no part, and shows none at all: zero. Our own ``native`` has NULL.
Source: Debezium documentation, PostgreSQL connector, "interval.handling.mode"; a month has 365.25 / 12 days.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql.types import IntegerType, LongType, StringType, StructType

from walhouse.silver.modes import IntervalMode
from walhouse.silver.types.silver_type import SilverType, let, when_like

if TYPE_CHECKING:
    from walhouse.pgoutput.column import ColumnDescription
    from walhouse.silver.modes import TypeModes

_TIME: Final = r"[+-]?[0-9]+:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?"
_INTERVAL: Final = rf"(?=.)(?:[+-]?[0-9]+ years? ?)?(?:[+-]?[0-9]+ mons? ?)?(?:[+-]?[0-9]+ days? ?)?(?:{_TIME})?"
_NATIVE: Final = StructType().add("months", IntegerType()).add("days", IntegerType()).add("microseconds", LongType())


def interval(_: ColumnDescription, modes: TypeModes) -> SilverType:
    """Microseconds, ISO 8601 text, or its three parts."""
    if modes.interval is IntervalMode.STRING:
        return SilverType(
            StringType(),
            "string",
            lambda text: _unless_infinite(text, "'P0Y0M0DT0H0M0S'", _iso(text)),
            "'P0Y0M0DT0H0M0S'",
            semantic="io.debezium.time.Interval",
            version=1,
            in_part=lambda text, _: _is_infinite(text),
        )
    if modes.interval is IntervalMode.NATIVE:
        return SilverType(
            _NATIVE,
            "struct",
            lambda text: when_like(text, _INTERVAL, _parts(text)),
            "named_struct('months', 0, 'days', 0, 'microseconds', 0L)",
        )
    return SilverType(
        LongType(),
        "int64",
        lambda text: _unless_infinite(text, "0L", _micros(text)),
        "0L",
        semantic="io.debezium.time.MicroDuration",
        version=1,
        in_part=lambda text, _: _is_infinite(text),
    )


def _unless_infinite(text: str, nothing: str, value: str) -> str:
    return f"CASE WHEN {_is_infinite(text)} THEN {nothing} ELSE {when_like(text, _INTERVAL, value)} END"


def _is_infinite(text: str) -> str:
    return f"{text} IN ('infinity', '-infinity')"


def _part(text: str, unit: str) -> str:
    return f"coalesce(try_cast(regexp_extract({text}, '([+-]?[0-9]+) {unit}', 1) AS bigint), 0L)"


def _clock(text: str) -> tuple[str, str, str]:
    """Hours, minutes and seconds (DECIMAL), each with the sign of the time."""
    sign = f"CASE WHEN regexp_like({text}, '-[0-9]+:') THEN -1 ELSE 1 END"
    hours, minutes, seconds = (
        f"coalesce(try_cast(regexp_extract({text}, '([0-9]+):([0-9]+):([0-9.]+)', {group}) AS {kind}), 0)"
        for group, kind in ((1, "bigint"), (2, "bigint"), (3, "decimal(8, 6)"))
    )
    return f"({hours} * {sign})", f"({minutes} * {sign})", f"({seconds} * {sign})"


def _micros(text: str) -> str:
    """In floating point, as Debezium computes it, cut towards zero and at the limits of 64 bits, as Java does."""
    hours, minutes, seconds = _clock(text)
    days = f"(double({_part(text, 'year')} * 12 + {_part(text, 'mon')}) * double(30.4375) + {_part(text, 'day')})"
    micros = f"((((({days} * 24 + {hours}) * 60 + {minutes}) * 60) + double({seconds})) * double(1000000))"
    largest, smallest = f"{2**63 - 1}L", "shiftleft(-1L, 63)"
    limited = f"CASE WHEN m >= 9223372036854775807D THEN {largest} WHEN m <= -9223372036854775808D THEN {smallest}"
    return let("m", micros, f"{limited} ELSE try_cast(m AS bigint) END")


def _iso(text: str) -> str:
    hours, minutes, seconds = _clock(text)
    shown = f"regexp_replace(string({seconds}), '[.]?0*$', '')"
    parts = (
        *((_part(text, unit), letter) for unit, letter in (("year", "Y"), ("mon", "M"), ("day", "DT"))),
        (hours, "H"),
        (minutes, "M"),
        (f"CASE WHEN {seconds} = 0 THEN '0' ELSE {shown} END", "S"),
    )
    return f"concat('P', {', '.join(f'{value}, {letter!r}' for value, letter in parts)})"


def _parts(text: str) -> str:
    hours, minutes, seconds = _clock(text)
    months = f"int({_part(text, 'year')} * 12 + {_part(text, 'mon')})"
    micros = f"({hours} * 60 + {minutes}) * 60000000 + bigint({seconds} * 1000000)"
    return f"named_struct('months', {months}, 'days', int({_part(text, 'day')}), 'microseconds', {micros})"
