"""Rows of a snapshot's COPY are texts, exactly as the server sent them."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.pgoutput.encoder import HEADER, TRAILER, copy_row
from tests.pgoutput.streams import TEXT
from walhouse.errors import FrameError, TruncatedFrameError
from walhouse.pgoutput.row import TEXTS
from walhouse.pgoutput.tuples import copy_rows_to_texts

ROWS = st.integers(0, 5).flatmap(
    lambda width: st.tuples(
        st.just(width), st.lists(st.lists(TEXT | st.none(), min_size=width, max_size=width), max_size=8)
    )
)


def block(row: list[str | None]) -> bytes:
    return copy_row([None if value is None else value.encode() for value in row])


@settings(deadline=None)
@given(ROWS)
def test_rows_come_back_as_they_were_sent(case: tuple[int, list[list[str | None]]]) -> None:
    columns, rows = case
    blocks = [block(row) for row in rows]
    for sent in ([HEADER, *blocks, TRAILER], [HEADER + b"".join(blocks[:1]), *blocks[1:], TRAILER], blocks):
        texts = copy_rows_to_texts(sent, columns)
        assert texts.type == TEXTS
        texts.validate(full=True)
        assert texts.to_pylist() == rows


def test_a_row_cut_anywhere_is_truncated() -> None:
    whole = block(["größe", None, ""])
    for length in range(1, len(whole)):
        with pytest.raises(TruncatedFrameError) as raised:
            copy_rows_to_texts([whole, whole[:length], whole], 3)
        assert raised.value.fields == {"offset": length}


def test_rows_of_another_shape_are_refused() -> None:
    with pytest.raises(FrameError, match="fields"):
        copy_rows_to_texts([block(["a"])], 2)
    with pytest.raises(FrameError, match="negative"):
        copy_rows_to_texts([struct.pack(">hi", 1, -2)], 1)
    with pytest.raises(FrameError, match="goes on"):
        copy_rows_to_texts([block(["a"]) + b"x"], 1)
