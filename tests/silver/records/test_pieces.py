"""A long print is cut into pieces: they cover everything once, in order, and stay small."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walhouse.silver.records import pieces
from walhouse.silver.records.pieces import Cut, Piece, Pieces, cuts

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

SIZES = st.lists(st.integers(0, 1 << 40), min_size=1, max_size=50)


def taken(count: int, sizes: list[int]) -> list[Piece]:
    """All pieces over this many cuts, told these sizes, over and over."""
    house = Pieces([Cut(lsn, None, 0) for lsn in range(count)])
    found: list[Piece] = []
    while (piece := house.take()) is not None:
        house.made(piece, sizes[len(found) % len(sizes)])
        found.append(piece)
    return found


@given(st.integers(0, 300), SIZES)
def test_each_piece_begins_where_the_one_before_ends_and_all_is_covered(count: int, sizes: list[int]) -> None:
    found = taken(count, sizes)
    assert (found[0].begin, found[-1].end) == (None, None)
    assert all(one.end == other.begin is not None for one, other in pairwise(found))
    ends = [cut for piece in found for cut in (*piece.inner, piece.end) if cut is not None]
    assert ends == sorted(set(ends))
    assert sum(piece.steps for piece in found) == count + 1


@given(st.integers(1, 300), SIZES)
def test_no_part_holds_more_than_the_sizes_before_allow(count: int, sizes: list[int]) -> None:
    found = taken(count, sizes)
    assert found[0].parts == 1
    for number, (before, piece) in enumerate(pairwise(found)):
        per_step = sizes[number % len(sizes)] / before.steps
        assert piece.parts <= 8
        assert piece.steps <= piece.parts * max(1, min(8, (32 << 20) / max(per_step, 1e-9)))


def test_events_that_tell_nothing_of_their_size_come_in_the_largest_pieces() -> None:
    assert [piece.steps for piece in taken(200, [1])] == [1, 64, 64, 64, 8]


@pytest.mark.spark
def test_a_row_is_in_one_part_by_its_position_a_snapshot_first(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    positions = [
        (9, None, 5),
        (10, "a.a", 0),
        (10, "a.a", 1),
        (10, "a.b", 0),
        (10, None, -2),
        (10, None, 7),
        (11, None, -1),
    ]
    rows = spark.createDataFrame(positions[::-1], "commit_lsn bigint, read string, seq bigint")
    monkeypatch.setattr(pieces, "_STEP", 1)
    found = cuts([rows.where("read IS NULL"), rows.where("read IS NOT NULL")])
    assert found == [Cut(*position) for position in positions]
    whole = Piece(None, tuple(found[1:]), None, 7)
    parts = {(row[0], row[1], row[2]): row[3] for row in rows.select("*", whole.part()).collect()}
    assert [parts[position] for position in positions] == list(range(7))
    middle = Piece(found[2], (), found[5])
    assert {tuple(row) for row in middle.of(rows).collect()} == set(positions[2:5])


@pytest.mark.spark
def test_a_piece_of_a_long_snapshot_reads_no_more_files_than_its_rows_are_in(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = spark.range(4_000).selectExpr("10L AS commit_lsn", "'a.a' AS read", "id AS seq")
    rows.repartitionByRange(8, "seq").write.format("delta").save(str(tmp_path / "snapshot"))
    snapshot = spark.read.format("delta").load(str(tmp_path / "snapshot"))
    piece = Piece(Cut(10, "a.a", 1_000), (), Cut(10, "a.a", 1_200)).of(snapshot)
    assert piece.count() == 200
    assert len(snapshot.inputFiles()) == 8
    assert 1 <= len(piece.inputFiles()) <= 2


@pytest.mark.spark
def test_a_few_changes_need_no_cut(spark: SparkSession) -> None:
    none = spark.createDataFrame([], "commit_lsn bigint, read string, seq bigint")
    assert cuts([none]) == cuts([]) == []
