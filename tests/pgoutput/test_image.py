"""An image gives the texts back that were packed into it, one row at a time and by the column."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from tests.pgoutput.streams import TEXT
from walhouse.pgoutput.image import pack, pack_row, unpack, unpack_row
from walhouse.pgoutput.row import TEXTS

VALUE = TEXT | st.text(alphabet="\\\t\nN", max_size=4) | st.none()
ROW = st.lists(VALUE, min_size=1, max_size=5)


@given(ROW)
@example([None])
@example(["", None, "\\", "\\\\", "\\N", ""])
def test_a_row_comes_back_as_it_was(row: list[str | None]) -> None:
    assert unpack_row(pack_row(row)) == row


@given(st.lists(ROW | st.none(), max_size=8))
@example([None, [None, ""], ["\\"], None])
def test_rows_of_a_batch_are_packed_as_single_ones_are(rows: list[list[str | None] | None]) -> None:
    packed = pack(pa.array(rows, TEXTS))
    packed.validate(full=True)
    assert packed.to_pylist() == [None if row is None else pack_row(row) for row in rows]
    assert unpack(packed).to_pylist() == rows


def test_a_slice_of_a_batch_is_packed_by_itself() -> None:
    rows = pa.array([["a", None], ["b", ""], None, ["c"]], TEXTS)
    assert unpack(pack(rows.slice(1, 2))).to_pylist() == [["b", ""], None]
    assert unpack(pack(rows).slice(1, 2)).to_pylist() == [["b", ""], None]


def test_a_row_without_columns_has_the_image_of_a_single_null() -> None:
    assert pack_row([]) == pack_row([None])
