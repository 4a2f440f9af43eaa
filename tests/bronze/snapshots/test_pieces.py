"""How whole tables are cut: every page once, in order, and nothing twice after an interruption anywhere."""

from __future__ import annotations

from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walhouse.bronze.snapshots.pieces import passes, pieces_of, tasks
from walhouse.bronze.snapshots.reading import WholeTable
from walhouse.names import TableName
from walhouse.pgoutput.column import ColumnDescription
from walhouse.pgoutput.relation import RelationDescription
from walhouse.postgres.snapshot import Chunk

T = TableName("s", "t")


KEYED = RelationDescription(
    1, 1, "s", "t", "d", (ColumnDescription("id", type_oid=23, typmod=-1, identity=True),), (0,), primary_key=("id",)
)
BAG = RelationDescription(1, 1, "s", "t", "f", (), (), primary_key=())


def chunks(leaves: list[int], state: WholeTable, size: int) -> list[Chunk]:
    """What the server would plan from the state's place on: leaves of so many pages."""
    planned = []
    for place, pages in enumerate(leaves):
        if place < state.leaf:
            continue
        first = state.page if place == state.leaf else 0
        starts = range(first, max(pages, first + 1), size)
        for start in starts:
            last = start == starts[-1]
            name = TableName("s", f"leaf{place}")
            planned.append(
                Chunk(T, name, 0, start, None if last else start + size, max(pages - start, 0) if last else size, None)
            )
    return planned


def pages_of(planned: list[Chunk]) -> list[tuple[str, int, int | None]]:
    return [(chunk.leaf.table, chunk.first_page, chunk.end_page) for chunk in planned]


@given(
    leaves=st.lists(st.integers(0, 12), min_size=1, max_size=4),
    size=st.integers(1, 4),
    in_a_pass=st.integers(1, 9),
    kills=st.lists(st.integers(1, 3), max_size=5),
)
def test_interrupted_anywhere_every_page_is_read_once(
    leaves: list[int], size: int, in_a_pass: int, kills: list[int]
) -> None:
    state: WholeTable | None = WholeTable(T)
    read: list[Chunk] = []
    first, marks = 0, 0
    for durable in (*kills, None):
        if state is None:
            break
        pieces = pieces_of(state, KEYED, chunks(leaves, state, size), files="f", first=first)
        assert [piece.number for piece in pieces] == list(range(first, first + len(pieces)))
        for part in islice(passes(pieces, in_a_pass), durable):
            assert sum(piece.pages for piece in part[:-1]) < in_a_pass
            marks += sum(piece.chunk is None for piece in part)
            read += [piece.chunk for piece in part if piece.chunk is not None]
            state, first = part[-1].after, part[-1].number + 1
            if state is not None:
                assert (state.pages_read, state.pages) == (sum(chunk.pages for chunk in read), sum(leaves))
                assert state.owed == KEYED.oid, "from its mark on bronze has nothing of it but what is read"
    assert state is None
    assert pages_of(read) == pages_of(chunks(leaves, WholeTable(T), size))
    assert marks == 1, "its reading began once"
    assert len({chunk.number for chunk in read}) == len(read)


@given(leaves=st.lists(st.integers(0, 12), min_size=1, max_size=4), in_a_pass=st.integers(1, 9))
def test_a_table_without_a_key_is_within_one_pass(leaves: list[int], in_a_pass: int) -> None:
    state = WholeTable(T)
    pieces = pieces_of(state, BAG, chunks(leaves, state, 1), files="f", first=5)
    assert [len(part) for part in passes(pieces, in_a_pass)] == [len(pieces)]


def test_there_is_a_pass_even_if_there_is_nothing_to_read() -> None:
    assert list(passes([], 10)) == [[]]


@pytest.mark.parametrize(
    ("leaves", "pages", "sizes"),
    [([4] * 5, 10, [2, 2, 1]), ([4] * 3, 4, [1, 1, 1]), ([4] * 3, 100, [3]), ([0] * 5, 2, [2, 2, 1])],
)
def test_small_chunks_share_a_task_and_large_ones_have_their_own(
    leaves: list[int], pages: int, sizes: list[int]
) -> None:
    assert [len(group) for group in tasks(chunks(leaves, WholeTable(T), 4), pages)] == sizes


def test_tables_without_a_page_fill_a_pass_too() -> None:
    pieces = pieces_of(WholeTable(T), KEYED, chunks([0] * 5, WholeTable(T), 4), files="f", first=0)
    assert [len(part) for part in passes(pieces, 2)] == [3, 2, 1], "the first begins with the mark"


def test_a_part_of_a_table_has_no_mark_since_its_other_rows_stay() -> None:
    state = WholeTable(T, "SELECT 1", replaces=False)
    assert all(piece.chunk is not None for piece in pieces_of(state, KEYED, chunks([1], state, 1), files="f", first=0))
