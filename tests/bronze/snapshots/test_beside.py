"""Chunks are read beside the stream: neither waits for the other, and no row of a chunk is lost or there twice."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from tests.bronze.snapshots.conftest import T
from tests.bronze.test_progress import PROGRESS
from walhouse.bronze.progress import Progress, read_whole_position
from walhouse.bronze.snapshots import beside
from walhouse.bronze.snapshots.beside import Following, taken_over
from walhouse.bronze.snapshots.incremental import IncrementalSnapshots
from walhouse.bronze.snapshots.queue import QueuedTable, SnapshotQueue
from walhouse.bronze.stream import Stream
from walhouse.errors import AppendSkippedError, SourceUnreachableError, TableChangedError
from walhouse.lakehouse.tables import table_exists
from walhouse.lsn import Lsn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame, SparkSession

    from tests.fixtures_house import MakeHouse
    from tests.fixtures_server import Database
    from walhouse.api import Walhouse
    from walhouse.bronze.snapshots.beside import Written
    from walhouse.lakehouse.layout import LakeLayout

SECONDS = 6
SLOW = f"CASE WHEN id = 7 AND current_query() LIKE 'COPY%' THEN pg_sleep({SECONDS}) IS NOT NULL ELSE true END"
"""A condition that holds for all rows, and for one of them late, where rows are read."""

MOMENTS = ("before", "before chunks are counted", "before the stream is counted", "after", "never")
"""When another process's last pass comes, beside what the next one does."""

READING = replace(PROGRESS, queue=SnapshotQueue(tables=(QueuedTable("r", T),)), untold=(), open_since=None, awaited=())


@contextmanager
def while_chunks_are_read(database: Database, *statements: str) -> Iterator[None]:
    """The statements are run once a chunk is being read by ``SLOW``, and must end before it."""
    failures: list[BaseException] = []

    def meanwhile() -> None:
        reading = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'COPY%pg_sleep%'"
        deadline = time.monotonic() + 60
        try:
            while database.execute(reading) == [(0,)]:
                assert time.monotonic() < deadline, "no chunk is read"
                time.sleep(0.05)
            database.execute(*statements)
            assert database.execute(reading) == [(1,)]
        except BaseException as failure:  # noqa: BLE001  (raised where the thread is waited for)
            failures.append(failure)

    thread = threading.Thread(target=meanwhile)
    thread.start()
    yield
    thread.join()
    for failure in failures:
        raise failure


def written_beside(spark: SparkSession, lake: LakeLayout) -> DataFrame:
    """Each pass that was written beside a pass of chunks, and that one: pass, chunks."""
    awaited = F.get_json_object("progress", "$.awaited[0]").cast("long")
    passes = spark.table(str(lake.bronze)).where("kind = 'progress'").select("pass", awaited.alias("chunks"))
    return passes.where("chunks < pass")


def passes_of_chunks(spark: SparkSession, lake: LakeLayout) -> list[int]:
    rows = spark.table(str(lake.bronze)).where("kind = 'snapshot'").select("pass").distinct().orderBy("pass")
    return [row[0] for row in rows.collect()]


def assert_each_row_was_read_once(spark: SparkSession, lake: LakeLayout) -> None:
    read = spark.table(str(lake.bronze)).where("kind = 'snapshot'")
    assert (read.count(), read.select("after").distinct().count()) == (500, 500)
    assert read.select("snapshot.chunk").distinct().count() == 5


class Watching:
    """A reporter that notes how far layers may go, whenever the stream has come further."""

    def __init__(self, spark: SparkSession, lake: LakeLayout) -> None:
        self._spark, self._lake = spark, lake
        self.usable: list[int] = []

    def update(
        self, stage: str, *, rows: int = 0, lsn: Lsn | None = None, target: Lsn | None = None, detail: str = ""
    ) -> None:
        del rows, lsn, target, detail
        position = read_whole_position(self._spark, self._lake)
        if stage == "capture" and position is not None:
            self.usable.append(position.pass_number)


@pytest.mark.slow
@pytest.mark.server
@pytest.mark.spark
def test_what_is_committed_while_a_chunk_is_read_is_in_bronze_before_it_and_used_with_it(
    spark: SparkSession, table: Database, lake: LakeLayout, house: Walhouse
) -> None:
    house.snapshot([T], where=SLOW)
    watching = Watching(spark, lake)
    writes = (
        "UPDATE t SET v = 'new' WHERE id IN (5, 9, 160, 450)",  # read before, after, by another chunk, by another pass
        "DELETE FROM t WHERE id IN (6, 11)",
        "UPDATE t SET id = 1000 WHERE id = 12",
        "INSERT INTO t VALUES (0, 'early'), (2000, 'late')",
    )
    with while_chunks_are_read(table, *writes):
        house.capture(watching)
    first = passes_of_chunks(spark, lake)[0]
    meanwhile = written_beside(spark, lake)
    assert [row[0] for row in meanwhile.select("chunks").distinct().collect()] == [first]
    changes = spark.table(str(lake.bronze)).where("kind = 'change'")
    assert changes.join(meanwhile, "pass").count() == changes.count() == 9
    assert watching.usable[0] < first, "layers wait for the chunks"
    house.run()
    (proof,) = house.verify()
    assert (proof.equal, proof.source_rows) == (True, 500)


def ended_while_reading(monkeypatch: pytest.MonkeyPatch, house: Walhouse) -> Callable[[], Written]:
    """Run until chunks are to be read, and no further; gives what would have read and written them."""
    left: list[Callable[[], Written]] = []

    def end_of_the_process(following: Following, work: Callable[[], Written]) -> Written:
        del following
        left.append(work)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Following, "beside", end_of_the_process)
        with pytest.raises(KeyboardInterrupt):
            house.capture()
    return left[0]


@pytest.mark.slow
@pytest.mark.server
@pytest.mark.spark
def test_chunks_that_a_dying_process_has_written_are_taken_and_later_ones_are_not(
    spark: SparkSession, lake: LakeLayout, house: Walhouse, make_house: MakeHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Be they written before the next process begins, while it begins, or when it is at work."""
    settings = {"snapshot_mode": "no_data", "incremental_snapshot_chunk_size": 100, "lake_snapshot_pass_rows": 200}
    house.snapshot([T])
    ended_while_reading(monkeypatch, house)()
    assert len(passes_of_chunks(spark, lake)) == 1

    in_time = ended_while_reading(monkeypatch, make_house(**settings))
    save = IncrementalSnapshots.save

    def after_the_other_process(snapshots: IncrementalSnapshots, *what: Any, **how: Any) -> Progress:
        if how.get("as_chunks") is not None and len(passes_of_chunks(spark, lake)) == 1:
            in_time()
        return save(snapshots, *what, **how)

    with monkeypatch.context() as patch:
        patch.setattr(IncrementalSnapshots, "save", after_the_other_process)
        too_late = ended_while_reading(monkeypatch, make_house(**settings))
    assert len(passes_of_chunks(spark, lake)) == 2

    last = make_house(**settings)
    last.capture()
    with pytest.raises(AppendSkippedError):
        too_late()
    assert len(passes_of_chunks(spark, lake)) == 3
    assert_each_row_was_read_once(spark, lake)
    last.run()
    assert [proof.equal for proof in last.verify()] == [True]


@pytest.mark.slow
@pytest.mark.server
@pytest.mark.spark
def test_a_stream_that_fails_meanwhile_costs_no_chunk_and_is_told(
    spark: SparkSession,
    table: Database,
    lake: LakeLayout,
    house: Walhouse,
    make_house: MakeHouse,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    follow, ends = Stream.read, list[Any]()

    def once_and_no_more(stream: Stream, progress: Progress, *what: Any, **how: Any) -> Progress | None:
        if progress.awaited and (ends or ends.append(what)):  # type: ignore[func-returns-value]  # None
            raise SourceUnreachableError("The server went away.")
        return follow(stream, progress, *what, **how)

    house.snapshot([T], where=SLOW)
    writes = ("UPDATE t SET v = 'a'", "SELECT pg_sleep(3)", "UPDATE t SET v = 'b'")
    with monkeypatch.context() as patch:
        patch.setattr(Stream, "read", once_and_no_more)
        with while_chunks_are_read(table, *writes), pytest.raises(SourceUnreachableError):
            house.capture()
    (number,) = passes_of_chunks(spark, lake)
    assert [tuple(row) for row in written_beside(spark, lake).collect()] == [(number + 1, number)]
    assert not table_exists(spark, lake, lake.gold(T)) or spark.table(str(lake.gold(T))).isEmpty()
    later = make_house(snapshot_mode="no_data", incremental_snapshot_chunk_size=100, lake_snapshot_pass_rows=200)
    later.run()
    assert_each_row_was_read_once(spark, lake)
    assert [proof.equal for proof in later.verify()] == [True]


@pytest.mark.slow
@pytest.mark.server
@pytest.mark.spark
def test_the_stream_waits_for_the_chunks_where_tables_are_added(
    spark: SparkSession, table: Database, lake: LakeLayout, make_house: MakeHouse
) -> None:
    table.execute("INSERT INTO t SELECT n, 'row ' || n FROM generate_series(1, 30) AS n")
    house = make_house(incremental_snapshot_chunk_size=10, lake_snapshot_pass_rows=20)
    house.run()
    house.snapshot([T], where=SLOW)
    added = (
        "CREATE TABLE late (id int PRIMARY KEY)",
        "INSERT INTO late VALUES (1), (2)",
        "ALTER PUBLICATION walhouse_test ADD TABLE late",
        "INSERT INTO late VALUES (3)",
        "SELECT pg_sleep(2)",
    )
    with while_chunks_are_read(table, *added):
        house.run()
    assert written_beside(spark, lake).isEmpty()
    assert [(proof.source_rows, proof.equal) for proof in house.verify()] == [(3, True), (30, True)]


def test_the_stream_is_followed_as_long_as_chunks_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beside, "STREAM_SECONDS", 0.001)
    followed, enough = [0], threading.Event()

    def follow() -> bool:
        followed[0] += 1
        if followed[0] == 3:
            enough.set()
        return True

    def work() -> Written:
        assert enough.wait(30)
        return READING, 5

    following = Following(follow)
    assert following.beside(work) == (READING, 5)
    assert following.failure is None
    so_far = followed[0]
    assert so_far >= 3
    time.sleep(0.05)
    assert followed[0] == so_far


@pytest.mark.parametrize("chunks_fail", [False, True])
def test_the_stream_and_the_chunks_fail_each_for_themselves(
    monkeypatch: pytest.MonkeyPatch, *, chunks_fail: bool
) -> None:
    monkeypatch.setattr(beside, "STREAM_SECONDS", 0.001)
    failed = threading.Event()

    def follow() -> bool:
        assert not failed.is_set(), "it is not followed any more"
        failed.set()
        raise SourceUnreachableError("The server went away.")

    def work() -> Written:
        assert failed.wait(30)
        time.sleep(0.05)
        if chunks_fail:
            raise TableChangedError("There is a new column.")
        return READING, 5

    following = Following(follow)
    if chunks_fail:
        with pytest.raises(TableChangedError):
            following.beside(work)
    else:
        assert following.beside(work) == (READING, 5)
    assert isinstance(following.failure, SourceUnreachableError)


class ModelOfBronze:
    """Progress by pass, and how far each of the two names is counted."""

    def __init__(self, begin: Progress) -> None:
        self.passes = {begin.pass_number: begin}
        self._counted = {True: 0, False: begin.pass_number}

    @property
    def last(self) -> Progress:
        return self.passes[max(self.passes)]

    def write(self, progress: Progress, *, as_chunks: bool | None = None) -> bool:
        """Whether it was not passed over."""
        name = progress.is_of_chunks if as_chunks is None else as_chunks
        if progress.pass_number <= self._counted[name]:
            return False
        assert progress.pass_number not in self.passes, "two passes with one number"
        self.passes[progress.pass_number] = progress
        self._counted[name] = progress.pass_number
        return True


@pytest.mark.parametrize("streamed", [0, 1, 3], ids=lambda passes: f"{passes} passes of the stream")
@pytest.mark.parametrize("chunks_come", MOMENTS)
@pytest.mark.parametrize("stream_comes", MOMENTS)
def test_whoever_goes_on_counts_just_the_passes_that_are_in_bronze(
    streamed: int, chunks_come: str, stream_comes: str
) -> None:
    """On a model of bronze: a write is passed over if one with a greater number was counted under the same name."""
    bronze = ModelOfBronze(READING)
    chunks = replace(READING.next(READING.captured_to, ""), queue=SnapshotQueue(next_chunk=3)).opened()
    chunks = replace(chunks, awaited=(chunks.pass_number,))
    stream = READING.reserving()
    for _ in range(streamed):
        stream = stream.next(Lsn(stream.captured_to + 8), "")
        bronze.write(stream)
    stream = stream.next(Lsn(stream.captured_to + 8), "")

    def others_write(now: str) -> None:
        for progress, moment in ((chunks, chunks_come), (stream, stream_comes)):
            if moment == now:
                bronze.write(progress)

    def save(progress: Progress, as_chunks: bool) -> Progress:
        others_write("before chunks are counted" if as_chunks else "before the stream is counted")
        saved = progress.next(progress.captured_to, "")
        assert bronze.write(saved, as_chunks=as_chunks)
        return saved

    others_write("before")
    taken = taken_over(bronze.last, save, bronze.passes.get)
    others_write("after")
    assert (taken.queue == chunks.queue) == (chunks.pass_number in bronze.passes)
    position = max(each.captured_to for each in bronze.passes.values())
    assert taken.captured_to == position
    assert taken.awaited == ()
    again = taken_over(bronze.last, save, bronze.passes.get)
    assert (again.queue, again.captured_to) == (taken.queue, position)
