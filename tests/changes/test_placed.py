"""A chunk's rows are placed by what its snapshot has seen: a model in many cases, and Spark as the model does it."""

from __future__ import annotations

from bisect import bisect_left
from random import Random
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.changes.world import UNSENT, Change, Chunk, Commit, StandbyWorld, Value, World, apply
from tests.silver.bronze_rows import column, relation
from walhouse.changes.facts import ChunkFacts, facts_of
from walhouse.changes.placed import placed
from walhouse.names import TableName
from walhouse.pgoutput.image import pack_row
from walhouse.pgoutput.row import CHUNK_ID, SNAPSHOT_SEQ
from walhouse.postgres.visibility import SeenBefore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

CASES = 10_000


class Placed(NamedTuple):
    """Where the rule puts a row: before all changes of this LSN; None: nowhere."""

    lsn: int | None
    superseded: bool


class Epochs:
    """Cuts of the WAL. A chunk belongs to the epoch in which its LSN is reached."""

    def __init__(self, ends: list[int]) -> None:
        self.ends = ends

    def of_commit(self, lsn: int) -> int:
        """The first epoch that ends after the commit's start."""
        return next(number for number, end in enumerate(self.ends) if lsn < end)

    def of_chunk(self, chunk: Chunk) -> int:
        return bisect_left(self.ends, chunk.lsn)


def a_case(seed: int, kind: type[World] = World) -> tuple[World, Epochs]:
    chance = Random(seed)
    world = kind(chance, tuple("abcd"[: chance.randint(1, 4)]))
    world.run(chance.randint(5, 40))
    cuts = sorted({chance.randint(100, world.lsn) for _ in range(chance.randint(0, 3))})
    return world, Epochs([*(cut for cut in cuts if not world.is_doubtful(cut)), world.lsn + 1])


def place(key: str, chunk: Chunk, wal: list[Commit], epochs: Epochs) -> Placed:
    """The rule, in plain words."""
    late = [
        commit.lsn
        for commit in wal
        if commit.lsn < chunk.lsn and chunk.may_miss(commit)
        if any(key in {change.old, change.key} for change in commit.changes)
    ]
    if not late:
        return Placed(chunk.lsn, superseded=False)
    if isinstance(chunk.visibility, SeenBefore) or epochs.of_commit(min(late)) < epochs.of_chunk(chunk):
        return Placed(None, superseded=False)
    return Placed(min(late), superseded=True)


def folded(world: World, epochs: Epochs) -> Iterator[tuple[int, dict[str, Value]]]:
    """What gold holds at the end of each epoch: stream and chunks in their order, onto nothing."""
    rows: dict[str, Value] = {}
    for number, end in enumerate(epochs.ends):
        of_chunks = [
            (where.lsn, 0, turn, {key: value}, ())
            for turn, chunk in enumerate(world.chunks)
            if epochs.of_chunk(chunk) == number
            for key, value in chunk.rows.items()
            if (where := place(key, chunk, world.wal, epochs)).lsn is not None
        ]
        of_stream: list[tuple[int, int, int, dict[str, Value], tuple[Change, ...]]] = [
            (commit.lsn, 1, 0, {}, commit.changes) for commit in world.wal if epochs.of_commit(commit.lsn) == number
        ]
        for _, _, _, read, changes in sorted([*of_chunks, *of_stream], key=lambda each: each[:3]):
            rows |= read
            for change in changes:
                apply(rows, change)
        yield end, dict(rows)


WORLDS = pytest.mark.parametrize("kind", [World, StandbyWorld])


@WORLDS
def test_stream_and_chunks_fold_to_the_table_at_the_end_of_every_epoch(kind: type[World]) -> None:
    """Of every key that was read by then; a value that nobody sent may be missing, never wrong."""
    lost = 0
    for seed in range(CASES):
        world, epochs = a_case(seed, kind)
        read: set[str] = set()
        for number, (end, rows) in enumerate(folded(world, epochs)):
            read |= {key for chunk in world.chunks if epochs.of_chunk(chunk) == number for key in chunk.keys}
            truth = world.at(end)
            for key in read:
                mine, real = rows.get(key), truth.get(key)
                if mine is not None and real is not None and mine.long == UNSENT:
                    lost += 1
                    real = Value(real.short, UNSENT)
                assert mine == real, f"seed {seed}, key {key}, at {end}"
    # a standby's doubt is much larger here than on a server, where it is a few bytes of WAL
    assert lost < CASES // (20 if kind is World else 4)


@WORLDS
def test_no_row_that_gives_an_event_is_older_or_newer_than_the_changes_before_it(kind: type[World]) -> None:
    for seed in range(CASES // 5):
        world, epochs = a_case(seed, kind)
        for chunk in world.chunks:
            truth = world.at(chunk.lsn)
            for key, value in chunk.rows.items():
                where = place(key, chunk, world.wal, epochs)
                if where.lsn is not None and not where.superseded:
                    assert truth[key] == value, f"seed {seed}, key {key}"


TABLE = relation(
    TableName("s", "t"),
    [column("case", "int4"), column("key", "text"), column("v", "int4")],
    primary_key=("case", "key"),
)
ROW = (
    "op string, commit_lsn bigint, seq bigint, xid bigint, before string, after string,"
    " before_kind string, unchanged array<string>, relation_version bigint,"
    " snapshot struct<id:string,chunk:bigint,visibility:string>, superseded boolean"
)


def frames(spark: SparkSession, cases: dict[int, tuple[World, Epochs]]) -> tuple[DataFrame, DataFrame]:
    """The last epoch of each case, and what was before it."""
    now: list[tuple[object, ...]] = []
    before: list[tuple[object, ...]] = []
    for case, (world, epochs) in cases.items():
        last = len(epochs.ends) - 1
        for commit in world.wal:
            rows = now if epochs.of_commit(commit.lsn) == last else before
            for seq, change in enumerate(commit.changes):
                old = (
                    None if change.old in {None, change.key} and change.new else pack_row([str(case), change.old, None])
                )
                new = None if change.new is None else pack_row([str(case), change.key, str(change.new.short)])
                rows.append((change.op, commit.lsn, seq, commit.xid, old, new, None, None, TABLE.version, None, False))
        for turn, chunk in enumerate(world.chunks):
            for row, key in enumerate(sorted(chunk.rows)):
                snapshot = (f"{CHUNK_ID}x", turn, str(chunk.visibility))
                # a chunk's number is unique in a lake, and here in all cases
                seq = SNAPSHOT_SEQ + ((case * 100 + turn) << 32) + row
                image = pack_row([str(case), key, str(chunk.rows[key].short)])
                if epochs.of_chunk(chunk) == last:
                    now.append(("r", chunk.lsn, seq, None, None, image, None, None, TABLE.version, snapshot, False))
    return spark.createDataFrame(now, ROW), spark.createDataFrame(before, ROW)


@pytest.mark.spark
def test_spark_places_rows_where_the_rule_does(spark: SparkSession) -> None:
    cases = {seed: a_case(seed, World if seed % 4 else StandbyWorld) for seed in range(1000)}
    changes, earlier = frames(spark, cases)
    chunks = facts_of(changes).chunks
    assert chunks is not None
    result = placed(changes, earlier, (TABLE,), chunks).where("op = 'r'")
    found = {(row.seq): (row.commit_lsn, row.superseded) for row in result.collect()}
    expected: dict[int, tuple[int, bool]] = {}
    kinds: set[tuple[bool, bool]] = set()
    for case, (world, epochs) in cases.items():
        for turn, chunk in enumerate(world.chunks):
            if epochs.of_chunk(chunk) < len(epochs.ends) - 1:
                continue
            for row, key in enumerate(sorted(chunk.rows)):
                where = place(key, chunk, world.wal, epochs)
                kinds.add((where.lsn is None, where.superseded))
                if where.lsn is not None:
                    expected[SNAPSHOT_SEQ + ((case * 100 + turn) << 32) + row] = where.lsn, where.superseded
    assert found == expected
    assert len(kinds) == 3, "the cases have rows of every kind"


@pytest.mark.spark
def test_a_commit_at_the_very_bound_of_what_a_snapshot_has_seen_may_be_missed_and_one_at_its_lsn_is_later(
    spark: SparkSession,
) -> None:
    """As where one transaction runs, the oldest, or where a standby's replay ends right before a commit."""

    def found(*cases: tuple[str, int]) -> list[tuple[int, int, bool]]:
        """Of rows at 100, each with its snapshot and with the LSN of a change of its key by transaction 10."""
        rows: list[tuple[object, ...]] = []
        for case, (visibility, lsn) in enumerate(cases):
            image, snapshot = pack_row([str(case), "a", None]), (f"{CHUNK_ID}x", 0, visibility)
            seq = SNAPSHOT_SEQ + case
            rows.append(("r", 100, seq, None, None, image, None, None, TABLE.version, snapshot, False))
            rows.append(("u", lsn, case, 10, None, image, None, None, TABLE.version, None, False))
        changes = spark.createDataFrame(rows, ROW)
        chunks = facts_of(changes).chunks
        assert chunks is not None
        # a later chunk of the epoch widens what is looked at, not what becomes of these
        chunks |= ChunkFacts(chunks.xmin, 200, chunks.seen_to)
        result = placed(changes, changes.limit(0), (TABLE,), chunks).where("op = 'r'").orderBy("seq").collect()
        return [(row.seq - SNAPSHOT_SEQ, row.commit_lsn, row.superseded) for row in result]

    assert found(("10:11:10", 50), ("10:10:", 50), ("10:11:10", 100)) == [(0, 50, True), (1, 50, True), (2, 100, False)]
    assert found(("lsn:50", 50)) == []
