"""The status as metrics, in the text format that Prometheus reads.

Invariant: a metric says what ``walhouse status`` says at the same moment; what is not known is left out, never 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from prometheus_client import Metric

    from walhouse.ops.status import SnapshotStatus, Status, TableStatus

_USABLE: Final = frozenset({"reserved", "extended"})
"""``wal_status`` of a slot that has all its WAL (PostgreSQL, pg_replication_slots)."""

_SNAPSHOT: Final = {
    "chunks": "Chunks read of a table that is being read or waits for it",
    "rows": "Rows read of it, about",
    "estimated_rows": "Rows that the server's statistics say it has",
    "rows_per_second": "Rate at which it is read",
    "seconds_left": "Time until it is read, if it goes on as it went",
}
"""What a snapshot's status has as numbers."""


def exposition(status: Status) -> str:
    """The metrics of one status, each with its help and type; every one has the slot's name as a label."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_StatusCollector(status))
    return generate_latest(registry).decode()


class _StatusCollector(Collector):
    def __init__(self, status: Status) -> None:
        self._status = status

    def collect(self) -> Iterable[Metric]:
        yield from _positions(self._status)
        yield from _tables(self._status.slot, self._status.tables)
        yield from _snapshots(self._status.slot, self._status.snapshots)


def _positions(status: Status) -> Iterator[Metric]:
    usable = None if status.slot_wal_status is None else float(status.slot_wal_status in _USABLE)
    facts = (
        ("source_lsn", "Where the source's WAL is flushed to, in bytes", status.source_lsn),
        ("captured_lsn", "Every commit before it is in bronze, in bytes", status.captured_to),
        ("lag_bytes", "WAL that is flushed and not in bronze", status.lag_bytes),
        ("lag_seconds", "Time since the last pass was captured while there is a lag, else 0", status.lag_seconds),
        ("slot_retained_bytes", "WAL that the slot keeps on the server", status.retained_bytes),
        ("slot_usable", "1 if the slot has all its WAL, 0 if some is lost or may be soon", usable),
        ("slot_read", "1 while a process reads the slot", float(status.slot_active_pid is not None)),
        ("snapshots_open", "Tables that are read or wait for it", len(status.snapshots)),
    )
    for name, text, value in facts:
        if value is not None:
            yield _family(name, text, (), [((status.slot,), float(value))])


def _tables(slot: str, tables: Iterable[TableStatus]) -> Iterator[Metric]:
    tables = tuple(tables)
    layers = [
        ((slot, str(each.table), layer), float(lsn))
        for each in tables
        for layer, lsn in (("bronze", each.captured), ("silver", each.silver), ("gold", each.gold))
        if lsn is not None
    ]
    yield _family("layer_lsn", "Every commit before it is in the table's layer, in bytes", ("table", "layer"), layers)
    counts = [
        ((slot, str(each.table), name), float(count)) for each in tables for name, count in sorted(each.counts.items())
    ]
    yield _family("table_count", "The counts of walhouse status, by their names", ("table", "count"), counts)


def _snapshots(slot: str, snapshots: Iterable[SnapshotStatus]) -> Iterator[Metric]:
    snapshots = tuple(snapshots)
    for name, text in _SNAPSHOT.items():
        values = [
            ((slot, str(each.table), each.request, each.state), float(value))
            for each in snapshots
            if (value := getattr(each, name)) is not None
        ]
        yield _family(f"snapshot_{name}", text, ("table", "request", "state"), values)


def _family(name: str, text: str, labels: tuple[str, ...], values: Iterable[tuple[tuple[str, ...], float]]) -> Metric:
    family = GaugeMetricFamily(f"walhouse_{name}", text, labels=("slot", *labels))
    for given, value in values:
        family.add_metric(given, value)
    return family
