"""Which Debezium type a PostgreSQL type becomes, and how: the one registry of conversions.

Invariant: a conversion takes only the texts that its rule names. Any other text becomes NULL here and is kept as text
in ``unconverted``; that a cast succeeds is no proof that the value is right.
Source: Debezium documentation, PostgreSQL connector, "Data type mappings" (default modes).

To add a type or a mode: write its rule in the module of its family, and name it in ``RULES``.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from walhouse.silver import decimals, scalars, temporal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from walhouse.pgoutput.relation import ColumnDescription
    from walhouse.silver.silver_type import Rule, SilverType

RULES: Final[Mapping[str, Rule]] = {
    "bool": scalars.boolean,
    "int2": scalars.int16,
    "int4": scalars.int32,
    "int8": scalars.int64,
    "oid": scalars.int64,
    "float4": scalars.float32,
    "float8": scalars.float64,
    "numeric": decimals.numeric,
    "text": scalars.string,
    "varchar": scalars.string,
    "bpchar": scalars.string,
    "char": scalars.short_string,
    "name": scalars.short_string,
    "citext": scalars.string,
    "uuid": scalars.uuid,
    "json": scalars.json,
    "jsonb": scalars.json,
    "bytea": scalars.binary,
    "date": temporal.date,
    "time": temporal.time,
    "timestamp": temporal.timestamp,
    "timestamptz": temporal.zoned_timestamp,
}
"""Rules by ``pg_type.typname`` after domains are resolved. Enums have a rule by kind; all others are text for now."""

_BUILT_IN: Final[Mapping[int, str]] = {
    16: "bool", 17: "bytea", 18: "char", 19: "name", 20: "int8", 21: "int2", 23: "int4", 25: "text", 26: "oid",
    114: "json", 700: "float4", 701: "float8", 1042: "bpchar", 1043: "varchar", 1082: "date", 1083: "time",
    1114: "timestamp", 1184: "timestamptz", 1700: "numeric", 2950: "uuid", 3802: "jsonb",
}  # fmt: skip
"""Types whose OID is the same on every server, for a column that the catalog no longer knew when it was read."""


def silver_type(column: ColumnDescription) -> SilverType:
    """The type that a column has in silver."""
    if column.kind == "e":
        return scalars.enum(column)
    rule = RULES.get(base_type(column) or "", scalars.text_for_now)
    return rule(column)


def base_type(column: ColumnDescription) -> str | None:
    """``typname`` of the column's base type, by the catalog, else by the OID in the Relation message."""
    return column.base_type or _BUILT_IN.get(column.type_oid)


def describe(column: ColumnDescription, kind: SilverType) -> str:
    """The comment of a field: what Debezium's schema says of it, as JSON, and the column that it comes from."""
    facts = {
        "type": kind.literal,
        "name": kind.semantic,
        "version": kind.version,
        "optional": column.nullable is not False,
        "parameters": dict(kind.parameters) or None,
        "column": column.name,
        "source": column.type_name or base_type(column),
        "note": kind.note,
    }
    return json.dumps({name: fact for name, fact in facts.items() if fact is not None}, ensure_ascii=False)
