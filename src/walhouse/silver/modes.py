"""Debezium's handling modes: the part of the configuration that decides which type a column becomes.

Invariant: a rule looks at the column and at these modes, and at nothing else.
Source: Debezium documentation, PostgreSQL connector, "Data type mappings". ``native`` is walhouse's own addition:
Spark's types, for people who query silver directly; Debezium has no such mode.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class DecimalMode(StrEnum):
    """``decimal.handling.mode``, for numeric and money."""

    PRECISE = "precise"
    DOUBLE = "double"
    STRING = "string"
    NATIVE = "native"


class TimeMode(StrEnum):
    """``time.precision.mode``, for date, time and timestamp."""

    ADAPTIVE = "adaptive"
    ADAPTIVE_TIME_MICROSECONDS = "adaptive_time_microseconds"
    CONNECT = "connect"
    ISOSTRING = "isostring"
    MICROSECONDS = "microseconds"
    NANOSECONDS = "nanoseconds"
    NATIVE = "native"


class BinaryMode(StrEnum):
    """``binary.handling.mode``, for bytea, types that Debezium does not know, and messages."""

    BYTES = "bytes"
    BASE64 = "base64"
    BASE64_URL_SAFE = "base64-url-safe"
    HEX = "hex"


class IntervalMode(StrEnum):
    """``interval.handling.mode``."""

    NUMERIC = "numeric"
    STRING = "string"
    NATIVE = "native"


class HstoreMode(StrEnum):
    """``hstore.handling.mode``."""

    JSON = "json"
    MAP = "map"
    NATIVE = "native"


@dataclass(frozen=True, slots=True)
class TypeModes:
    """All modes, Debezium's defaults. ``unknown``: ``include.unknown.datatypes``."""

    decimal: DecimalMode = DecimalMode.PRECISE
    time: TimeMode = TimeMode.ADAPTIVE
    binary: BinaryMode = BinaryMode.BYTES
    interval: IntervalMode = IntervalMode.NUMERIC
    hstore: HstoreMode = HstoreMode.JSON
    money_digits: int = 2
    unknown: bool = False


DEFAULTS = TypeModes()
