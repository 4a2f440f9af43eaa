"""Rows of chunks as batches: what a row says of its chunk does not depend on what it shares a batch with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from walhouse.bronze.rows import ChunkRows, snapshot_rows
from walhouse.bronze.snapshots import chunks
from walhouse.bronze.snapshots.chunks import Gathered
from walhouse.lsn import Lsn
from walhouse.names import TableName
from walhouse.pgoutput.blocks import Blocks
from walhouse.pgoutput.column import ColumnDescription
from walhouse.pgoutput.copy_text import images_of_copy
from walhouse.pgoutput.relation import describe
from walhouse.pgoutput.row import SNAPSHOT_SEQ
from walhouse.postgres.key_chunks import ChunkSnapshot, KeyChunk
from walhouse.postgres.keyed_table import KeyedTable
from walhouse.postgres.visibility import Visibility

if TYPE_CHECKING:
    import pytest

RELATION = describe(16_384, TableName("public", "t"), "d", [ColumnDescription("id", 23, -1, identity=True)])
TABLE = KeyedTable(RELATION, ("id",), columns="", order="")
FACTS: dict[str, Any] = {"pass_number": 7, "snapshot_id": "chunk:a", "xid": None, "captured_at": 0}


def _snapshot(chunk: int) -> ChunkSnapshot:
    return ChunkSnapshot(Visibility(chunk + 10, chunk + 20, frozenset()), Lsn(1000 + chunk))


def _rows(gathered: Gathered) -> list[dict[str, Any]]:
    blocks, parts = gathered.take()
    found: list[dict[str, Any]] = snapshot_rows(images_of_copy(blocks, 1), RELATION, parts, **FACTS).to_pylist()
    return found


# each chunk as the sizes of the lists of blocks that it is read in
@given(st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=3), max_size=6), st.integers(1, 9))
def test_rows_are_numbered_within_their_chunk_however_they_are_gathered(sizes: list[list[int]], full: int) -> None:
    gathered, found, expected = Gathered(), [], []
    for number, lists in enumerate(sizes):
        values = iter(range(number * 100, number * 100 + 100))
        for size in lists:
            blocks = Blocks.of(f"{next(values)}\n".encode() for _ in range(size))
            gathered.add(KeyChunk(TABLE, number, None, None), _snapshot(number), blocks)
            if len(gathered.blocks) >= full:
                found += _rows(gathered)
        for place in range(sum(lists)):
            part = ChunkRows(number, str(_snapshot(number).visibility), Lsn(1000 + number), place, 1)
            image = images_of_copy(Blocks.of([f"{number * 100 + place}\n".encode()]), 1)
            expected += snapshot_rows(image, RELATION, [part], **FACTS).to_pylist()
            assert expected[-1]["seq"] == SNAPSHOT_SEQ + (number << 32) + place
    found += _rows(gathered)
    assert found == expected


def test_a_batch_is_full_by_rows_or_by_bytes_and_the_next_one_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "BLOCKS", 3)
    monkeypatch.setattr(chunks, "BYTES", 100)
    gathered, full, too_much = Gathered(), [], []
    lists = ([b"1\n", b"2\n"], [b"3\n"], [b"4\n"], [b"5" * 100 + b"\n"], [b"6\n"], [b"7" * 150 + b"\n"], [b"8\n"] * 5)
    for number, blocks in enumerate(map(Blocks.of, lists)):
        gathered.add(KeyChunk(TABLE, number, None, None), _snapshot(number), blocks)
        assert blocks == Blocks(), "no row is kept twice"
        full.append(gathered.is_full)
        too_much.append(gathered.is_too_much)
        if full[-1]:
            gathered.take()
    assert full == [False, True, False, True, False, True, True]
    assert too_much == [False, False, False, False, False, True, True]
