"""What bronze says of itself is read back as it was written, or refused with a sentence."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from walhouse.bronze.coverage import Coverage
from walhouse.bronze.progress import Progress, SignalPosition
from walhouse.bronze.requests.notifications import Event, Notification, RowsOf
from walhouse.bronze.snapshots.queue import QueuedTable, SnapshotQueue
from walhouse.bronze.snapshots.reading import WholeKind, WholeReading, WholeTable
from walhouse.errors import LakeVersionError
from walhouse.lsn import Lsn
from walhouse.names import TableName
from walhouse.pgoutput.transactions import LastCommit
from walhouse.postgres.identity import SourceIdentity

PROGRESS = Progress(
    pass_number=7,
    captured_to=Lsn(2**40),
    source=SourceIdentity("7000000000000000001", 1, "shop"),
    slot="walhouse",
    publication="{}",
    messages=(2**40, 2**40 + 8),
    counts=(("transactions", 3), ("changes", 9)),
    last=LastCommit(end=2**40 - 8, commit_ts=1_700_000_000_000_000, lsn=2**40 - 56),
    queue=SnapshotQueue(
        tables=(QueuedTable("r", TableName("s", "t"), "x > 1", ("a", "b"), ("1", "ä"), ("9", ""), 3, 800),),
        paused=True,
        next_chunk=12,
        finished=(QueuedTable("q", TableName("s", "u")),),
        whole=(WholeReading("w", WholeKind.BLOCKING, (WholeTable(TableName("s", "v"), "SELECT 1", page=3),), 1.5),),
    ),
    signals=SignalPosition(of_pass=6, of_version=3),
    open_since=5,
    untold=(Notification("r", Event.COMPLETED, data={"a": "b"}, rows_of=RowsOf("initial-x", "s", "t", 4)),),
    awaited=(6,),
    coverage=Coverage(((16400, "s", "t"),), (16500, 16600)),
)


def test_progress_is_read_back_as_it_was_written() -> None:
    assert Progress.from_json(PROGRESS.to_json()) == PROGRESS


def test_progress_of_earlier_versions_is_read() -> None:
    raw = json.loads(PROGRESS.to_json())
    del raw["awaited"], raw["coverage"], raw["last"]["lsn"]
    last = replace(PROGRESS.last, lsn=0)
    assert Progress.from_json(json.dumps(raw)) == replace(PROGRESS, awaited=(), coverage=None, last=last)


@pytest.mark.parametrize(
    ("name", "value"),
    [("last", None), ("last", {"end": 1, "commit_ts": 1, "more": 1}), ("source", {"database": "shop"})],
)
def test_progress_of_another_version_is_refused_with_a_sentence(name: str, value: object) -> None:
    raw = json.loads(PROGRESS.to_json())
    if value is None:
        del raw[name]
    else:
        raw[name] = value
    with pytest.raises(LakeVersionError, match=r"begun by another version of walhouse.*Begin a new lake"):
        Progress.from_json(json.dumps(raw))


def test_it_is_open_from_the_first_pass_whose_rows_are_not_to_be_used() -> None:
    closed = PROGRESS.closed()
    assert (PROGRESS.opened(), closed.opened().open_since) == (PROGRESS, 7)
    reserving = closed.reserving()
    assert (reserving.pass_number, reserving.open_since, reserving.awaited) == (8, 8, (8,))


def test_what_a_pass_of_chunks_came_to_is_taken_with_what_the_stream_found_meanwhile() -> None:
    read, told = QueuedTable("r", TableName("s", "t")), Notification("r", Event.COMPLETED)
    chunks = replace(PROGRESS, counts=(("snapshots", 4),), queue=SnapshotQueue(finished=(read,)), untold=(told,))
    stream = replace(PROGRESS, pass_number=8, open_since=6)
    taken = stream.taking(chunks)
    assert taken.queue == SnapshotQueue(finished=(*PROGRESS.queue.finished, read))
    assert (taken.untold, taken.awaited, taken.open_since) == ((told,), (), 5)
    assert taken.counts == stream.counts
    assert replace(stream, open_since=3).taking(chunks).open_since == 3
    assert replace(stream, pass_number=7).taking(chunks).counts == chunks.counts


def test_the_next_pass_begins_without_what_this_one_read() -> None:
    following = PROGRESS.next(Lsn(2**41), "{1}")
    assert (following.pass_number, following.captured_to, following.publication) == (8, 2**41, "{1}")
    assert (following.messages, following.counts) == ((), ())


def test_a_table_that_is_owed_and_not_read_is_lacking() -> None:
    assert PROGRESS.coverage is not None
    assert PROGRESS.lacking(16400).coverage == PROGRESS.coverage.with_lacking([16400])
    assert PROGRESS.lacking(None) == PROGRESS


def test_whole_tables_are_being_read_once_their_reading_began_and_only_then() -> None:
    waiting = replace(PROGRESS.queue.whole[0], began=None)
    assert PROGRESS.is_reading
    assert not replace(PROGRESS, queue=replace(PROGRESS.queue, whole=(waiting,))).is_reading


def test_only_a_pass_that_counted_no_relation_row_describes_nothing() -> None:
    counted = [PROGRESS, *(replace(PROGRESS, counts=(("relations", number),)) for number in (0, 1))]
    assert [progress.describes_nothing for progress in counted] == [False, True, False]
