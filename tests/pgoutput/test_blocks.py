"""Blocks end to end are the blocks that came, and nobody keeps what was taken."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from walhouse.pgoutput.blocks import Blocks

BLOCKS = st.lists(st.binary(max_size=5), max_size=6)


@given(BLOCKS)
def test_blocks_are_those_that_came(blocks: list[bytes]) -> None:
    run = Blocks.of(blocks)
    assert list(run) == blocks
    assert (len(run), run.size) == (len(blocks), sum(map(len, blocks)))


@given(BLOCKS)
def test_what_is_taken_is_the_buffer_and_where_each_block_ends(blocks: list[bytes]) -> None:
    run = Blocks.of(blocks)
    octets, ends = run.take()
    assert octets.tobytes() == b"".join(blocks)
    assert [octets[start:end].tobytes() for start, end in zip([0, *ends], ends, strict=False)] == blocks
    assert run == Blocks()


@given(st.lists(BLOCKS, max_size=4))
def test_runs_are_put_together_in_their_order(runs: list[list[bytes]]) -> None:
    together, others = Blocks(), [Blocks.of(each) for each in runs]
    for other in others:
        together.take_from(other)
    assert list(together) == [block for each in runs for block in each]
    assert others == [Blocks()] * len(runs)


def test_the_first_of_runs_is_not_copied() -> None:
    """It may be a row of a hundred MiB."""
    first, together = Blocks.of([b"row"]), Blocks()
    octets = first.octets
    together.take_from(first)
    assert together.octets is octets
