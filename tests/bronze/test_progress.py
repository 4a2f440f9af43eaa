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
