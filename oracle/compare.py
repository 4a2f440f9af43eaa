"""What differs between Debezium's records and walhouse's, after the little that must differ is taken out.

Invariant: ``NORMALISED`` and ``OF_A_SNAPSHOT`` are the whole list of what is not compared; each has a line in
docs/CONFORMANCE.md.
"""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Record = dict[str, Any]

NORMALISED: Final = (
    ("value", "ts_ms"),
    ("value", "ts_us"),
    ("value", "ts_ns"),
    ("value", "source", "version"),
    ("headers", "__debezium.context.runId"),
)
"""Paths that say when, by which program and in which run a record was made. Of a transaction's id the part after the
colon goes, too: it is the position of the record, where a stable name of the transaction is meant. A header that holds
a string is compared without JSON's quotes; the pairs of a sparse vector and the tables of a transaction's end without
their order; and the name that a Java object has for logical messages there as LOGICAL_DECODING_MESSAGE."""

OF_A_SNAPSHOT: Final = tuple(("source", name) for name in ("ts_ms", "ts_us", "ts_ns", "sequence", "txId", "lsn"))
"""Of a snapshot's rows no more is compared than whether they are there: each side takes a snapshot of its own, at its
own time and LSN."""

TRANSACTIONS: Final = tuple(f"p{delimiter}transaction" for delimiter in ".-_")
"""Their topics, by ``topic.delimiter``."""


def differences(debezium: Iterable[str], walhouse: Iterable[str], limit: int = 20) -> list[str]:
    """Sentences about what differs, topic by topic, record by record; empty if nothing does."""
    theirs, ours = _by_topic(debezium), _by_topic(walhouse)
    found: list[str] = []
    for topic in sorted({*theirs, *ours}):
        left, right = theirs.get(topic, []), ours.get(topic, [])
        if len(left) != len(right):
            found.append(f"{topic}: {len(left)} records from Debezium, {len(right)} from walhouse")
        for number, (one, other) in enumerate(zip(left, right, strict=False)):
            found += [f"{topic}[{number}]{path}" for path in _differences(one, other, "")]
    return found[:limit]


def _by_topic(lines: Iterable[str]) -> dict[str, list[Record]]:
    topics: dict[str, list[Record]] = defaultdict(list)
    for line in lines:
        # numbers stay texts: 4.0 is not 4, and no float rounds another one's digits away
        record = json.loads(line, parse_float=_Number, parse_int=_Number, parse_constant=_Number)
        topics[record["destination"]].append(_normalised(record))
    return topics


class _Number(str):
    """A number as it was written."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _normalised(record: Record) -> Record:
    record["headers"] = {name: _bare(value) for name, value in record["headers"].items()}
    value: Record = record["value"] or {}
    event: Record = value.get("payload") or value
    for path in NORMALISED:
        _remove({**record, "value": event}, path)
    if event.get("op") == "r":
        for path in OF_A_SNAPSHOT:
            _remove(event, path)
    _shorten_id(event.get("transaction"))
    if record["destination"] in TRANSACTIONS:
        _shorten_id(record["key"].get("payload") or record["key"])
        _shorten_id(event)
        if event["data_collections"]:
            event["data_collections"] = sorted(map(_known_collection, event["data_collections"]), key=str)
    return record


def _shorten_id(holder: Record | None) -> None:
    """Without the position in a transaction's id."""
    if holder:
        holder["id"] = holder["id"].partition(":")[0]


def _known_collection(counted: Record) -> Record:
    """Debezium's name for messages is that of a Java object."""
    is_object = "LogicalDecodingMessageId@" in counted["data_collection"]
    return {**counted, "data_collection": "LOGICAL_DECODING_MESSAGE"} if is_object else counted


def _bare(header: str) -> str:
    """A header's text: the JSON converter puts a string into quotes, Kafka Connect's default one does not."""
    return str(json.loads(header)) if header.startswith('"') else header


def _remove(inside: Any, path: tuple[str, ...]) -> None:
    *parents, last = path
    for name in parents:
        inside = inside.get(name) if isinstance(inside, dict) else None
    if isinstance(inside, dict) and inside.get(last) is not None:
        inside[last] = "not compared"


def _differences(one: Any, other: Any, path: str) -> Iterator[str]:
    if isinstance(one, dict) and isinstance(other, dict):
        if one.keys() == {"dimensions", "vector"}:  # Java gives the pairs an order that each process makes up anew
            one, other = ({**each, "vector": sorted(each["vector"])} for each in (one, other))
        if list(one) != list(other):
            yield f"{path}: fields {_brief(list(one))} from Debezium, {_brief(list(other))} from walhouse"
        for name in one.keys() & other.keys():
            yield from _differences(one[name], other[name], f"{path}.{name}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for number, (left, right) in enumerate(zip(one, other, strict=True)):
            yield from _differences(left, right, f"{path}[{number}]")
    elif type(one) is not type(other) or one != other:
        yield f"{path}: {_brief(one)} from Debezium, {_brief(other)} from walhouse"


def _brief(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 400 else f"{text[:400]}… ({len(text)} characters)"
