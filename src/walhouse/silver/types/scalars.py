"""Rules for types that have one form whatever the mode: booleans, numbers, text, enums.

Source: Debezium documentation, PostgreSQL connector, "Basic types".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.types import (
    BooleanType,
    DataType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
)

from walhouse.names import string_literal
from walhouse.silver.types.silver_type import SilverType, like, when_like

if TYPE_CHECKING:
    from walhouse.pgoutput.column import ColumnDescription
    from walhouse.silver.modes import TypeModes

_INTEGER = "-?[0-9]+"
_FLOAT = r"-?[0-9]+(?:\.[0-9]+)?(?:e[+-][0-9]+)?|NaN|-?Infinity"


def boolean(_: ColumnDescription, __: TypeModes) -> SilverType:
    """Printed as t or f by the type's output function."""
    return SilverType(
        BooleanType(),
        "boolean",
        lambda text: f"CASE {text} WHEN 't' THEN true WHEN 'f' THEN false END",
        "false",
    )


def int16(_: ColumnDescription, __: TypeModes) -> SilverType:
    """smallint, smallserial."""
    return _integer(ShortType(), "int16")


def int32(_: ColumnDescription, __: TypeModes) -> SilverType:
    """integer, serial."""
    return _integer(IntegerType(), "int32")


def int64(_: ColumnDescription, __: TypeModes) -> SilverType:
    """bigint, bigserial, oid."""
    return _integer(LongType(), "int64")


def _integer(kind: DataType, literal: str) -> SilverType:
    name = kind.simpleString()

    def convert(text: str) -> str:
        value = f"try_cast({text} AS {name})"
        # as PostgreSQL prints it, which takes a third of a pattern's time to see; the pattern is for anything else
        return f"CASE WHEN CAST({value} AS string) = {text} OR {like(text, _INTEGER)} THEN {value} END"

    return SilverType(kind, literal, convert, f"CAST(0 AS {name})")


def float32(_: ColumnDescription, __: TypeModes) -> SilverType:
    """real."""
    return _float(FloatType(), "float")


def float64(_: ColumnDescription, __: TypeModes) -> SilverType:
    """double precision."""
    return _float(DoubleType(), "double")


def _float(kind: DataType, literal: str) -> SilverType:
    name = kind.simpleString()

    def convert(text: str) -> str:
        # a number too large for the type becomes infinite in a cast, and NULL by this
        value = f"try_cast({text} AS {name})"
        finite = f"abs({value}) <> {name}('Infinity') OR endswith({text}, 'Infinity')"
        return when_like(text, _FLOAT, f"CASE WHEN {finite} THEN {value} END")

    return SilverType(kind, literal, convert, f"CAST(0 AS {name})")


def string(_: ColumnDescription, __: TypeModes) -> SilverType:
    """text, varchar, char(n) with its blanks, citext, and others that are shown as they are printed."""
    return _text()


def name(column: ColumnDescription, modes: TypeModes) -> SilverType:
    """The text with ``include.unknown.datatypes``; else Debezium's field is there, but no value that was streamed."""
    if modes.unknown:
        return _text()
    absent = "CAST(NULL AS string)" if column.nullable is not False else "''"
    return SilverType(
        StringType(),
        "string",
        lambda text: f"CASE WHEN {text} IS NOT NULL THEN {absent} END",
        "''",
        convert_read=lambda text: text,
    )


def uuid(_: ColumnDescription, __: TypeModes) -> SilverType:
    """The text as PostgreSQL prints it."""
    return _text("io.debezium.data.Uuid")


def json(_: ColumnDescription, __: TypeModes) -> SilverType:
    """json and jsonb: the text as PostgreSQL prints it."""
    return _text("io.debezium.data.Json")


def xml(_: ColumnDescription, __: TypeModes) -> SilverType:
    """The text."""
    return _text("io.debezium.data.Xml")


def ltree(_: ColumnDescription, __: TypeModes) -> SilverType:
    """The path's text."""
    return _text("io.debezium.data.Ltree")


def tsvector(_: ColumnDescription, __: TypeModes) -> SilverType:
    """The lexemes as PostgreSQL prints them."""
    return _text("io.debezium.data.Tsvector")


def enum(column: ColumnDescription, _: TypeModes) -> SilverType:
    """The label; the field's parameter lists all labels in their order."""
    labels = {} if column.enum_labels is None else {"allowed": ",".join(column.enum_labels)}
    return _text("io.debezium.data.Enum", parameters=labels)


def _text(semantic: str | None = None, *, parameters: dict[str, str] | None = None) -> SilverType:
    return SilverType(
        StringType(),
        "string",
        lambda text: text,
        "''",
        semantic=semantic,
        version=1 if semantic else None,
        parameters=parameters or {},
        unavailable=lambda settings: string_literal(settings.placeholder_text),
        total=True,
    )
