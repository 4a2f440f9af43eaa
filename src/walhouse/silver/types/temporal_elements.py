"""Dates and times in arrays, which the JDBC driver gives Debezium as Java's legacy objects.

Invariant: what those objects lose of a value is lost here, and nowhere else: bronze and gold have the text, and so has
silver's mode ``native``.
Source: what Debezium's engine 3.6.3 was seen to make of them (scenarios arrays_of_times and arrays_of_far_times).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from walhouse.silver.modes import TimeMode
from walhouse.silver.types.silver_type import SilverType, let, like
from walhouse.silver.types.temporal import (
    PLAIN_DATE,
    TIME,
    astronomical_year,
    date,
    days_since_epoch,
    infinite,
    month_and_day,
    time,
    timestamp,
    zoned_time,
    zoned_timestamp,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from walhouse.pgoutput.column import ColumnDescription
    from walhouse.silver.modes import TypeModes

_INFINITY: Final = {"infinity": -622191234, "-infinity": -625821272}
_INFINITY_ISO: Final = {"infinity": "+292278994-08-16Z", "-infinity": "+292269055-12-02Z"}


def date_element(column: ColumnDescription, modes: TypeModes) -> SilverType:
    """What ``java.sql.Date`` shows: no era, and infinity by its numbers."""
    scalar = date(column, modes)
    if modes.time is TimeMode.NATIVE:
        return scalar
    return _shown_by_java(scalar, _INFINITY_ISO if modes.time is TimeMode.ISOSTRING else _INFINITY)


def time_element(column: ColumnDescription, modes: TypeModes) -> SilverType:
    """What ``java.sql.Time`` holds: milliseconds, and 24:00:00 is midnight."""
    scalar = time(column, modes)
    if modes.time is TimeMode.NATIVE:
        return scalar

    def convert(text: str) -> str:
        in_milliseconds = rf"rtrim('.', regexp_replace({text}, r'([.](?:[0-9]{{0,2}}[1-9])?)[0-9]*$', r'$1'))"
        return scalar.convert(f"CASE WHEN {text} = '24:00:00' THEN '00:00:00' ELSE {in_milliseconds} END")

    return replace(scalar, convert=convert)


def zoned_time_element(column: ColumnDescription, modes: TypeModes) -> SilverType:
    """Cut to seconds."""
    scalar = zoned_time(column, modes)
    if modes.time is TimeMode.NATIVE:
        return scalar
    return replace(scalar, convert=lambda text: scalar.convert(f"regexp_replace({text}, '[.][0-9]+', '')"))


def timestamp_element(column: ColumnDescription, modes: TypeModes) -> SilverType:
    """What ``java.sql.Timestamp`` counts: before 1582-10-15 the text is a date of the Julian calendar."""
    scalar = timestamp(column, modes)
    if modes.time is TimeMode.NATIVE:
        return scalar

    def convert(text: str) -> str:
        is_early = f"{like(text, f'{PLAIN_DATE} {TIME}')} AND {text} < '1582-10-15'"
        is_old = like(text, f"{PLAIN_DATE} {TIME} BC")
        read = f"CASE WHEN {is_early} OR {is_old} THEN {_read_as_julian(text)} ELSE {text} END"
        return let("stamp", read, scalar.convert("stamp"))

    # where 64 bits are too few for one of nanoseconds, that one alone is NULL
    return replace(scalar, convert=convert, total=modes.time is TimeMode.NANOSECONDS)


def zoned_timestamp_element(column: ColumnDescription, modes: TypeModes) -> SilverType:
    """What ``java.sql.Timestamp`` shows: no era, and minus infinity by its numbers."""
    scalar = zoned_timestamp(column, modes)
    if modes.time is TimeMode.NATIVE:
        return scalar
    modifier = column.modifier
    fraction = f".{'0' * (6 if modifier < 0 else modifier)}" if modifier else ""
    return _shown_by_java(scalar, {"-infinity": f"+292269055-12-02T23:00:00{fraction}Z"})


def _shown_by_java(scalar: SilverType, infinity: Mapping[str, int | str]) -> SilverType:
    def convert(text: str) -> str:
        other = let("shown", _as_java_shows(text), scalar.convert("shown"))
        return f"CASE{infinite(text, infinity)} ELSE {other} END"

    return replace(scalar, convert=convert)


def _as_java_shows(text: str) -> str:
    """A date's or timestamp's text without the era, the ten days that were left out in 1582 being ten days later.

    NULL where that year has no such day: not every one before Christ with a 29th of February has one after.
    """
    bare = f"replace({text}, ' BC', '')"
    is_left_out = f"{text} RLIKE r'^1582-10-(?:0[5-9]|1[0-4])' AND NOT endswith({text}, ' BC')"
    later = f"concat('1582-10-', try_cast(substring({text}, 9, 2) AS int) + 10, substring({text}, 11))"
    is_no_day = f"endswith({text}, ' BC') AND {days_since_epoch(bare)} IS NULL"
    return f"CASE WHEN {is_left_out} THEN {later} WHEN {is_no_day} THEN NULL ELSE {bare} END"


def _read_as_julian(text: str) -> str:
    """The text of a timestamp whose date the Julian calendar calls as this text does."""
    # between two calendars' days lie those of the centuries' ends that one of them has; a year begins in March for that
    before_march = f"int(try_cast(substring({month_and_day(text)}, 2, 2) AS int) < 3)"
    days_between = let(
        "year", f"{astronomical_year(text)} - {before_march}", "int(floor(year / 100) - floor(year / 400)) - 2"
    )
    year = "CASE WHEN year(day) < 1 THEN 1 - year(day) ELSE year(day) END"
    shown = (
        f"concat(lpad({year}, 4, '0'), '-', lpad(month(day), 2, '0'), '-', lpad(dayofmonth(day), 2, '0'), ' ',"
        f" split_part({text}, ' ', 2),"
        " CASE WHEN year(day) < 1 THEN ' BC' ELSE '' END)"
    )
    return let("day", f"date_from_unix_date(int({days_since_epoch(text)} + {days_between}))", shown)
