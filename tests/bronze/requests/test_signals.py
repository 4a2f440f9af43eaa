"""What signals ask for and what is answered, without a server; then through every channel, on the real one."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walhouse.bronze.requests.notifications import Event, Notification, ScanStatus, notifications_of
from walhouse.bronze.requests.signals import Signal, follow, snapshot_data
from walhouse.bronze.snapshots.queue import QueuedTable, SnapshotQueue
from walhouse.names import TableName

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.fixtures_house import MakeHouse
    from tests.fixtures_server import Database
    from walhouse.lakehouse.layout import LakeLayout

TYPES = ["execute-snapshot", "stop-snapshot", "pause-snapshot", "resume-snapshot", "log", "snapshot-window-open", "?"]
FIELDS = st.sampled_from(
    ["data-collections", "type", "additional-conditions", "data-collection", "filter", "surrogate-key", "message"]
)

A, B, C = (TableName("s", name) for name in "abc")
CAPTURED = (C, B, A)
NOTHING = SnapshotQueue()


def execute(**data: object) -> Signal:
    return Signal(
        "one", "execute-snapshot", json.dumps({name.replace("_", "-"): value for name, value in data.items()})
    )


def test_tables_come_in_the_order_of_the_patterns_each_once_with_their_conditions() -> None:
    conditions = [{"data-collection": r"s\.[bc]", "filter": "x > 1"}]
    asked = execute(data_collections=[r"s\.b", r"S\..*"], additional_conditions=conditions, surrogate_key="k")
    queue, (started,) = follow(asked, NOTHING, CAPTURED)
    assert [(each.table, each.condition, each.key) for each in queue.tables] == [
        (B, "x > 1", ("k",)),
        (A, None, ("k",)),
        (C, "x > 1", ("k",)),
    ]
    assert (started.id, started.type, started.data) == ("one", Event.STARTED, {"data_collections": "s.b,s.a,s.c"})


@pytest.mark.parametrize("status", ScanStatus)
def test_the_log_warns_of_a_table_that_was_not_read(status: ScanStatus) -> None:
    note = Notification("one", Event.TABLE_SCAN_COMPLETED, data={"status": status.value})
    was_read = status in {ScanStatus.SUCCEEDED, ScanStatus.EMPTY}
    assert note.level == (logging.INFO if was_read else logging.WARNING)


def test_a_table_that_waits_already_is_not_queued_twice_unless_under_another_condition() -> None:
    queue, _ = follow(execute(data_collections=["s.a"]), NOTHING, CAPTURED)
    queue, (answer,) = follow(execute(data_collections=["s.a"]), queue, CAPTURED)
    assert (answer.type, len(queue.tables)) == (Event.REFUSED, 1)
    some = execute(data_collections=["s.a"], additional_conditions=[{"data-collection": "s.a", "filter": "true"}])
    assert len(follow(some, queue, CAPTURED).queue.tables) == 2
    assert len(follow(execute(data_collections=["s.a"], surrogate_key="k"), queue, CAPTURED).queue.tables) == 2


def test_a_blocking_snapshot_replaces_what_was_known_unless_it_reads_a_part_and_is_queued_once() -> None:
    part = [{"data-collection": "s.b", "filter": "SELECT 1"}]
    asked = execute(data_collections=["s.a", "s.b"], additional_conditions=part, type="blocking")
    queue, _ = follow(asked, NOTHING, CAPTURED)
    assert [(each.table, each.replaces) for each in queue.whole[0].tables] == [(A, True), (B, False)]
    queue, (answer,) = follow(asked, queue, CAPTURED)
    assert (answer.type, len(queue.whole)) == (Event.REFUSED, 1)


def test_a_signal_for_tables_is_for_these_whatever_their_names_hold() -> None:
    odd, other = TableName("s", "a.b"), TableName("s", "axb")
    queue, _ = follow(execute(**snapshot_data([odd])), NOTHING, (odd, other))
    assert [each.table for each in queue.tables] == [odd]


def test_a_table_that_is_half_read_may_be_asked_for_once_more() -> None:
    """What was read of it may have changed since without a word."""
    queue, _ = follow(execute(data_collections=["s.a"]), NOTHING, CAPTURED)
    begun = queue.with_head(replace(queue.tables[0], began=1.0, after=("1",), upto=("9",)))
    assert len(follow(execute(data_collections=["s.a"]), begun, CAPTURED).queue.tables) == 2


def test_a_stop_takes_out_what_nobody_asked_for_only_by_its_name() -> None:
    own = [QueuedTable("added-1", table, own=True, owed=1) for table in (A, B)]
    queue, _ = follow(execute(data_collections=["s.[ac]"]), SnapshotQueue(tuple(own[1:])), CAPTURED)
    queue = queue.add(own[:1])
    assert len(queue.tables) == 3, "the one that was asked for has the rows of the other, too"
    left, (told,) = follow(Signal("one", "stop-snapshot"), queue, CAPTURED)
    assert (list(left.tables), told.data) == ([own[1]], {"data_collections": "s.a,s.c"})
    left, _ = follow(Signal("x", "stop-snapshot", '{"data-collections": ["s.b"]}'), left, CAPTURED)
    assert left == NOTHING


def test_a_pause_holds_everything_until_it_is_resumed_and_a_stop_takes_tables_out() -> None:
    queue, _ = follow(execute(data_collections=["s.*"]), NOTHING, CAPTURED)
    queue, (paused,) = follow(Signal("p", "pause-snapshot"), queue, CAPTURED)
    assert (queue.head, paused.type) == (None, Event.PAUSED)
    assert follow(Signal("p", "pause-snapshot"), queue, CAPTURED).notifications[0].type == Event.REFUSED
    assert follow(Signal("x", "stop-snapshot", '{"data-collections": ["s.a"]}'), queue, CAPTURED).queue.paused
    assert SnapshotQueue.from_dict(json.loads(json.dumps(queue.to_dict()))) == queue
    queue, (resumed,) = follow(Signal("r", "resume-snapshot", '{"type": "INCREMENTAL"}'), queue, CAPTURED)
    assert (queue.head and queue.head.table, resumed.type) == (A, Event.RESUMED)
    queue, (stopped,) = follow(Signal("x", "stop-snapshot", '{"data-collections": ["s.[ab]"]}'), queue, CAPTURED)
    assert (stopped.id, stopped.type, stopped.data) == ("x", Event.ABORTED, {"data_collections": "s.a,s.b"})
    assert [each.table for each in queue.tables] == [C]
    queue, _ = follow(Signal("p", "pause-snapshot"), queue, CAPTURED)
    emptied, told = follow(Signal("x", "stop-snapshot", ""), queue, CAPTURED)
    assert emptied == NOTHING, "nor is it paused"
    assert [(each.id, each.type) for each in told] == [("x", Event.ABORTED), ("one", Event.ABORTED)]


def test_the_first_condition_of_a_table_counts_and_a_name_that_is_not_captured_is_told_of() -> None:
    conditions = [{"data-collection": r"s\..", "filter": "x > 1"}, {"data-collection": "s.a", "filter": "true"}]
    queue, (started,) = follow(
        execute(data_collections=["s.a", "s.typo"], additional_conditions=conditions), NOTHING, CAPTURED
    )
    assert [(each.table, each.condition) for each in queue.tables] == [(A, "x > 1")]
    assert started.data == {"data_collections": "s.a", "not_captured": "s.typo"}


@pytest.mark.parametrize(
    ("signal", "reason"),
    [
        (Signal("1", "dance"), "there is no signal of the type 'dance'"),
        (Signal("1", "schema-changes", "{}"), "tables describe themselves"),
        (Signal("1", "execute-snapshot", "{"), "the data is no JSON"),
        (Signal("1", "execute-snapshot", "[1]"), "no JSON object"),
        (Signal("1", "execute-snapshot", '"{}"'), "data-collections names no table"),
        (execute(data_collections="s.a"), "data-collections"),
        (execute(data_collections=["s.nobody"]), "matches no captured table"),
        (execute(data_collections=["s.(a"]), "the pattern 's.(a'"),
        (execute(data_collections=["s.a"], type="sudden"), "type"),
        (execute(data_collections=["s.a"], additional_conditions=[{"filter": "x"}]), "additional-conditions.0"),
        (
            execute(data_collections=["s.a"], additional_conditions=[{"data-collection": "s.b", "filter": "x"}]),
            "s.b is none of the tables asked for",
        ),
        (Signal("1", "execute-snapshot", f'{{"data-collections": {"9" * 5000}}}'), "a number that is too long"),
        (
            execute(data_collections=["s.a"], additional_conditions=[{"data-collection": "s.a", "filter": "x = '\0'"}]),
            "PostgreSQL's texts cannot hold",
        ),
        (Signal("1", "stop-snapshot"), "no such table"),
        (Signal("1", "pause-snapshot"), "nothing to pause"),
        (Signal("1", "resume-snapshot"), "not paused"),
        (Signal("1", "log", "{}"), "has no message"),
    ],
)
def test_a_signal_that_cannot_be_followed_is_answered_with_a_reason(signal: Signal, reason: str) -> None:
    queue, (answer,) = follow(signal, NOTHING, CAPTURED)
    assert queue == NOTHING
    assert (answer.id, answer.type, answer.aggregate_type) == (signal.id, Event.REFUSED, "Signal")
    assert reason in answer.data["reason"]


VALUES = st.none() | st.booleans() | st.integers() | st.text() | st.just("\ud800") | st.just("a{99999999999}")
LONG_NUMBER = st.just(f'{{"type": {"9" * 5000}}}')
ODD = st.recursive(
    VALUES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS | st.text(), inner), max_leaves=8
)


@given(
    st.sampled_from(TYPES),
    st.text() | st.just("[" * 100_000) | LONG_NUMBER | st.dictionaries(FIELDS, ODD).map(json.dumps),
)
def test_no_signal_whatever_it_holds_stops_capture(kind: str, data: str) -> None:
    queue, notifications = follow(Signal("odd", kind, data), SnapshotQueue((QueuedTable("r", A),)), CAPTURED)
    assert queue is not None
    for each in queue.tables:
        (each.condition or "").encode()
    assert all(note.id in {"odd", "r"} for note in notifications)


def test_a_message_is_logged_and_other_readers_watermarks_are_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"):
        assert follow(Signal("1", "log", '{"message": "half past {}"}'), NOTHING, ()).notifications == ()
    assert "half past {}" in caplog.text
    assert follow(Signal("1", "snapshot-window-open", "{}"), NOTHING, ()) == (NOTHING, ())


def test_keys_show_in_no_repr() -> None:
    assert "secret" not in repr(QueuedTable("r", A, after=("secret",), upto=("secret",)))


@pytest.mark.slow
@pytest.mark.server
@pytest.mark.spark
def test_signals_of_before_are_read_with_their_table_and_not_followed(
    spark: SparkSession, table: Database, lake: LakeLayout, make_house: MakeHouse
) -> None:
    """They were another reader's; gold is the source all the same."""
    table.execute(
        "CREATE TABLE signals (id text PRIMARY KEY, type text, data text)",
        "INSERT INTO signals VALUES ('old', 'pause-snapshot', NULL)",
    )
    make_house(table_include_list=r"public\.t").run()
    house = make_house(table_include_list=r"public\.t", signal_data_collection="public.signals")
    house.run()
    table.execute("INSERT INTO signals VALUES ('new', 'pause-snapshot', NULL)")
    house.run()
    assert [len(notifications_of(spark, lake, request)) for request in ("old", "new")] == [0, 1]
    assert all(proof.equal for proof in house.verify())


@pytest.mark.slow
@pytest.mark.server
@pytest.mark.spark
def test_signals_come_by_the_source_the_lake_and_a_file_and_a_pause_outlives_the_process(
    spark: SparkSession,
    table: Database,
    lake: LakeLayout,
    make_house: MakeHouse,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    table.execute("INSERT INTO t SELECT n, 'x' FROM generate_series(1, 30) AS n")
    settings = {
        "snapshot_mode": "no_data",
        "table_include_list": r"public\.t",
        "signal_data_collection": "public.signals",
        "signal_enabled_channels": "source,file",
        "signal_poll_interval_ms": 1,
    }
    house = make_house(**settings)
    assert house.init_signals()[1] == "public.signals"
    house.run()
    file = tmp_path / "file-signals.txt"
    file.write_text('{"id": "f", "type": "pause-snapshot"}\nno signal\n')
    give = "INSERT INTO signals VALUES (%s, %s, %s)"
    with table.connect() as connection:
        connection.execute(give, ["s", "execute-snapshot", '{"data-collections": ["public.t"]}'])
        connection.execute(give, ["bad", "execute-snapshot", "{"])
    with caplog.at_level(logging.INFO, "walhouse.notifications"):
        house.run()
    told = {record.getMessage().partition(":")[0]: record.levelname for record in caplog.records}
    assert (told["Signal REFUSED"], told["Incremental Snapshot PAUSED"]) == ("WARNING", "INFO")
    assert file.read_text() == ""
    assert spark.table(str(lake.bronze)).where("kind = 'snapshot'").isEmpty(), "it is paused"
    assert [note.type for note in notifications_of(spark, lake, "bad")] == [Event.REFUSED]
    assert [note.type for note in notifications_of(spark, lake, "f")] == [Event.PAUSED]
    assert [note.type for note in notifications_of(spark, lake, "line 2")] == [Event.REFUSED]
    house.close()

    later = make_house(**settings)
    later.run()
    assert spark.table(str(lake.bronze)).where("kind = 'snapshot'").isEmpty(), "it still is"
    spark.sql(f"INSERT INTO {lake.ops('signals')} VALUES (NULL, NULL, NULL)")
    later.signal("resume-snapshot", {}, "lake")
    condition = '{"data-collection": "public.t", "filter": "id = 1"}'
    data = f'{{"data-collections": ["public.t"], "additional-conditions": [{condition}]}}'
    file.write_text(f'{{"id": "half \\ud800", "type": "execute-snapshot", "data": {data}}}\n')  # no table can hold it
    later.run()
    assert [note.type for note in notifications_of(spark, lake, "half ?")][-1] == Event.COMPLETED
    assert [note.type for note in notifications_of(spark, lake, "lake")] == [Event.RESUMED]
    assert [note.type for note in notifications_of(spark, lake, "")] == [Event.REFUSED]
    ended = [note.type for note in notifications_of(spark, lake, "s")]
    assert ended == [Event.STARTED, Event.IN_PROGRESS, Event.TABLE_SCAN_COMPLETED, Event.COMPLETED]
    assert all(proof.equal for proof in later.verify([TableName("public", "t")]))
