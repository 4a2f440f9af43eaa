"""Rules for types that have one form whatever the mode: booleans, numbers, text, bytes, enums.

Source: Debezium documentation, PostgreSQL connector, "Basic types", and "binary.handling.mode" (``bytes``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812  (the name everybody knows it by)
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
)

from walhouse.silver.silver_type import SilverType, when_like

if TYPE_CHECKING:
    from pyspark.sql import Column

    from walhouse.pgoutput.relation import ColumnDescription
    from walhouse.silver.settings import SilverSettings

_INTEGER = "-?[0-9]+"
_FLOAT = r"-?[0-9]+(?:\.[0-9]+)?(?:e[+-][0-9]+)?|NaN|-?Infinity"


def boolean(_: ColumnDescription) -> SilverType:
    """Printed as t or f by the type's output function."""

    def convert(text: Column) -> Column:
        return F.when(text == "t", F.lit(True)).when(text == "f", F.lit(False))  # noqa: FBT003  (a literal)

    return SilverType(
        BooleanType(),
        "boolean",
        convert,
        lambda: F.lit(False),  # noqa: FBT003  (a literal)
        toastable=False,
    )


def int16(_: ColumnDescription) -> SilverType:
    """smallint, smallserial."""
    return _integer(ShortType(), "int16")


def int32(_: ColumnDescription) -> SilverType:
    """integer, serial."""
    return _integer(IntegerType(), "int32")


def int64(_: ColumnDescription) -> SilverType:
    """bigint, bigserial, oid."""
    return _integer(LongType(), "int64")


def _integer(kind: DataType, literal: str) -> SilverType:
    return SilverType(
        kind,
        literal,
        lambda text: when_like(text, _INTEGER, text.try_cast(kind)),
        lambda: F.lit(0).cast(kind),
        toastable=False,
    )


def float32(_: ColumnDescription) -> SilverType:
    """real."""
    return _float(FloatType(), "float")


def float64(_: ColumnDescription) -> SilverType:
    """double precision."""
    return _float(DoubleType(), "double")


def _float(kind: DataType, literal: str) -> SilverType:
    def convert(text: Column) -> Column:
        value = text.try_cast(kind)
        overflown = (F.abs(value) == float("inf")) & ~text.endswith("Infinity")
        return when_like(text, _FLOAT, F.when(~overflown, value))

    return SilverType(kind, literal, convert, lambda: F.lit(0).cast(kind), toastable=False)


def string(_: ColumnDescription) -> SilverType:
    """text, varchar, char(n) with its blanks, citext."""
    return _text()


def short_string(_: ColumnDescription) -> SilverType:
    """name and "char", which are never stored out of line."""
    return _text(toastable=False)


def uuid(_: ColumnDescription) -> SilverType:
    """The text as PostgreSQL prints it."""
    return _text("io.debezium.data.Uuid", toastable=False)


def json(_: ColumnDescription) -> SilverType:
    """json and jsonb: the text as PostgreSQL prints it."""
    return _text("io.debezium.data.Json")


def enum(column: ColumnDescription) -> SilverType:
    """The label; the field's parameter lists all labels in their order."""
    labels = {} if column.enum_labels is None else {"allowed": ",".join(column.enum_labels)}
    return _text("io.debezium.data.Enum", parameters=labels, toastable=False)


def text_for_now(_: ColumnDescription) -> SilverType:
    """Any type without a rule yet: nothing is lost, but it is not yet what Debezium makes of it."""
    return _text(semantic=None, version=None, note="text for now")


def _text(
    semantic: str | None = None,
    *,
    version: int | None = 1,
    parameters: dict[str, str] | None = None,
    toastable: bool = True,
    note: str | None = None,
) -> SilverType:
    return SilverType(
        StringType(),
        "string",
        lambda text: text,
        lambda: F.lit(""),
        semantic=semantic,
        version=version if semantic else None,
        parameters=parameters or {},
        unavailable=_placeholder_text,
        toastable=toastable,
        total=True,
        note=note,
    )


def _placeholder_text(settings: SilverSettings) -> Column:
    return F.lit(settings.placeholder_text)


def binary(_: ColumnDescription) -> SilverType:
    """bytea, printed with bytea_output = hex."""

    def convert(text: Column) -> Column:
        whole_bytes = text.startswith("\\x") & (F.length(text) % 2 == 0)
        return F.when(whole_bytes, F.unhex(F.substring(text, 3, 2**31 - 1)))

    def placeholder(settings: SilverSettings) -> Column:
        return F.unhex(F.lit(settings.placeholder_bytes.hex()))

    return SilverType(BinaryType(), "bytes", convert, lambda: F.unhex(F.lit("")), unavailable=placeholder)
