"""Rows of a snapshot's COPY are texts, exactly as the type's output function gave them."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.pgoutput.decoding import peak_of
from tests.pgoutput.streams import TEXT
from walhouse.errors import FrameError
from walhouse.pgoutput import copy_text
from walhouse.pgoutput.blocks import Blocks
from walhouse.pgoutput.copy_text import images_of_copy
from walhouse.pgoutput.image import pack_row

VALUE = TEXT | st.text(alphabet="\\nN\n\t\rbvf\b\v\f", max_size=8) | st.none()
ROWS = st.integers(0, 5).flatmap(
    lambda width: st.tuples(st.just(width), st.lists(st.lists(VALUE, min_size=width, max_size=width), max_size=8))
)
ESCAPES = {"\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}


def field(value: str | None) -> str:
    """A value as the server's COPY writes it."""
    return "\\N" if value is None else "".join(ESCAPES.get(character, character) for character in value)


def block(row: list[str | None]) -> bytes:
    return ("\t".join(map(field, row)) + "\n").encode()


@given(ROWS, st.sampled_from([2, 3, 7, 2**22]))
@example((1, [["\\N"], [None], [""], ["N"], ["\\"]]), 2)
@example((2, [["\\\\n\\", "\n\\n"], ["\\\n", "\x01\x08"]]), 3)
def test_rows_come_back_as_they_were_sent(case: tuple[int, list[list[str | None]]], window: int) -> None:
    columns, rows = case
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(copy_text, "_WINDOW", window)
        images = images_of_copy(Blocks.of([block(row) for row in rows]), columns)
    assert images.type == pa.string()
    images.validate(full=True)
    assert images.to_pylist() == [pack_row(row) for row in rows]


def test_a_row_cut_anywhere_is_refused() -> None:
    whole = block(["größe", None, ""])
    for length in range(1, len(whole)):
        with pytest.raises(FrameError):
            images_of_copy(Blocks.of([whole, whole[:length]]), 3)
        with pytest.raises(FrameError):
            images_of_copy(Blocks.of([whole[:length]]), 3)


@pytest.mark.parametrize("columns", [0, 1, 3])
def test_rows_of_another_shape_are_refused(columns: int) -> None:
    with pytest.raises(FrameError, match=f"{columns} columns"):
        images_of_copy(Blocks.of([block(["a", "b"]), block(["a", "b"])]), columns)


@pytest.mark.parametrize("value", ["x" * (1 << 25), "abcdefg\n\\" * (1 << 22)], ids=["plain", "escaped"])
def test_a_long_value_is_copied_once_on_its_way_into_its_image(value: str) -> None:
    blocks = Blocks.of([block(["1", value])])
    most = 1.1 * blocks.size + (1 << 23)
    assert peak_of(lambda: images_of_copy(blocks, 2)) < most
