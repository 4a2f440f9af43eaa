"""Frames are the messages of a COPY over a peek, whatever the blocks it comes in."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.pgoutput.encoder import HEADER, TRAILER, Frame, copy_block, copy_blocks, copy_row
from walhouse.errors import FrameError, TruncatedFrameError
from walhouse.pgoutput.blocks import Blocks
from walhouse.pgoutput.frames import Frames, frames_from_copy

FRAMES = st.lists(
    st.builds(Frame, st.binary(max_size=30), st.integers(0, 2**62), st.integers(0, 2**32 - 1)), max_size=12
)


def as_list(frames: Frames) -> list[Frame]:
    data = frames.buffer.tobytes()
    return [
        Frame(data[start:end], lsn, xid)
        for start, end, lsn, xid in zip(
            *(column.tolist() for column in (frames.starts, frames.ends, frames.lsn, frames.xid)), strict=True
        )
    ]


@given(FRAMES)
def test_frames_are_what_was_copied_with_the_header_glued_or_alone(expected: list[Frame]) -> None:
    blocks = [copy_block(frame) for frame in expected]
    assert as_list(frames_from_copy(copy_blocks(expected))) == expected
    assert as_list(frames_from_copy(Blocks.of([HEADER, *blocks, TRAILER]))) == expected
    assert as_list(frames_from_copy(Blocks.of(blocks))) == expected


@given(FRAMES, st.integers(1, 5), st.integers(1, 100))
def test_chunks_hold_all_frames_in_order_and_are_bounded(expected: list[Frame], count: int, size: int) -> None:
    chunks = list(frames_from_copy(copy_blocks(expected)).chunks(count, size))
    assert [frame for chunk in chunks for frame in as_list(chunk)] == expected
    assert all(1 <= len(chunk) <= count for chunk in chunks)
    assert all(len(chunk) == 1 or len(chunk.buffer) <= size for chunk in chunks)


def test_a_result_without_rows_has_no_frames() -> None:
    assert len(frames_from_copy(Blocks.of([]))) == 0
    assert len(frames_from_copy(Blocks.of([HEADER + TRAILER]))) == 0
    assert len(frames_from_copy(Blocks.of([HEADER, TRAILER]))) == 0
    assert len(frames_from_copy(Blocks.of([TRAILER]))) == 0


def test_a_header_extension_is_passed_over() -> None:
    row = copy_block(Frame(b"B", 5))
    extended = HEADER[:-4] + struct.pack(">I", 3) + b"abc"
    assert as_list(frames_from_copy(Blocks.of([extended + row]))) == [Frame(b"B", 5)]
    assert as_list(frames_from_copy(Blocks.of([extended, row]))) == [Frame(b"B", 5)]


@pytest.mark.parametrize("length", range(1, 26))
def test_a_row_that_is_cut_short_is_truncated(length: int) -> None:
    whole = copy_block(Frame(b"message", 5))
    for block in (whole[:length], whole[:-1]):
        with pytest.raises(TruncatedFrameError):
            frames_from_copy(Blocks.of([whole, block, whole]))


@pytest.mark.parametrize(
    "block",
    [
        copy_row([bytes(8), bytes(4)]) + bytes(20),
        copy_row([bytes(8), bytes(4), b"x", b"y"]),
        copy_row([bytes(4), bytes(8), b"x"]),
        copy_row([bytes(8), bytes(4), None]),
        copy_row([bytes(8), bytes(4), b"x"]) + b"y",
    ],
    ids=["two fields", "four fields", "other lengths", "null", "longer"],
)
def test_a_row_of_another_shape_is_refused(block: bytes) -> None:
    with pytest.raises(FrameError):
        frames_from_copy(Blocks.of([copy_block(Frame(b"x", 1)), block]))


@pytest.mark.parametrize("block", [HEADER[:15], HEADER[:-4] + struct.pack(">I", 3) + b"ab"])
def test_a_header_that_is_cut_short_is_truncated(block: bytes) -> None:
    with pytest.raises(TruncatedFrameError):
        frames_from_copy(Blocks.of([block]))


def test_a_header_with_flags_is_refused() -> None:
    with pytest.raises(FrameError, match="flags"):
        frames_from_copy(Blocks.of([HEADER[:11] + struct.pack(">I", 1 << 16) + bytes(4)]))


def test_a_trailer_before_the_end_is_refused() -> None:
    row = copy_block(Frame(b"x", 1))
    with pytest.raises(FrameError):
        frames_from_copy(Blocks.of([row, TRAILER, row]))


def test_an_lsn_beyond_63_bits_is_refused() -> None:
    with pytest.raises(FrameError, match="63 bits") as raised:
        frames_from_copy(copy_blocks([Frame(b"B", 5), Frame(b"B", 2**63)]))
    assert raised.value.fields == {"row": 1, "offset": 6}
