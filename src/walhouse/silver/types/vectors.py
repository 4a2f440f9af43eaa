"""pgvector's vector, halfvec and sparsevec.

Source: Debezium documentation, PostgreSQL connector, "pgvector types"; pgvector's README for the texts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql.types import (
    ArrayType,
    DataType,
    DoubleType,
    FloatType,
    MapType,
    ShortType,
    StringType,
    StructType,
)

from walhouse.silver.types.silver_type import SilverType, when_like

if TYPE_CHECKING:
    from walhouse.pgoutput.column import ColumnDescription
    from walhouse.silver.modes import TypeModes

SPARSE: Final = StructType().add("dimensions", ShortType()).add("vector", MapType(ShortType(), DoubleType()))
PRINTED_SPARSE: Final = StructType().add("dimensions", ShortType()).add("vector", ArrayType(ArrayType(StringType())))
"""How the JSON converter prints it, to be parsed: a map whose keys are no texts is pairs."""

_DENSE: Final = r"\[[0-9eE+.,-]*\]"


def vector(_: ColumnDescription, __: TypeModes) -> SilverType:
    """Doubles."""
    return _dense(DoubleType(), "io.debezium.data.DoubleVector")


def halfvec(_: ColumnDescription, __: TypeModes) -> SilverType:
    """Floats."""
    return _dense(FloatType(), "io.debezium.data.FloatVector")


def sparsevec(_: ColumnDescription, __: TypeModes) -> SilverType:
    """The number of dimensions, and the values that are not zero by place, from 1. Both have 16 bits in Debezium."""

    def convert(text: str) -> str:
        places = rf"transform(regexp_extract_all({text}, r'([0-9]+):', 1), place -> try_cast(place AS smallint))"
        values = rf"transform(regexp_extract_all({text}, r':([^,}}]+)', 1), value -> try_cast(value AS double))"
        dimensions = f"try_cast(regexp_extract({text}, '/([0-9]+)$', 1) AS smallint)"
        value = f"named_struct('dimensions', {dimensions}, 'vector', map_from_arrays({places}, {values}))"
        fits = f"{dimensions} IS NOT NULL"
        return when_like(text, r"\{[0-9:eE+.,-]*\}/[0-9]+", f"CASE WHEN {fits} THEN {value} END")

    zero = "named_struct('dimensions', 0S, 'vector', CAST(map() AS map<smallint, double>))"
    return SilverType(SPARSE, "struct", convert, zero, semantic="io.debezium.data.SparseDoubleVector", version=1)


def _dense(kind: DataType, semantic: str) -> SilverType:
    name = kind.simpleString()

    def convert(text: str) -> str:
        values = f"transform(split(substring({text}, 2, length({text}) - 2), ','), value -> try_cast(value AS {name}))"
        return when_like(text, _DENSE, values)

    return SilverType(
        ArrayType(kind), "array", convert, f"CAST(array() AS array<{name}>)", semantic=semantic, version=1
    )


def as_printed(value: str, kind: DataType) -> str:
    """What the JSON converter prints of a value; no type of Spark's but a variant holds a sparse vector's pairs."""
    if kind != SPARSE:
        return value
    pair = "array(CAST(entry.key AS variant), CAST(entry.value AS variant))"
    pairs = f"transform(map_entries({value}.vector), entry -> {pair})"
    return f"CASE WHEN {value} IS NOT NULL THEN named_struct('dimensions', {value}.dimensions, 'vector', {pairs}) END"
