"""Metrics: the status, as Prometheus reads it."""

from __future__ import annotations

from dataclasses import replace

from prometheus_client.parser import text_string_to_metric_families

from walhouse.lsn import Lsn
from walhouse.names import TableName
from walhouse.ops.metrics import exposition
from walhouse.ops.status import SnapshotStatus, Status, TableStatus

ODD = TableName("shop", 'say "hi"\\\n')
STATUS = Status(
    captured_to=Lsn(900),
    source_lsn=Lsn(1_000),
    lag_bytes=100,
    lag_seconds=1.5,
    slot="s",
    slot_active_pid=7,
    slot_wal_status="reserved",
    retained_bytes=300,
    tables=(TableStatus(ODD, Lsn(900), Lsn(800), None, {"silver_events": 12, "gold_rescued": 0}),),
    snapshots=(SnapshotStatus("r1", ODD, "reading", 3, 3_072, None, 500, None),),
)


def samples(status: Status) -> dict[tuple[str, ...], float]:
    """By name and labels but for the slot, which every one has."""
    found = {}
    for family in text_string_to_metric_families(exposition(status)):
        assert (family.type, bool(family.documentation)) == ("gauge", True)
        for sample in family.samples:
            labels = dict(sample.labels)
            assert labels.pop("slot") == "s"
            values = [labels[name] for name in ("table", "layer", "count", "request", "state") if name in labels]
            found[(sample.name.removeprefix("walhouse_"), *values)] = sample.value
    return found


def test_every_number_of_the_status_is_a_metric_and_names_are_whole() -> None:
    table = str(ODD)
    assert samples(STATUS) == {
        ("source_lsn",): 1_000,
        ("captured_lsn",): 900,
        ("lag_bytes",): 100,
        ("lag_seconds",): 1.5,
        ("slot_retained_bytes",): 300,
        ("slot_usable",): 1,
        ("slot_read",): 1,
        ("snapshots_open",): 1,
        ("layer_lsn", table, "bronze"): 900,
        ("layer_lsn", table, "silver"): 800,
        ("table_count", table, "silver_events"): 12,
        ("table_count", table, "gold_rescued"): 0,
        ("snapshot_chunks", table, "r1", "reading"): 3,
        ("snapshot_rows", table, "r1", "reading"): 3_072,
        ("snapshot_rows_per_second", table, "r1", "reading"): 500,
    }


def test_what_is_not_known_is_left_out() -> None:
    nothing = replace(
        STATUS,
        captured_to=None, slot_active_pid=None, slot_wal_status=None, retained_bytes=None, tables=(), snapshots=(),
    )  # fmt: skip
    assert set(samples(nothing)) == {
        ("source_lsn",), ("lag_bytes",), ("lag_seconds",), ("slot_read",), ("snapshots_open",),
    }  # fmt: skip


def test_a_slot_that_may_lose_or_lost_wal_is_not_usable() -> None:
    for wal_status in ("unreserved", "lost"):
        assert samples(replace(STATUS, slot_wal_status=wal_status))[("slot_usable",)] == 0
