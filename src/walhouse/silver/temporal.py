"""Dates and times in Debezium's default mode, ``time.precision.mode`` adaptive.

Invariant: arithmetic over the text that PostgreSQL prints under DateStyle ISO and TimeZone UTC; no session's time zone
and no calendar but the proleptic Gregorian one has a say.
Source: Debezium documentation, PostgreSQL connector, "Temporal types". The scale of a type without modifier is 6.

The constants for infinity are those that Debezium 3.6 streams: the JDBC driver's milliseconds, taken as microseconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812  (the name everybody knows it by)
from pyspark.sql.types import DataType, IntegerType, LongType, StringType

from walhouse.silver.silver_type import SilverType, typmod, when_like

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column

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

    def convert(text: Column) -> Column:
        plain = when_like(text, _PLAIN_DATE, F.unix_date(text.try_cast("date")))
        far = when_like(text, f"{_DATE}(?: BC)?", _days(text).try_cast("int"))
        return F.coalesce(plain, _infinity(text, _DATE_INFINITY, IntegerType()), far)

    return _integer(IntegerType(), "int32", "io.debezium.time.Date", convert)


def time(column: ColumnDescription) -> SilverType:
    """Since midnight: milliseconds up to three decimals, else microseconds. 24:00:00 is a whole day."""
    if 0 <= typmod(column) <= 3:
        return _integer(
            IntegerType(),
            "int32",
            "io.debezium.time.Time",
            lambda text: when_like(text, _TIME, _since_midnight(text, 3).cast("int")),
        )
    return _integer(
        LongType(), "int64", "io.debezium.time.MicroTime", lambda text: when_like(text, _TIME, _since_midnight(text, 6))
    )


def timestamp(column: ColumnDescription) -> SilverType:
    """Since the epoch, taken as UTC: milliseconds up to three decimals, else microseconds."""
    decimals = 3 if 0 <= typmod(column) <= 3 else 6
    since_epoch = F.unix_millis if decimals == 3 else F.unix_micros
    infinity = _MILLIS_INFINITY if decimals == 3 else _MICROS_INFINITY

    def convert(text: Column) -> Column:
        # the zone in the text keeps the session's out of it
        instant = F.concat(text, F.lit("Z")).try_cast("timestamp")
        plain = when_like(text, f"{_PLAIN_DATE} {_TIME}", since_epoch(instant))
        far = when_like(text, f"{_DATE} {_TIME}(?: BC)?", _far_timestamp(text, decimals))
        return F.coalesce(plain, _infinity(text, infinity, LongType()), far)

    name = "io.debezium.time.Timestamp" if decimals == 3 else "io.debezium.time.MicroTimestamp"
    return _integer(LongType(), "int64", name, convert)


def zoned_timestamp(column: ColumnDescription) -> SilverType:
    """ISO text in UTC with exactly as many decimals as the type has."""
    modifier = typmod(column)
    decimals = 6 if modifier < 0 else modifier

    def convert(text: Column) -> Column:
        of_day = F.substring_index(F.split_part(text, F.lit(" "), F.lit(2)), "+", 1)
        plain = when_like(text, rf"{_PLAIN_DATE} {_TIME}\+00", _iso(F.substring(text, 1, 10), of_day, decimals))
        far_date = F.concat(_iso_year(text), _month_and_day(text))
        far = when_like(text, rf"{_DATE} {_TIME}\+00(?: BC)?", _iso(far_date, of_day, decimals))
        endless = F.when(text.isin("infinity", "-infinity"), text)
        return F.coalesce(plain, endless, far)

    return SilverType(
        StringType(),
        "string",
        convert,
        lambda: F.lit("1970-01-01T00:00:00Z"),
        semantic="io.debezium.time.ZonedTimestamp",
        version=1,
        toastable=False,
    )


def _integer(kind: DataType, literal: str, semantic: str, convert: Callable[[Column], Column]) -> SilverType:
    return SilverType(
        kind, literal, convert, lambda: F.lit(0).cast(kind), semantic=semantic, version=1, toastable=False
    )


def _infinity(text: Column, values: dict[str, int], kind: DataType) -> Column:
    return F.when(text == "infinity", F.lit(values["infinity"]).cast(kind)).when(
        text == "-infinity", F.lit(values["-infinity"]).cast(kind)
    )


def _since_midnight(text: Column, decimals: int) -> Column:
    """BIGINT: milliseconds (3) or microseconds (6) of a time's text, which may have any number of decimals up to 6."""
    seconds = _two_digits(text, 1) * 3600 + _two_digits(text, 4) * 60 + _two_digits(text, 7)
    fraction = F.rpad(F.substring(text, 10, decimals), decimals, "0")
    return seconds * F.lit(10**decimals) + fraction.try_cast("bigint")


def _two_digits(text: Column, start: int) -> Column:
    return F.substring(text, start, 2).try_cast("bigint")


def _year(text: Column) -> Column:
    """The astronomical year: 1 BC is the year 0."""
    year = F.split_part(text, F.lit("-"), F.lit(1)).try_cast("int")
    return F.when(text.endswith(" BC"), 1 - year).otherwise(year)


def _month_and_day(text: Column) -> Column:
    return F.regexp_extract(text, "^[0-9]+(-[0-9]{2}-[0-9]{2})", 1)


def _days(text: Column) -> Column:
    """Days since 1970 of any year: the calendar repeats every 400 years, and Spark parses those from 2000 on."""
    near = F.pmod(_year(text), F.lit(400)) + 2000
    days = F.unix_date(F.concat(near.cast("string"), _month_and_day(text)).try_cast("date"))
    cycles = F.round((_year(text) - near) / 400).cast("bigint")
    return days + cycles * _DAYS_OF_400_YEARS


def _far_timestamp(text: Column, decimals: int) -> Column:
    """NULL where 64 bits are too few, which is so from the year 294247 on."""
    of_day = _since_midnight(F.split_part(text, F.lit(" "), F.lit(2)), decimals)
    return F.try_add(F.try_multiply(_days(text), F.lit(86400 * 10**decimals)), of_day)


def _iso(date_text: Column, time_text: Column, decimals: int) -> Column:
    parts = [date_text, F.lit("T"), F.substring(time_text, 1, 8)]
    if decimals:
        parts += [F.lit("."), F.rpad(F.substring(time_text, 10, decimals), decimals, "0")]
    return F.concat(*parts, F.lit("Z"))


def _iso_year(text: Column) -> Column:
    """As ISO 8601 has it: ``+`` beyond four digits, ``-`` before the year 0, at least four digits."""
    year = _year(text)
    digits = F.lpad(F.abs(year).cast("string"), 4, "0")
    return (
        F.when(year > 9999, F.concat(F.lit("+"), year.cast("string")))
        .when(year < 0, F.concat(F.lit("-"), digits))
        .otherwise(digits)
    )
