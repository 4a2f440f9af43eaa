"""Names of destinations.

Invariant: a name that Kafka would take, whatever the table is called.
Source: Debezium documentation, PostgreSQL connector, "Topic names"; Kafka allows 249 characters of [A-Za-z0-9._-].
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from walhouse.errors import NameCollisionError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from walhouse.names import TableName
    from walhouse.silver.settings import EventsSettings

LONGEST: Final = 249

_ILLEGAL: Final = re.compile(r"[^A-Za-z0-9._-]")


def table_topic(table: TableName, settings: EventsSettings) -> str:
    """Where the events of a table go: ``prefix.schema.table``, sanitised."""
    return sanitise(settings.delimiter.join((settings.topic_prefix, table.schema, table.table)))


def message_topic(settings: EventsSettings) -> str:
    """Where logical messages go: ``prefix.message``, with a dot whatever the delimiter is, sanitised."""
    return sanitise(f"{settings.topic_prefix}.message")


def transaction_topic(settings: EventsSettings) -> str:
    """Where the begins and ends of transactions go: ``prefix.transaction``, sanitised."""
    return sanitise(settings.delimiter.join((settings.topic_prefix, settings.transaction_topic)))


def heartbeat_topic(settings: EventsSettings) -> str:
    """Where heartbeats go: ``__debezium-heartbeat.prefix``, sanitised, or the name that was chosen."""
    parts = (settings.heartbeat_topic_prefix, settings.topic_prefix)
    return sanitise(settings.heartbeat_topic_name or settings.delimiter.join(parts))


def require_distinct_topics(tables: Iterable[TableName], settings: EventsSettings) -> None:
    """Raise NameCollisionError if the events of two tables would go to one destination, which Debezium does not see."""
    owners: dict[str, TableName] = {}
    for table in tables:
        topic = table_topic(table, settings)
        if owners.setdefault(topic, table) != table:
            raise NameCollisionError(
                f"The events of {owners[topic]} and of {table} would both go to {topic}.",
                todo="Print one of the tables at a time with --table, or leave one of them out.",
                tables=(str(owners[topic]), str(table)),
                name=topic,
            )


def sanitise(name: str) -> str:
    """The name with each illegal UTF-16 unit (Java's character) made ``_``, cut to what Kafka takes."""
    legal = _ILLEGAL.sub(lambda match: "_" if ord(match[0]) <= 0xFFFF else "__", name)[:LONGEST]
    return {".": "_", "..": "__"}.get(legal, legal)
