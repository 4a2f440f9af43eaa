"""Which errors a continuous run tries again."""

from __future__ import annotations

import pytest

from walhouse.errors import (
    AppendSkippedError,
    AuthenticationError,
    SlotGapError,
    SlotInUseError,
    SlotInvalidatedError,
    SourceChangedError,
    SourceUnreachableError,
    TruncatedFrameError,
    WalhouseError,
)
from walhouse.ops.retry import POLICY, Retry, retry_for


@pytest.mark.parametrize(
    "error",
    [
        SlotGapError, SlotInvalidatedError, SourceChangedError, AuthenticationError, TruncatedFrameError,
        AppendSkippedError,
    ],
)  # fmt: skip
def test_what_time_does_not_heal_is_never_tried_again(error: type[WalhouseError]) -> None:
    assert retry_for(error("It is so.")) is None


def test_a_server_that_is_away_is_waited_for() -> None:
    policy = retry_for(SourceUnreachableError("It does not answer."))
    assert policy is not None
    assert policy.delay_seconds * policy.times >= 300


def test_every_policy_ends() -> None:
    assert all(policy.times >= 1 and policy.delay_seconds > 0 for policy in POLICY.values())


def test_the_connectors_own_setting_decides_about_a_slot_in_use_and_about_nothing_else() -> None:
    configured = Retry(delay_seconds=0.5, times=2)
    assert retry_for(SlotInUseError("It is read."), configured) == configured
    assert retry_for(SourceUnreachableError("It does not answer."), configured) == POLICY[SourceUnreachableError]
