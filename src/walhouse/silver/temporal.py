"""Dates and times in Debezium's default mode, ``time.precision.mode`` adaptive.

Invariant: arithmetic over the text that PostgreSQL prints under DateStyle ISO and TimeZone UTC; no session's time zone
and no calendar but the proleptic Gregorian one has a say.
Source: Debezium documentation, PostgreSQL connector, "Temporal types". The scale of a type without modifier is 6.

The constants for infinity are those that Debezium 3.6 streams: the JDBC driver's milliseconds, taken as microseconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql.types import DataType, IntegerType, LongType, StringType

from walhouse.silver.silver_type import SilverType, like, typmod, when_like

if TYPE_CHECKING:
    from collections.abc import Callable

    from walhouse.pgoutput.relation import ColumnDescription

_DATE: Final = "[0-9]{4,7}-[0-9]{2}-[0-9]{2}"
_PLAIN_DATE: Final = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIME: Final = r"[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?"

_DATE_INFINITY: Final = {"infinity": -2147472692, "-infinity": -2147472691}
_MICROS_INFINITY: Final = {"infinity": 9223372036825200000, "-infinity": -9223372036832400000}
_MILLIS_INFINITY: Final = {"infinity": 9223372036825200, "-infinity": -9223372036832400}

_DAYS_OF_400_YEARS: Final = 146097


def date(_: ColumnDescription) -> SilverType:
    """Days since 1970-01-01."""

    def convert(text: str) -> str:
        plain = f"unix_date(try_cast({text} AS date))"
        far = when_like(text, f"{_DATE}(?: BC)?", f"try_cast({_days(text)} AS int)")
        return f"CASE WHEN {like(text, _PLAIN_DATE)} THEN {plain}{_infinity(text, _DATE_INFINITY)} ELSE {far} END"

    return _integer(IntegerType(), "int32", "io.debezium.time.Date", convert)


def time(column: ColumnDescription) -> SilverType:
    """Since midnight: milliseconds up to three decimals, else microseconds. 24:00:00 is a whole day."""
    if 0 <= typmod(column) <= 3:
        return _integer(
            IntegerType(),
            "int32",
            "io.debezium.time.Time",
            lambda text: when_like(text, _TIME, f"int({_since_midnight(text, 3)})"),
        )
    return _integer(
        LongType(), "int64", "io.debezium.time.MicroTime", lambda text: when_like(text, _TIME, _since_midnight(text, 6))
    )


def timestamp(column: ColumnDescription) -> SilverType:
    """Since the epoch, taken as UTC: milliseconds up to three decimals, else microseconds."""
    if 0 <= typmod(column) <= 3:
        return _timestamp("io.debezium.time.Timestamp", 3, "unix_millis", _MILLIS_INFINITY)
    return _timestamp("io.debezium.time.MicroTimestamp", 6, "unix_micros", _MICROS_INFINITY)


def _timestamp(semantic: str, decimals: int, since_epoch: str, infinity: dict[str, int]) -> SilverType:
    def convert(text: str) -> str:
        # the zone in the text keeps the session's out of it
        plain = f"{since_epoch}(try_cast(concat({text}, 'Z') AS timestamp))"
        far = when_like(text, f"{_DATE} {_TIME}(?: BC)?", _far_timestamp(text, decimals))
        is_plain = like(text, f"{_PLAIN_DATE} {_TIME}")
        return f"CASE WHEN {is_plain} THEN {plain}{_infinity(text, infinity)} ELSE {far} END"

    return _integer(LongType(), "int64", semantic, convert)


def zoned_timestamp(column: ColumnDescription) -> SilverType:
    """ISO text in UTC with exactly as many decimals as the type has."""
    modifier = typmod(column)
    decimals = 6 if modifier < 0 else modifier

    def convert(text: str) -> str:
        plain = _iso(f"substring({text}, 1, 10)", f"substring({text}, 12, length({text}) - 14)", decimals)
        far_time = f"substring_index(split_part({text}, ' ', 2), '+', 1)"
        far_date = f"concat({_iso_year(text)}, {_month_and_day(text)})"
        far = when_like(text, rf"{_DATE} {_TIME}\+00(?: BC)?", _iso(far_date, far_time, decimals))
        is_plain = like(text, rf"{_PLAIN_DATE} {_TIME}\+00")
        return f"CASE WHEN {is_plain} THEN {plain} WHEN {text} IN ('infinity', '-infinity') THEN {text} ELSE {far} END"

    return SilverType(
        StringType(),
        "string",
        convert,
        "'1970-01-01T00:00:00Z'",
        semantic="io.debezium.time.ZonedTimestamp",
        version=1,
        toastable=False,
    )


def _integer(kind: DataType, literal: str, semantic: str, convert: Callable[[str], str]) -> SilverType:
    zero = f"CAST(0 AS {kind.simpleString()})"
    return SilverType(kind, literal, convert, zero, semantic=semantic, version=1, toastable=False)


def _infinity(text: str, values: dict[str, int]) -> str:
    """Branches of a CASE."""
    return "".join(f" WHEN {text} = '{word}' THEN {value}" for word, value in values.items())


def _since_midnight(text: str, decimals: int) -> str:
    """BIGINT: milliseconds (3) or microseconds (6) of a time's text, which may have any number of decimals up to 6."""
    hours, minutes, seconds = (f"try_cast(substring({text}, {start}, 2) AS bigint)" for start in (1, 4, 7))
    fraction = f"try_cast(rpad(substring({text}, 10, {decimals}), {decimals}, '0') AS bigint)"
    return f"(({hours} * 60 + {minutes}) * 60 + {seconds}) * {10**decimals}L + {fraction}"


def _year(text: str) -> str:
    """The astronomical year: 1 BC is the year 0."""
    year = f"try_cast(split_part({text}, '-', 1) AS int)"
    return f"CASE WHEN endswith({text}, ' BC') THEN 1 - {year} ELSE {year} END"


def _month_and_day(text: str) -> str:
    return f"regexp_extract({text}, '^[0-9]+(-[0-9]{{2}}-[0-9]{{2}})', 1)"


def _days(text: str) -> str:
    """Days since 1970 of any year: the calendar repeats every 400 years, and Spark parses those from 2000 on."""
    year = f"({_year(text)})"
    near = f"(2000 + pmod({year}, 400))"
    days = f"unix_date(try_cast(concat({near}, {_month_and_day(text)}) AS date))"
    return f"({days} + (({year} - {near}) div 400) * {_DAYS_OF_400_YEARS})"


def _far_timestamp(text: str, decimals: int) -> str:
    """NULL where 64 bits are too few, which is so from the year 294247 on."""
    of_day = _since_midnight(f"split_part({text}, ' ', 2)", decimals)
    return f"try_add(try_multiply({_days(text)}, {86400 * 10**decimals}L), {of_day})"


def _iso(date_text: str, time_text: str, decimals: int) -> str:
    fraction = f"'.', rpad(substring({time_text}, 10, {decimals}), {decimals}, '0'), " if decimals else ""
    return f"concat({date_text}, 'T', substring({time_text}, 1, 8), {fraction}'Z')"


def _iso_year(text: str) -> str:
    """As ISO 8601 has it: ``+`` beyond four digits, ``-`` before the year 0, at least four digits."""
    year = f"({_year(text)})"
    return (
        f"CASE WHEN {year} > 9999 THEN concat('+', {year})"
        f" WHEN {year} < 0 THEN concat('-', lpad(-{year}, 4, '0')) ELSE lpad({year}, 4, '0') END"
    )
