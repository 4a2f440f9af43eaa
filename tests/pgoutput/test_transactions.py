"""xids of 32 bits get their epoch, and what the stream said last before a piece of it is known in the next."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.pgoutput import encoder
from tests.pgoutput.decoding import decode, plan
from tests.pgoutput.encoder import Frame
from walhouse.errors import FrameError
from walhouse.pgoutput.transactions import LastCommit, widen_xids


@given(st.integers(2**32, 2**62), st.integers(-(2**31) + 1, 2**31))
def test_an_xid_within_half_the_circle_of_the_next_one_is_found_again(next_xid: int, distance: int) -> None:
    xid = next_xid + distance
    assert widen_xids(np.array([xid & 0xFFFFFFFF]), next_xid).tolist() == [xid]


@pytest.mark.parametrize(
    ("next_xid", "xid", "wide"),
    [
        (1_000, 999, 999),
        (1_000, 1_001, 1_001),
        (2**32 + 10, 2**32 - 5, 2**32 - 5),
        (2**32 + 10, 9, 2**32 + 9),
        (2**32 - 10, 3, 2**32 + 3),
        (3 * 2**32, 2**32 - 1, 3 * 2**32 - 1),
    ],
)
def test_an_xid_gets_the_epoch_that_lies_nearest(next_xid: int, xid: int, wide: int) -> None:
    frames = [
        Frame(encoder.begin(1_000, 5, xid), 10, xid),
        Frame(encoder.message(20, "p", b"", transactional=True), 20, xid),
        Frame(encoder.commit(1_000, 5), 1_048, xid),
    ]
    rows, _ = decode(frames, plan(next_xid=next_xid))
    assert rows[0]["xid"] == wide


def test_an_xid_that_no_server_can_have_given_yet_is_refused() -> None:
    with pytest.raises(FrameError, match="xid"):
        decode([Frame(encoder.begin(1_000, 5, 2**32 - 1), 10)], plan(next_xid=1_000))


def test_the_last_commit_is_known_to_what_follows_it_in_a_later_piece_or_a_later_pass() -> None:
    """Of a message that belongs to no transaction its time, of a transaction's changes its end."""
    committed = [Frame(encoder.begin(1_000, 5, 700), 900), Frame(encoder.commit(1_000, 5), 1_000)]
    alone = Frame(encoder.message(2_000, "p", b"", transactional=False), 2_000)
    inside = [
        Frame(encoder.begin(3_000, 6, 701), 2_900),
        Frame(encoder.message(2_900, "p", b"", transactional=True), 2_900),
        Frame(encoder.commit(3_000, 6), 3_000),
    ]
    end = 1_000 + encoder.COMMIT_SIZE
    later = replace(plan(), last=LastCommit(end, commit_ts=5, lsn=1_000))
    for rows, _ in (decode([*committed, alone], cuts=[2]), decode([alone], later)):
        assert [row["commit_ts"] for row in rows] == [5]
    for rows, _ in (decode([*committed, *inside], cuts=[2]), decode(inside, later)):
        assert [row["previous_end"] for row in rows] == [end]
    rows, _ = decode([*committed, alone, *inside], cuts=[2, 3])
    assert [row["previous_end"] for row in rows] == [2_000, 2_000]
