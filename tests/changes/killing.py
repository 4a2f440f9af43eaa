"""The end of the process between two durable steps of an epoch."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from walhouse.changes.epochs import EpochLedger
from walhouse.gold.apply import apply_gold

if TYPE_CHECKING:
    from collections.abc import Iterator

    from walhouse.changes.epoch import AppliedTable
    from walhouse.names import TableName


class Killed(BaseException):
    """Stands for the end of the process at that moment."""


@contextmanager
def killed_at(step: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What is done here ends after the epoch is planned, or before it is recorded as finished."""
    original = getattr(EpochLedger, step)

    def die(ledger: EpochLedger, *arguments: Any) -> None:
        if step == "plan":
            original(ledger, *arguments)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(EpochLedger, step, die)
        with pytest.raises(Killed):
            yield


@contextmanager
def killed_in_gold_of(table: TableName, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Gold is applied here to the other tables; what is done ends at that one."""

    def apply(*arguments: Any, **options: Any) -> AppliedTable:
        if arguments[-1].table == table:
            raise Killed
        return apply_gold(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr("walhouse.wiring.apply_gold", apply)
        yield
