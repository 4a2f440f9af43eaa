"""Printed events, folded one after the other: what a consumer who knows nothing but them holds in the end.

Invariant: a value becomes PostgreSQL's text by the schema that is printed beside it, by exact arithmetic; nothing of
the product's is asked. A double alone stays a number, since Java's text of it is not PostgreSQL's.
"""

from __future__ import annotations

import base64
import json
from collections import Counter
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Value = str | float | None
Row = dict[str, Value]

UNAVAILABLE: Final = "__debezium_unavailable_value"
"""In place of a long value that the update did not change."""


class FoldError(AssertionError):
    """Events that cannot follow one another."""


@dataclass(frozen=True)
class Event:
    op: str
    key: str | None
    """As JSON, without its schema."""
    before: Row | None
    after: Row | None
    reading: int | None
    """LSN of the snapshot that it is a row of, if that is one of whole tables."""
    old_key: str | None
    """Where the row had another one until then."""


def events_of(lines: Iterable[str], topic: str) -> list[Event]:
    """Those of one table, without tombstones."""
    start = f'{{"destination":{json.dumps(topic)},'
    records = (json.loads(line) for line in lines if line.startswith(start))
    return [_event(record) for record in records if record["value"] is not None]


def _event(record: Mapping[str, Any]) -> Event:
    schema, value = record["value"]["schema"], record["value"]["payload"]
    fields = {field["field"]: field for field in schema["fields"]}
    old_key = record["headers"].get("__debezium.oldkey")
    is_whole = value["op"] == "r" and value["source"]["snapshot"] != "incremental"
    return Event(
        value["op"],
        None if record["key"] is None else _canonical(record["key"]["payload"]),
        _row(fields["before"], value["before"]),
        _row(fields["after"], value["after"]),
        value["source"]["lsn"] if is_whole else None,
        None if old_key is None else _canonical(json.loads(old_key)),
    )


def _canonical(key: Any) -> str:
    return json.dumps(key, sort_keys=True)


def _row(schema: Mapping[str, Any], image: Mapping[str, Any] | None) -> Row | None:
    if image is None:
        return None
    described = {field["field"]: field for field in schema["fields"]}
    if image.keys() - described.keys():
        raise FoldError(f"values that the schema does not describe: {sorted(image.keys() - described.keys())}")
    return {name: _value(described[name], value) for name, value in image.items()}


def _value(field: Mapping[str, Any], value: Any) -> Value:
    """PostgreSQL's text of it, by the field's schema."""
    if value is None:
        return None
    match field["type"], field.get("name"):
        case "string", _:
            return str(value)
        case (("int16" | "int32" | "int64"), None):
            return str(int(value))
        case "double", None:
            return float(value)
        case "bytes", "org.apache.kafka.connect.data.Decimal":
            return _decimal(value, int(field["parameters"]["scale"]))
        case "struct", "io.debezium.data.VariableScaleDecimal":
            return _decimal(value["value"], value["scale"])
    raise FoldError(f"no table here has a field of {field}")


def _decimal(unscaled: str, scale: int) -> str:
    number = int.from_bytes(base64.b64decode(unscaled), "big", signed=True)
    return f"{Decimal(number).scaleb(-scale):f}"


def is_same(one: Value, other: Value) -> bool:
    """Of two values, one of which may be a double where the other is a number's text. A placeholder is no value."""
    if isinstance(one, float) or isinstance(other, float):
        return one is not None and other is not None and float(one) == float(other)
    return one == other


def differences(row: Row, other: Row) -> list[str]:
    """Names of the columns, of those that both have, in which two rows differ."""
    return [name for name in row if name in other and not is_same(row[name], other[name])]


def folded(events: Iterable[Event]) -> dict[str, Row]:
    """Rows by their keys."""
    rows: dict[str, Row] = {}
    moved: dict[str, Row] = {}
    for event in events:
        if event.op == "t":
            rows.clear()
        elif event.key is None:
            raise FoldError(f"an event {event.op} of a table with a key has none")
        elif event.op == "d":
            moved[event.key] = rows.pop(event.key, {})
        elif event.after is not None:
            known = rows.get(event.key, {}) if event.old_key is None else moved.get(event.old_key, {})
            if event.op == "r" and (differing := differences(event.after, rows.get(event.key, {}))):
                # a row that was read stands after all that it has seen: it is as the last of them left it
                raise FoldError(f"a row that was read differs from what came before: {event.key} {differing}")
            rows[event.key] = _completed(event.after, known)
    return rows


def _completed(after: Row, known: Row) -> Row:
    return {name: known.get(name, value) if value == UNAVAILABLE else value for name, value in after.items()}


def bag(events: Iterable[Event]) -> Counter[tuple[tuple[str, Value], ...]]:
    """Rows of a table without a key, whose old ones are told whole; each reading stands in place of what was there."""
    rows: Counter[tuple[tuple[str, Value], ...]] = Counter()
    reading: int | None = None
    for event in events:
        if event.op == "t" or (event.reading is not None and event.reading != reading):
            rows.clear()
        if event.before is not None:
            gone = _as_member(event.before)
            if not rows[gone]:
                raise FoldError(f"{event.op} of a row that is not there: {gone}")
            rows[gone] -= 1
        if event.after is not None:
            rows[_as_member(_completed(event.after, event.before or {}))] += 1
        reading = event.reading
    return +rows


def _as_member(row: Row) -> tuple[tuple[str, Value], ...]:
    return tuple(sorted(row.items()))


def last_reading(events: list[Event]) -> list[Row]:
    """The rows of the snapshot of whole tables with which the events end."""
    last = events[-1].reading if events else None
    rows: list[Row] = []
    for event in reversed(events):
        if event.reading is None or event.reading != last or event.after is None:
            break
        rows.append(event.after)
    return rows
