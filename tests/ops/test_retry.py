"""Which errors a continuous run tries again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from walhouse.errors import (
    AppendSkippedError,
    AuthenticationError,
    LockTimeoutError,
    SlotGapError,
    SlotInUseError,
    SlotInvalidatedError,
    SourceChangedError,
    SourceUnreachableError,
    TruncatedFrameError,
    WalhouseError,
)
from walhouse.ops.retry import AT_ONCE, POLICY, Retry, Tries, despite_passing, retry_for
from walhouse.postgres.connection import LOCK_TIMEOUT_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator


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


def test_a_run_without_end_tells_what_fails_once_and_when_it_goes_on_and_gives_up_in_the_end(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(POLICY, SourceUnreachableError, Retry(delay_seconds=5, times=3))
    tries = Tries(Retry(1, 1))
    with caplog.at_level("INFO", "walhouse.ops.retry"):
        for error in ("It is gone.", "It is gone.", "It starts."):
            assert tries.failed(SourceUnreachableError(error)) == 5
        tries.went_on()
        tries.went_on()
        for _ in range(3):
            tries.failed(SourceUnreachableError("It is gone."))
        with pytest.raises(SourceUnreachableError):
            tries.failed(SourceUnreachableError("It is gone."))
        with pytest.raises(SlotGapError):
            Tries(Retry(1, 1)).failed(SlotGapError("It is so."))
    told = [record.getMessage().partition(".")[0] for record in caplog.records]
    assert told == ["It is gone", "It starts", "It goes on, after tries that failed: 3", "It is gone"]


def test_every_policy_ends() -> None:
    assert all(policy.times >= 1 and policy.delay_seconds > 0 for policy in POLICY.values())


def test_the_connectors_own_setting_decides_about_a_slot_in_use_and_about_nothing_else() -> None:
    configured = Retry(delay_seconds=0.5, times=2)
    assert retry_for(SlotInUseError("It is read."), configured) == configured
    assert retry_for(SourceUnreachableError("It does not answer."), configured) == POLICY[SourceUnreachableError]


def test_a_table_that_is_rewritten_under_its_lock_for_an_hour_does_not_end_a_continuous_run() -> None:
    policy = retry_for(LockTimeoutError("Somebody holds it."))
    assert policy is not None
    assert (policy.delay_seconds + LOCK_TIMEOUT_SECONDS) * policy.times > 3600


@pytest.mark.parametrize("times", [2, AT_ONCE, 1000])
def test_work_that_others_got_in_the_way_of_is_done_again_but_not_for_ever(
    times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(POLICY, LockTimeoutError, Retry(delay_seconds=0.001, times=times))
    most = min(times, AT_ONCE)
    for failures, outcome in ((most, "done"), (most + 1, LockTimeoutError), (0, "done")):
        left = iter([LockTimeoutError("Somebody holds it.")] * failures)

        def work(left: Iterator[WalhouseError] = left) -> str:
            for error in left:
                raise error
            return "done"

        if outcome == "done":
            assert despite_passing(work) == "done"
        else:
            with pytest.raises(LockTimeoutError):
                despite_passing(work)


def test_any_other_error_of_that_work_is_seen_at_once() -> None:
    calls = []

    def work() -> None:
        calls.append(1)
        raise SourceUnreachableError("It does not answer.")

    with pytest.raises(SourceUnreachableError):
        despite_passing(work)
    assert len(calls) == 1
