"""Dates and times, by ``time.precision.mode``.

Invariant: arithmetic over the text that PostgreSQL prints under DateStyle ISO and TimeZone UTC; no session's time zone
and no calendar but the proleptic Gregorian one has a say.
Source: Debezium documentation, PostgreSQL connector, "Temporal types". The scale of a type without modifier is 6.

The constants for infinity are those that Debezium 3.6 streams: the JDBC driver's milliseconds, taken as microseconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql.types import DataType, DateType, IntegerType, LongType, StringType, TimestampNTZType

from walhouse.silver.modes import TimeMode
from walhouse.silver.types.silver_type import SilverType, let, like, when_like

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from walhouse.pgoutput.column import ColumnDescription
    from walhouse.silver.modes import TypeModes

_DATE: Final = "[0-9]{4,7}-[0-9]{2}-[0-9]{2}"
PLAIN_DATE: Final = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
TIME: Final = r"[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?"

_DATE_INFINITY: Final = {"infinity": -2147472692, "-infinity": -2147472691}
_DATE_INFINITY_ISO: Final = {"infinity": "-5877611-06-21Z", "-infinity": "-5877611-06-22Z"}
_MICROS: Final = {"infinity": 9223372036825200000, "-infinity": -9223372036832400000}
_INFINITY: Final = {
    3: {word: micros // 1000 for word, micros in _MICROS.items()},
    6: _MICROS,
    9: {"infinity": 2**63 - 1, "-infinity": -(2**63)},
}
"""By decimals of the unit."""
_ISO_INFINITY: Final = {"infinity": "+294247-01-10T04:00:25.2Z", "-infinity": "-290308-12-21T19:59:27.6Z"}

_DAY: Final = "86400000000L"
_DAYS_OF_400_YEARS: Final = 146097


def date(_: ColumnDescription, modes: TypeModes) -> SilverType:
    """Days since 1970-01-01, or ISO text."""
    if modes.time is TimeMode.ISOSTRING:
        return _iso_text("io.debezium.time.IsoDate", _iso_date, "'1970-01-01Z'")
    if modes.time is TimeMode.NATIVE:
        return SilverType(
            DateType(),
            "date",
            lambda text: when_like(text, PLAIN_DATE, f"try_cast({text} AS date)"),
            "DATE'1970-01-01'",
        )
    semantic = "org.apache.kafka.connect.data.Date" if modes.time is TimeMode.CONNECT else "io.debezium.time.Date"
    return _integer(IntegerType(), "int32", semantic, _days_of_date)


def _days_of_date(text: str) -> str:
    plain = f"unix_date(try_cast({text} AS date))"
    far = when_like(text, f"{_DATE}(?: BC)?", f"try_cast({days_since_epoch(text)} AS int)")
    return f"CASE WHEN {like(text, PLAIN_DATE)} THEN {plain}{infinite(text, _DATE_INFINITY)} ELSE {far} END"


def _iso_date(text: str) -> str:
    iso = f"concat({_iso_year(text)}, {month_and_day(text)}, 'Z')"
    return f"CASE WHEN {like(text, f'{_DATE}(?: BC)?')} THEN {iso}{infinite(text, _DATE_INFINITY_ISO)} END"


def time(column: ColumnDescription, modes: TypeModes) -> SilverType:
    """Since midnight; adaptive: milliseconds up to three decimals, else microseconds. 24:00:00 is a whole day."""

    def since_midnight(decimals: int) -> Callable[[str], str]:
        return lambda text: when_like(text, TIME, _since_midnight(text, decimals))

    def milliseconds(text: str) -> str:
        return when_like(text, TIME, f"int({_since_midnight(text, 3)})")

    match modes.time:
        case TimeMode.ISOSTRING:
            return _iso_text("io.debezium.time.IsoTime", _iso_time, "'00:00:00Z'")
        case TimeMode.NATIVE:
            return _iso_text(None, lambda text: text, "'00:00:00'")
        case TimeMode.CONNECT:
            return _integer(IntegerType(), "int32", "org.apache.kafka.connect.data.Time", milliseconds)
        case TimeMode.NANOSECONDS:
            return _integer(LongType(), "int64", "io.debezium.time.NanoTime", since_midnight(9))
        case TimeMode.ADAPTIVE if 0 <= column.modifier <= 3:
            return _integer(IntegerType(), "int32", "io.debezium.time.Time", milliseconds)
    return _integer(LongType(), "int64", "io.debezium.time.MicroTime", since_midnight(6))


def _iso_time(text: str) -> str:
    """24:00:00 begins the next day."""
    return when_like(text, TIME, f"concat(CASE WHEN startswith({text}, '24') THEN '00:00:00' ELSE {text} END, 'Z')")


def timestamp(column: ColumnDescription, modes: TypeModes) -> SilverType:
    """Since the epoch, taken as UTC; adaptive: milliseconds up to three decimals, else microseconds."""
    short = 0 <= column.modifier <= 3
    match modes.time:
        case TimeMode.ISOSTRING:
            return _iso_text("io.debezium.time.IsoTimestamp", _iso_timestamp, "'1970-01-01T00:00:00Z'")
        case TimeMode.NATIVE:
            return SilverType(
                TimestampNTZType(),
                "timestamp_ntz",
                lambda text: when_like(text, f"{PLAIN_DATE} {TIME}", f"try_cast({text} AS timestamp_ntz)"),
                "TIMESTAMP_NTZ'1970-01-01 00:00:00'",
            )
        case TimeMode.CONNECT:
            return _timestamp("org.apache.kafka.connect.data.Timestamp", 3)
        case TimeMode.NANOSECONDS:
            return _timestamp("io.debezium.time.NanoTimestamp", 9)
        case TimeMode.ADAPTIVE | TimeMode.ADAPTIVE_TIME_MICROSECONDS if short:
            return _timestamp("io.debezium.time.Timestamp", 3)
    return _timestamp("io.debezium.time.MicroTimestamp", 6)


def _timestamp(semantic: str, decimals: int) -> SilverType:
    def convert(text: str) -> str:
        # the zone in the text keeps the session's out of it
        since_epoch = "unix_millis" if decimals == 3 else "unix_micros"
        plain = f"{since_epoch}(try_cast(concat({text}, 'Z') AS timestamp))"
        if decimals == 9:
            plain = f"try_multiply({plain}, 1000L)"
        far = when_like(text, f"{_DATE} {TIME}(?: BC)?", _far_timestamp(text, decimals))
        is_plain = like(text, f"{PLAIN_DATE} {TIME}")
        return f"CASE WHEN {is_plain} THEN {plain}{infinite(text, _INFINITY[decimals])} ELSE {far} END"

    return _integer(LongType(), "int64", semantic, convert)


def _iso_timestamp(text: str) -> str:
    far_date = f"concat({_iso_year(text)}, {month_and_day(text)})"
    iso = f"concat({far_date}, 'T', split_part({text}, ' ', 2), 'Z')"
    return f"CASE WHEN {like(text, f'{_DATE} {TIME}(?: BC)?')} THEN {iso}{infinite(text, _ISO_INFINITY)} END"


def zoned_time(_: ColumnDescription, __: TypeModes) -> SilverType:
    """timetz: ISO text in UTC with as few decimals as say it all, whatever the mode."""

    def convert(text: str) -> str:
        hours, minutes, seconds = (
            f"coalesce(try_cast(substring(zone, {start}, 2) AS bigint), 0L)" for start in (2, 5, 8)
        )
        offset = f"(({hours} * 60 + {minutes}) * 60 + {seconds}) * CASE WHEN startswith(zone, '-') THEN -1 ELSE 1 END"
        local = _since_midnight(rf"regexp_extract({text}, r'^([0-9:.]+)', 1)", 6)
        utc = let(
            "zone", rf"regexp_extract({text}, r'([+-][0-9:]+)$', 1)", f"pmod({local} - {offset} * 1000000L, {_DAY})"
        )
        # not by date_format, which shows a moment as the session's time zone has it
        hour, minute, second = "utc div 3600000000", "utc div 60000000 % 60", "utc div 1000000 % 60"
        clock = f"concat_ws(':', lpad({hour}, 2, '0'), lpad({minute}, 2, '0'), lpad({second}, 2, '0'))"
        fraction = "CASE WHEN utc % 1000000 = 0 THEN '' ELSE concat('.', rtrim('0', lpad(utc % 1000000, 6, '0'))) END"
        shown = let("utc", utc, f"concat({clock}, {fraction}, 'Z')")
        return when_like(text, rf"{TIME}[+-][0-9]{{2}}(?::[0-9]{{2}}){{0,2}}", shown)

    return _iso_text("io.debezium.time.ZonedTime", convert, "'00:00:00Z'")


def zoned_timestamp(column: ColumnDescription, _: TypeModes) -> SilverType:
    """ISO text in UTC with exactly as many decimals as the type has."""
    modifier = column.modifier
    decimals = 6 if modifier < 0 else modifier

    def convert(text: str) -> str:
        plain = _iso(f"substring({text}, 1, 10)", f"substring({text}, 12, length({text}) - 14)", decimals)
        far_time = f"substring_index(split_part({text}, ' ', 2), '+', 1)"
        far_date = f"concat({_iso_year(text)}, {month_and_day(text)})"
        far = when_like(text, rf"{_DATE} {TIME}\+00(?: BC)?", _iso(far_date, far_time, decimals))
        is_plain = like(text, rf"{PLAIN_DATE} {TIME}\+00")
        return f"CASE WHEN {is_plain} THEN {plain} WHEN {text} IN ('infinity', '-infinity') THEN {text} ELSE {far} END"

    return _iso_text("io.debezium.time.ZonedTimestamp", convert, "'1970-01-01T00:00:00Z'")


def _iso_text(semantic: str | None, convert: Callable[[str], str], epoch: str) -> SilverType:
    version = 1 if semantic else None
    return SilverType(StringType(), "string", convert, epoch, semantic=semantic, version=version)


def _integer(kind: DataType, literal: str, semantic: str, convert: Callable[[str], str]) -> SilverType:
    zero = f"CAST(0 AS {kind.simpleString()})"
    return SilverType(kind, literal, convert, zero, semantic=semantic, version=1)


def infinite(text: str, values: Mapping[str, int | str]) -> str:
    """Branches of a CASE."""
    return "".join(f" WHEN {text} = '{word}' THEN {value!r}" for word, value in values.items())


def _since_midnight(text: str, decimals: int) -> str:
    """BIGINT: milliseconds (3) or microseconds (6) of a time's text, which may have any number of decimals up to 6."""
    hours, minutes, seconds = (f"try_cast(substring({text}, {start}, 2) AS bigint)" for start in (1, 4, 7))
    fraction = f"try_cast(rpad(substring({text}, 10, {decimals}), {decimals}, '0') AS bigint)"
    return f"(({hours} * 60 + {minutes}) * 60 + {seconds}) * {10**decimals}L + {fraction}"


def astronomical_year(text: str) -> str:
    """The astronomical year: 1 BC is the year 0."""
    year = f"try_cast(split_part({text}, '-', 1) AS int)"
    return f"CASE WHEN endswith({text}, ' BC') THEN 1 - {year} ELSE {year} END"


def month_and_day(text: str) -> str:
    """``-MM-DD`` of a date's or timestamp's text."""
    return f"regexp_extract({text}, '^[0-9]+(-[0-9]{{2}}-[0-9]{{2}})', 1)"


def days_since_epoch(text: str) -> str:
    """Days since 1970 of any year: the calendar repeats every 400 years, and Spark parses those from 2000 on."""
    year = f"({astronomical_year(text)})"
    near = f"(2000 + pmod({year}, 400))"
    days = f"unix_date(try_cast(concat({near}, {month_and_day(text)}) AS date))"
    return f"({days} + (({year} - {near}) div 400) * {_DAYS_OF_400_YEARS})"


def _far_timestamp(text: str, decimals: int) -> str:
    """NULL in milliseconds and nanoseconds where 64 bits are too few.

    In microseconds, which is so from January 294247 on (never before Christ), what Java's arithmetic gives Debezium:
    the seconds stop at the limit, the fraction wraps around.
    """
    of_day = _since_midnight(f"split_part({text}, ' ', 2)", decimals)
    exact = f"try_add(try_multiply({days_since_epoch(text)}, {86400 * 10**decimals}L), {of_day})"
    if decimals != 6:
        return exact
    fraction = f"(({of_day}) % 1000000)"
    return f"coalesce({exact}, CASE WHEN {fraction} = 0 THEN {2**63 - 1}L ELSE shiftleft(-1L, 63) + {fraction} - 1 END)"


def _iso(date_text: str, time_text: str, decimals: int) -> str:
    """Without decimals the time as it is: only a default can have some then, and Debezium shows them."""
    if not decimals:
        return f"concat({date_text}, 'T', {time_text}, 'Z')"
    fraction = f"rpad(substring({time_text}, 10, {decimals}), {decimals}, '0')"
    return f"concat({date_text}, 'T', substring({time_text}, 1, 8), '.', {fraction}, 'Z')"


def _iso_year(text: str) -> str:
    """As ISO 8601 has it: ``+`` beyond four digits, ``-`` before the year 0, at least four digits."""
    year = f"({astronomical_year(text)})"
    return (
        f"CASE WHEN {year} > 9999 THEN concat('+', {year})"
        f" WHEN {year} < 0 THEN concat('-', lpad(-{year}, 4, '0')) ELSE lpad({year}, 4, '0') END"
    )
