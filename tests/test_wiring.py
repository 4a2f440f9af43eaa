"""What a property says reaches the part that it is meant for. No Spark and no server are asked for it."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.config.files import MINIMAL, read, with_connector
from walhouse.api import Walhouse
from walhouse.bronze.snapshots.modes import FixedPolicy
from walhouse.names import TableName
from walhouse.ops.reporting import Silent
from walhouse.ops.retry import Retry
from walhouse.silver.records.topics import heartbeat_topic, transaction_topic
from walhouse.wiring import capture_settings, events_settings, silver_settings

if TYPE_CHECKING:
    from pathlib import Path

    from walhouse.bronze.settings import CaptureSettings
    from walhouse.silver.settings import EventsSettings, SilverSettings


class Told(NamedTuple):
    """What the parts are told."""

    capture: CaptureSettings
    silver: SilverSettings
    events: EventsSettings


def told(lines: str, tmp_path: Path) -> Told:
    return told_by(with_connector(lines), tmp_path)


def told_by(text: str, tmp_path: Path) -> Told:
    configuration = read(text, tmp_path)
    connector = configuration.connector
    return Told(capture_settings(configuration), silver_settings(connector), events_settings(connector))


@pytest.mark.parametrize(
    ("line", "part", "expected"),
    [
        ("slot.name: s", "capture.slot", "s"),
        ("slot.failover: true", "capture.failover", True),
        ("publication.name: p", "capture.publication", "p"),
        ("publication.autocreate.mode: disabled", "capture.publication_mode", "disabled"),
        ("publish.via.partition.root: true", "capture.via_partition_root", True),
        ("xmin.fetch.interval.ms: 1", "capture.tells_xmin", True),
        ("xmin.fetch.interval.ms: 0", "capture.tells_xmin", False),
        ("read.only: true", "capture.connection.read_only", True),
        ("provide.transaction.metadata: true", "capture.transactions", True),
        ("snapshot.lock.timeout.ms: 1500", "capture.snapshots.lock_seconds", 1.5),
        ("snapshot.delay.ms: 1500", "capture.snapshots.delay_seconds", 1.5),
        ("streaming.delay.ms: 2500", "capture.snapshots.streaming_delay_seconds", 2.5),
        ("snapshot.max.threads: 7", "capture.snapshots.parallelism", 7),
        ("snapshot.max.threads: 7", "capture.snapshots.workers", 7),
        ("incremental.snapshot.chunk.size: 9", "capture.chunk_rows", 9),
        ("signal.poll.interval.ms: 1500", "capture.signals.poll_seconds", 1.5),
        ("unavailable.value.placeholder: gone", "silver.placeholder", "gone"),
        ("skip.messages.without.change: true", "silver.skip_unchanged", True),
        ("event.converting.failure.handling.mode: fail", "silver.conversion_failures", "fail"),
        *(
            (line, f"{part}.types.{kind}", value)
            for part in ("silver", "events")
            for line, kind, value in (
                ("decimal.handling.mode: string", "decimal", "string"),
                ("time.precision.mode: connect", "time", "connect"),
                ("binary.handling.mode: hex", "binary", "hex"),
                ("interval.handling.mode: string", "interval", "string"),
                ("hstore.handling.mode: map", "hstore", "map"),
                ("money.fraction.digits: 4", "money_digits", 4),
                ("include.unknown.datatypes: true", "unknown", True),
            )
        ),
        ("topic.delimiter: '-'", "events.delimiter", "-"),
        ("tombstones.on.delete: false", "events.tombstones", False),
        ("extended.headers.enabled: false", "events.context_headers", False),
        ("skipped.operations: c,u", "events.skipped_operations", {"c", "u"}),
        ("provide.transaction.metadata: true", "events.transactions", True),
        ("topic.transaction: tx", "events.transaction_topic", "tx"),
        ("heartbeat.interval.ms: 1500", "events.heartbeat_ms", 1500),
        ("topic.heartbeat.prefix: beat", "events.heartbeat_topic_prefix", "beat"),
        ("topic.heartbeat.name: beats", "events.heartbeat_topic_name", "beats"),
        ("schema.name.adjustment.mode: avro", "events.schema_names", "avro"),
        ("field.name.adjustment.mode: avro", "events.field_names", "avro"),
    ],
)
def test_a_property_reaches_its_part(line: str, part: str, expected: object, tmp_path: Path) -> None:
    assert attrgetter(part)(told(line, tmp_path)) == expected


def test_a_sources_name_and_its_databases_are_told_apart(tmp_path: Path) -> None:
    found = told_by(MINIMAL.replace("dbname: shop", "dbname: shopdb"), tmp_path)
    assert (found.capture.connector, found.silver.topic_prefix, found.events.topic_prefix) == ("shop", "shop", "shop")
    assert (found.silver.database, found.capture.connection.database) == ("shopdb", "shopdb")


def test_begins_and_ends_and_heartbeats_go_where_the_configuration_says(tmp_path: Path) -> None:
    settings = told("topic.delimiter: '-'\ntopic.transaction: tx\ntopic.heartbeat.prefix: beat", tmp_path).events
    assert (transaction_topic(settings), heartbeat_topic(settings)) == ("shop-tx", "beat-shop")
    named = told("topic.heartbeat.prefix: beat\ntopic.heartbeat.name: be ats", tmp_path).events
    assert heartbeat_topic(named) == "be_ats"


def test_a_heartbeats_statement_runs_only_where_heartbeats_are_wanted(tmp_path: Path) -> None:
    query = "heartbeat.action.query: SELECT 1"
    assert told(query, tmp_path).capture.heartbeat_query is None
    capture = told(f"{query}\nheartbeat.interval.ms: 1500", tmp_path).capture
    assert (capture.heartbeat_query, capture.heartbeat_seconds) == ("SELECT 1", 1.5)


@pytest.mark.parametrize(
    ("channels", "table", "file"), [("source", True, False), ("file", False, True), ("source,file", True, True)]
)
def test_only_channels_that_are_enabled_are_read(channels: str, table: bool, file: bool, tmp_path: Path) -> None:
    lines = f"signal.enabled.channels: {channels}\nsignal.data.collection: s.signals\nsignal.file: f"
    signals = told(lines, tmp_path).capture.signals
    assert signals.table == (TableName("s", "signals") if table else None)
    assert signals.file == (tmp_path / "f" if file else None)


def test_a_snapshot_without_a_stream_has_a_slot_of_its_own_that_needs_no_failover(tmp_path: Path) -> None:
    name = "s" * 63
    capture = told(f"snapshot.mode: initial_only\nslot.failover: true\nslot.name: {name}", tmp_path).capture
    assert (capture.slot, capture.failover) == (f"{name[:58]}_once", False)


def test_each_answer_of_a_mode_by_configuration_is_the_property_that_gives_it(tmp_path: Path) -> None:
    based = "snapshot.mode.configuration.based"

    def policy(*given: str) -> FixedPolicy:
        lines = "\n".join(["snapshot.mode: configuration_based", *(f"{based}.{name}: true" for name in given)])
        found = told(lines, tmp_path).capture.snapshots.mode
        assert isinstance(found, FixedPolicy)
        return found

    assert policy() == FixedPolicy(first=False, follows=False)
    assert policy("snapshot.data") == FixedPolicy(first=True, always=True, follows=False)
    assert policy("start.stream") == FixedPolicy(first=False)
    assert policy("snapshot.on.data.error") == FixedPolicy(first=False, follows=False, after_loss=True)


def test_how_often_a_slot_in_use_is_tried_again_is_the_connectors_to_say(tmp_path: Path) -> None:
    configuration = read(with_connector("slot.max.retries: 2\nslot.retry.delay.ms: 1500"), tmp_path)
    assert Walhouse(configuration)._rounds(Silent()).slot_retry == Retry(delay_seconds=1.5, times=2)
