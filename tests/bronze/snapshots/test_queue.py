"""The queue of tables: which is read next, from where, and what is kept of one that was read."""

from __future__ import annotations

from dataclasses import replace

from walhouse.bronze.snapshots.queue import NOTHING_QUEUED, QueuedTable, SnapshotQueue
from walhouse.bronze.snapshots.reading import WholeKind, WholeReading, WholeTable
from walhouse.names import TableName

T, U, V = (TableName("s", name) for name in "tuv")
HALF_READ = QueuedTable("r", T, after=("5",), upto=("9",), chunks=2, first_chunk=7, began=1.0, order="by id")


def test_a_table_waits_until_all_transactions_before_its_own_have_ended_and_lets_others_pass() -> None:
    waiting = QueuedTable("r", T, not_before=100)
    assert [waiting.waits(oldest) for oldest in (99, 100)] == [True, False]
    queue = SnapshotQueue((waiting, QueuedTable("r", V), QueuedTable("r", U)))
    assert [each.table for each in queue.waiting_last(99).tables] == [V, U, T]
    assert queue.waiting_last(100) == queue


def test_a_table_that_is_to_wait_longer_than_the_one_in_the_queue_is_added() -> None:
    queue = NOTHING_QUEUED.add([QueuedTable("r", T, not_before=100)])
    assert queue.add([QueuedTable("r", T), QueuedTable("r", T, not_before=100)]) == queue
    assert len(queue.add([QueuedTable("r", T, not_before=101)]).tables) == 2


def test_a_table_goes_on_where_it_was_unless_its_keys_are_in_another_order() -> None:
    assert HALF_READ.in_order("by id") == HALF_READ
    assert HALF_READ.in_order("by code") == QueuedTable("r", T, order="by code")


def test_a_table_that_was_read_is_kept_once_to_be_looked_at_and_without_its_rows_keys() -> None:
    queue = SnapshotQueue((HALF_READ,), finished=(QueuedTable("q", T), QueuedTable("q", U)))
    read = replace(HALF_READ, after=None, upto=None)
    assert queue.after_finished_head() == SnapshotQueue(finished=(QueuedTable("q", U), read))


def test_a_reading_of_whole_tables_ends_with_its_last_table() -> None:
    readings = tuple(WholeReading(name, WholeKind.BLOCKING, (WholeTable(T),)) for name in "ab")
    queue = SnapshotQueue(whole=readings)
    assert queue.with_reading(readings[0].without(T)) == SnapshotQueue(whole=readings[1:])
