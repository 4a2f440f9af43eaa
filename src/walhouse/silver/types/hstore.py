"""hstore, by ``hstore.handling.mode``.

Invariant: the pairs are PostgreSQL's; their order in the JSON text is that of Java's HashMap, which is what Debezium
prints: bucket by bucket of a table that has twice the room it needs, and by order of arrival within a bucket.
Source: Debezium documentation, PostgreSQL connector, "hstore.handling.mode"; Java SE documentation, HashMap and
String.hashCode.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from pyspark.sql.types import MapType, StringType

from walhouse.names import string_literal
from walhouse.silver.modes import HstoreMode
from walhouse.silver.types.quoted import escaped, unescaped
from walhouse.silver.types.silver_type import SilverType, let

if TYPE_CHECKING:
    from walhouse.pgoutput.column import ColumnDescription
    from walhouse.silver.modes import TypeModes
    from walhouse.silver.settings import SilverSettings

_PAIR: Final = r'"([^"]*)"=>(NULL|"[^"]*")'


def hstore(column: ColumnDescription, modes: TypeModes) -> SilverType:
    """A JSON object as text, or a map. Of a domain that was not sent the engine has the plain placeholder, or NULL."""
    if modes.hstore is HstoreMode.JSON:
        return SilverType(
            StringType(),
            "string",
            _json,
            "'{}'",
            semantic="io.debezium.data.Json",
            version=1,
            unavailable=_placeholder_text if column.is_of_domain else _placeholder_json,
        )
    return SilverType(
        MapType(StringType(), StringType()),
        "map",
        _map,
        "CAST(map() AS map<string, string>)",
        unavailable=None if column.is_of_domain else _placeholder_map,
    )


def _pairs(text: str) -> str:
    """Array of (key, value), in PostgreSQL's order; NULL for a text that cannot be taken apart."""
    keys = f"regexp_extract_all({escaped(text)}, r'{_PAIR}', 1)"
    values = f"regexp_extract_all({escaped(text)}, r'{_PAIR}', 2)"
    value = f"CASE WHEN pair.v <> 'NULL' THEN {unescaped('substring(pair.v, 2, length(pair.v) - 2)')} END"
    pair = f"named_struct('key', {unescaped('pair.k')}, 'value', {value})"
    zipped = f"zip_with({keys}, {values}, (k, v) -> named_struct('k', k, 'v', v))"
    return f"transform({zipped}, pair -> {pair})"


def _json(text: str) -> str:
    # a map keeps the order of its entries, and to_json prints them in it
    return f"to_json({_map(text)}, map('ignoreNullFields', 'false'))"


def _map(text: str) -> str:
    """The pairs as a map, in the order of Java's HashMap."""
    placed = f"named_struct('bucket', {_spread_hash('pair.key')}, 'i', i, 'pair', pair)"
    room = "CASE WHEN size(found) <= 12 THEN 16L ELSE bigint(pow(2, ceil(log2(size(found) / 0.75D)))) END"
    bucket = f"named_struct('bucket', p.bucket & ({room} - 1), 'i', p.i, 'pair', p.pair)"
    in_order = f"map_from_entries(transform(array_sort(transform(found, p -> {bucket})), p -> p.pair))"
    return let("found", f"transform({_pairs(text)}, (pair, i) -> {placed})", in_order)


def _spread_hash(text: str) -> str:
    """String.hashCode over UTF-16 units, its high half folded into the low one, as an unsigned 32-bit number."""
    unit = f"ascii(substring({text}, at, 1))"
    high, low = f"(55232L + shiftright({unit}, 10))", f"(56320L + ({unit} & 1023L))"
    units = f"CASE WHEN {unit} > 65535 THEN array({high}, {low}) ELSE array(bigint({unit})) END"
    all_units = (
        f"CASE WHEN {text} = '' THEN array() ELSE flatten(transform(sequence(1, length({text})), at -> {units})) END"
    )
    hashed = f"aggregate(CAST({all_units} AS array<bigint>), 0L, (sum, u) -> (sum * 31 + u) & 4294967295L)"
    return let("h", hashed, "h ^ shiftright(h, 16)")


def _placeholder_json(settings: SilverSettings) -> str:
    text = settings.placeholder_text
    return string_literal(json.dumps({text: text}, ensure_ascii=False, separators=(",", ":")))


def _placeholder_text(settings: SilverSettings) -> str:
    return string_literal(settings.placeholder_text)


def _placeholder_map(settings: SilverSettings) -> str:
    text = string_literal(settings.placeholder_text)
    return f"map({text}, {text})"
