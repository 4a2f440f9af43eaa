"""Which server this is: one that was set back is told by the last commit that its slot sends of before bronze's end."""

from __future__ import annotations

import pytest

from walhouse.errors import SourceChangedError
from walhouse.lsn import Lsn
from walhouse.postgres.identity import require_same_commit
from walhouse.postgres.probe import SentCommit

EARLIER, LATER = (SentCommit(Lsn(lsn), 1_700_000_000_000_000 + lsn) for lsn in (0x1000, 0x2000))
END = Lsn(0x3000)


@pytest.mark.parametrize("same", [None, EARLIER])
def test_a_slot_that_sends_what_bronze_has_is_that_of_before(same: SentCommit | None) -> None:
    require_same_commit(same, same, END)


@pytest.mark.parametrize(
    ("sent", "known"),
    [(None, EARLIER), (EARLIER, None), (LATER, EARLIER), (EARLIER._replace(commit_ts=1), EARLIER)],
)
def test_another_commit_or_one_too_few_or_too_many_says_that_the_server_was_set_back(
    sent: SentCommit | None, known: SentCommit | None
) -> None:
    with pytest.raises(SourceChangedError, match="went on from there") as caught:
        require_same_commit(sent, known, END)
    assert "0/1000 of 2023-11-14 22:13:20.004096 UTC" in str(caught.value)
    assert "Start a new lake" in str(caught.value)
