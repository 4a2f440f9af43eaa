"""That a fold of events finds what is wrong in them."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from tests.e2e.operating.folding import (
    UNAVAILABLE,
    FoldError,
    bag,
    differences,
    events_of,
    folded,
    is_same,
    last_reading,
)

_DECIMAL = {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}}
_ROW = {
    "fields": [
        {"type": "int32", "field": "id"},
        {"type": "string", "field": "body"},
        {**_DECIMAL, "field": "n"},
        {"type": "double", "field": "d"},
    ]
}
_SCHEMA = {"fields": [{**_ROW, "field": "before"}, {**_ROW, "field": "after"}, {"type": "string", "field": "op"}]}


def _line(op: str, key: int | None, **value: Any) -> str:
    source = {"lsn": value.pop("lsn", 1), "snapshot": value.pop("snapshot", "false")}
    headers = value.pop("headers", {})
    payload = {"before": None, "after": None, **value, "op": op, "source": source}
    record = {
        "destination": "p.public.t",
        "key": None if key is None else {"schema": {}, "payload": {"id": key}},
        "value": {"schema": _SCHEMA, "payload": payload},
        "headers": headers,
    }
    return json.dumps(record, separators=(",", ":"))


def _row(number: int, body: str = "b") -> dict[str, Any]:
    return {
        "id": number,
        "body": body,
        "n": base64.b64encode((-730).to_bytes(2, "big", signed=True)).decode(),
        "d": 0.1,
    }


def test_values_become_postgresqls_text_by_their_schema() -> None:
    [event] = events_of([_line("c", 1, after=_row(1)), _line("c", 2).replace("public.t", "public.u")], "p.public.t")
    assert event.after == {"id": "1", "body": "b", "n": "-7.30", "d": 0.1}
    assert differences(event.after, {"id": "1", "body": "b", "n": "-7.30", "d": "0.1"}) == []
    assert differences(event.after, {"id": "1", "body": "c", "n": "-7.3", "d": "0.2"}) == ["body", "n", "d"]
    assert not is_same(None, 0.0)


def test_a_value_that_was_not_sent_is_that_of_the_row_before_also_under_another_key() -> None:
    lines = [
        _line("r", 1, after=_row(1, "long"), snapshot="true"),
        _line("u", 1, after=_row(1, UNAVAILABLE)),
        _line("d", 1, before=_row(1), headers={"__debezium.newkey": '{"id":2}'}),
        _line("c", 2, after=_row(2, UNAVAILABLE), headers={"__debezium.oldkey": '{"id":1}'}),
    ]
    [row] = folded(events_of(lines, "p.public.t")).values()
    assert (row["id"], row["body"]) == ("2", "long")
    [row] = folded(events_of(lines[3:], "p.public.t")).values()
    assert row["body"] == UNAVAILABLE  # as no row of the source is


def test_a_row_that_was_read_is_as_the_last_event_before_left_it() -> None:
    lines = [_line("c", 1, after=_row(1)), _line("r", 1, after=_row(1, "other"), snapshot="incremental")]
    with pytest.raises(FoldError, match="body"):
        folded(events_of(lines, "p.public.t"))
    assert folded(events_of([*lines[:1], _line("t", None)], "p.public.t")) == {}


def test_rows_without_a_key_are_a_bag_that_each_reading_begins_anew() -> None:
    lines = [
        _line("r", None, after=_row(1), snapshot="first", lsn=5),
        _line("r", None, after=_row(1), snapshot="last", lsn=5),
        _line("u", None, before=_row(1), after=_row(2, UNAVAILABLE), lsn=6),
    ]
    rows = bag(events_of(lines, "p.public.t"))
    assert sorted((dict(row)["id"], dict(row)["body"], count) for row, count in rows.items()) == [
        ("1", "b", 1),
        ("2", "b", 1),
    ]
    again = _line("r", None, after=_row(9), snapshot="last", lsn=7)
    assert bag(events_of([*lines, again], "p.public.t")).total() == 1
    with pytest.raises(FoldError, match="not there"):
        bag(events_of([*lines, _line("d", None, before=_row(3))], "p.public.t"))


def test_the_last_reading_is_that_with_which_the_events_end() -> None:
    reading = [_line("r", 1, after=_row(1), snapshot="last", lsn=lsn) for lsn in (5, 7, 7)]
    assert len(last_reading(events_of(reading, "p.public.t"))) == 2
    assert last_reading(events_of([*reading, _line("c", 3, after=_row(3))], "p.public.t")) == []
    assert last_reading([]) == []
