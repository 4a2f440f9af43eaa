"""What a rule of the type registry says about one column. All expressions are Spark SQL.

SQL rather than Column objects: a field's rule is handed to Spark as one text, where building it call by call would
cost more time than a small epoch takes to run.

Invariant: ``convert`` never raises and gives NULL for NULL and for every text that the rule does not take.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql.types import ArrayType, DataType, DoubleType, FloatType, MapType, StructType

from walhouse.names import string_literal
from walhouse.pgoutput.column import ColumnDescription
from walhouse.pgoutput.column_default import default_text
from walhouse.silver.modes import TypeModes

if TYPE_CHECKING:
    from walhouse.silver.settings import SilverSettings


@dataclass(frozen=True, slots=True)
class SilverType:
    """One column's type in silver, and everything that depends on it."""

    spark: DataType
    """Spark's type of the field."""
    literal: str
    """Kafka Connect's type, as its JSON converter names it: ``int32``, ``bytes``, ``struct``."""
    convert: Callable[[str], str]
    """From an expression of PostgreSQL's text to one of the field's value."""
    fallback: str
    """What Debezium puts into a required field that has no value."""
    semantic: str | None = None
    """Debezium's or Connect's name of the type, ``io.debezium.time.Date``."""
    version: int | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    unavailable: Callable[[SilverSettings], str] | None = None
    """How a TOASTed value that was not sent looks; None if the type cannot show it: the field is then NULL."""
    convert_read: Callable[[str], str] | None = None
    """Of the rows that a snapshot reads, where Debezium shows these otherwise."""
    total: bool = False
    """True if every text converts, so that there is nothing to look for among failures."""
    note: str | None = None
    element: SilverType | None = None
    """The type of an array's elements."""
    optional_elements: bool = True
    """Whether Debezium's schema lets them be NULL."""
    in_part: Callable[[str, str], str] | None = None
    """Of a text and its value: whether the value lacks a part of it. Never NULL for a value. None: it cannot."""

    def default_of(self, column: ColumnDescription) -> str | None:
        """The column's default as an expression; None if Debezium knows none. Structs have none."""
        text = None if self.literal == "struct" else default_text(column)
        return None if text is None else self.convert(string_literal(text))


Rule = Callable[[ColumnDescription, TypeModes], SilverType | None]
"""What a column becomes under these modes; None: Debezium leaves the column out."""


def like(text: str, pattern: str) -> str:
    r"""True if the whole text matches. ``\z``, since ``$`` would let a line end pass."""
    return rf"{text} RLIKE r'^(?:{pattern})\z'"


def when_like(text: str, pattern: str, value: str) -> str:
    """The value if the whole text matches the pattern, else NULL."""
    return f"CASE WHEN {like(text, pattern)} THEN {value} END"


def is_same(kind: DataType, one: str, other: str) -> str:
    """True if two values of a type are one to Java. Never NULL.

    Spark compares no maps, and takes zero and minus zero for one: what holds either is compared as it is printed.
    """
    if isinstance(kind, (FloatType, DoubleType)):
        one, other = (f"CAST({value} AS string)" for value in (one, other))
    elif _holds_maps_or_floats(kind):
        one, other = (f"to_json({value}, map('ignoreNullFields', 'false'))" for value in (one, other))
    return f"({one} <=> {other})"


def _holds_maps_or_floats(kind: DataType) -> bool:
    match kind:
        case ArrayType():
            return _holds_maps_or_floats(kind.elementType)
        case StructType():
            return any(_holds_maps_or_floats(each.dataType) for each in kind.fields)
    return isinstance(kind, (MapType, FloatType, DoubleType))


def let(name: str, value: str, body: str) -> str:
    """``body`` with ``value`` computed once and known as ``name``: keeps an expression that needs it often short."""
    return f"element_at(transform(array({value}), {name} -> {body}), 1)"
