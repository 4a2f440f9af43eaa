"""What differs is told by its place."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from oracle.compare import differences

if TYPE_CHECKING:
    from collections.abc import Mapping


def _line(*fields: Mapping[str, object]) -> str:
    value = {"schema": {"fields": [dict(field) for field in fields]}, "payload": {"op": "c"}}
    return json.dumps({"destination": "p.public.t", "key": None, "value": value, "headers": {}})


def test_of_lists_of_one_length_the_element_that_differs_is_named() -> None:
    plain, with_default = {"field": "a"}, {"field": "a", "default": 1}
    assert differences([_line(plain, plain)], [_line(plain, plain)]) == []
    assert differences([_line(plain, with_default)], [_line(plain, plain)]) == [
        "p.public.t[0].value.schema.fields[1]: fields ['field', 'default'] from Debezium, ['field'] from walhouse"
    ]


def test_lists_of_two_lengths_differ_as_a_whole() -> None:
    [told] = differences([_line({}, {})], [_line({})])
    assert told == "p.public.t[0].value.schema.fields: [{}, {}] from Debezium, [{}] from walhouse"
