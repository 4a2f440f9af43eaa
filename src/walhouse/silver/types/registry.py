"""Which Debezium type a PostgreSQL type becomes, and how: the one registry of conversions.

Invariant: a conversion takes only the texts that its rule names. Any other text becomes NULL here and is kept as text
in ``unconverted``; that a cast succeeds is no proof that the value is right.
Source: Debezium documentation, PostgreSQL connector, "Data type mappings".

To add a type: write its rule in the module of its family, and name it in ``RULES``.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from walhouse.silver.modes import DEFAULTS
from walhouse.silver.types import (
    binary,
    bits,
    decimals,
    geometry,
    hstore,
    intervals,
    scalars,
    temporal,
    temporal_elements,
    vectors,
)
from walhouse.silver.types.arrays import (
    REQUIRED,
    WITHOUT_SCHEMA,
    array,
    array_of_vectors,
    is_array,
    without_braces,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from walhouse.pgoutput.column import ColumnDescription
    from walhouse.silver.modes import TypeModes
    from walhouse.silver.types.silver_type import Rule, SilverType

RULES: Final[Mapping[str, Rule]] = {
    "bool": scalars.boolean,
    "int2": scalars.int16,
    "int4": scalars.int32,
    "int8": scalars.int64,
    "oid": scalars.int64,
    "float4": scalars.float32,
    "float8": scalars.float64,
    "numeric": decimals.numeric,
    "money": decimals.money,
    "text": scalars.string,
    "varchar": scalars.string,
    "bpchar": scalars.string,
    "char": scalars.string,
    "name": scalars.name,
    "citext": scalars.string,
    "isbn": scalars.string,
    "uuid": scalars.uuid,
    "json": scalars.json,
    "jsonb": scalars.json,
    "xml": scalars.xml,
    "bytea": binary.bytea,
    "bit": bits.bit,
    "varbit": bits.varbit,
    "date": temporal.date,
    "time": temporal.time,
    "timetz": temporal.zoned_time,
    "timestamp": temporal.timestamp,
    "timestamptz": temporal.zoned_timestamp,
    "interval": intervals.interval,
    "inet": scalars.string,
    "cidr": scalars.string,
    "macaddr": scalars.string,
    "macaddr8": scalars.string,
    "int4range": scalars.string,
    "int8range": scalars.string,
    "numrange": scalars.string,
    "tsrange": scalars.string,
    "tstzrange": scalars.string,
    "daterange": scalars.string,
    "ltree": scalars.ltree,
    "tsvector": scalars.tsvector,
    "hstore": hstore.hstore,
    "point": geometry.point,
    "geometry": geometry.geometry,
    "geography": geometry.geography,
    "vector": vectors.vector,
    "halfvec": vectors.halfvec,
    "sparsevec": vectors.sparsevec,
    "int2vector": without_braces(scalars.int16),
    "oidvector": without_braces(scalars.int64),
}
"""Rules by ``pg_type.typname`` after domains are resolved; a new type or mode begins here.

Enums have a rule by kind, arrays take their element's. Whatever else there is Debezium does not know: it leaves the
column out, or shows the bytes of its text (``include.unknown.datatypes``).
"""

_OF_ELEMENTS: Final = frozenset({"int2vector", "oidvector"})
"""Types with elements that are no arrays."""

ELEMENT_RULES: Final[Mapping[str, Rule]] = {
    "numeric": decimals.numeric_element,
    "date": temporal_elements.date_element,
    "time": temporal_elements.time_element,
    "timetz": temporal_elements.zoned_time_element,
    "timestamp": temporal_elements.timestamp_element,
    "timestamptz": temporal_elements.zoned_timestamp_element,
}
"""Where an array's elements differ from a column of their type."""

UNKNOWN: Final[Mapping[str, Rule]] = dict.fromkeys(
    ("box", "circle", "line", "lseg", "path", "polygon"), geometry.unknown_shape
)
"""Types that Debezium does not know and that the JDBC driver prints in its own way."""


def silver_type(column: ColumnDescription, modes: TypeModes = DEFAULTS) -> SilverType | None:
    """The type that a column has in silver; None if Debezium leaves the column out."""
    if is_array(column) and (rule := _element_rule(column)):
        return _array(column, modes, rule)
    rule = _rule(column.resolved_type, is_enum=column.kind == "e")
    if rule is not None:
        return rule(column, modes)
    if not modes.unknown:
        return None
    if column.element_type is not None:
        shape = UNKNOWN.get(column.element_type) if is_array(column) else None
        return array(replace(column, enum_labels=None), modes, shape or binary.text_as_bytes, required=True)
    return UNKNOWN.get(column.resolved_type or "", binary.text_as_bytes)(column, modes)


def _array(column: ColumnDescription, modes: TypeModes, rule: Rule) -> SilverType | None:
    if column.element_type in WITHOUT_SCHEMA:
        return None
    if column.element_type == "bit":
        return bits.array_of_bits(column, modes)
    if column.element_type in _OF_ELEMENTS:
        element = rule(column, modes)
        return element and array_of_vectors(element)
    return array(column, modes, rule, required=column.enum_labels is not None or column.element_type in REQUIRED)


def _element_rule(column: ColumnDescription) -> Rule | None:
    name = str(column.element_type)
    return ELEMENT_RULES.get(name) or _rule(name, is_enum=column.enum_labels is not None)


def _rule(name: str | None, *, is_enum: bool) -> Rule | None:
    return scalars.enum if is_enum else RULES.get(name or "")


def source_type(column: ColumnDescription) -> str | None:
    """The column's type on the source. A modifier that only the message told stands as the number that it is."""
    if column.type_name is not None or column.typmod < 0:
        return column.type_name or column.resolved_type
    return f"{column.resolved_type} (modifier {column.typmod})"


def describe(column: ColumnDescription, kind: SilverType) -> str:
    """The comment of a field: what Debezium's schema says of it, as JSON, and the column that it comes from."""
    facts = {
        "type": kind.literal,
        "name": kind.semantic,
        "version": kind.version,
        "optional": column.nullable is not False,
        "parameters": dict(kind.parameters) or None,
        "column": column.name,
        "source": source_type(column),
        "note": kind.note,
    }
    return json.dumps({name: fact for name, fact in facts.items() if fact is not None}, ensure_ascii=False)
