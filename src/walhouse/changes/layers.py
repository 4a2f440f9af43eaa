"""Bringing layers up to where bronze is, epoch by epoch.

Invariant: planned, then applied, then recorded as done, in this order, whatever the layer; applying is idempotent, so a
crash between any two of these is repaired by running again. A table is made anew in the same way, as an epoch. A layer
that fails does not keep another from going on.
"""

from __future__ import annotations

from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Final

from walhouse.changes.failures import raise_first

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from walhouse.changes.epoch import AppliedTable, AppliedTo
    from walhouse.changes.epochs import EpochLedger, Layer
    from walhouse.changes.layer import LayerRun, Report, Work
    from walhouse.lsn import Lsn
    from walhouse.names import TableName

TOGETHER_SECONDS: Final = 2.0
"""How long a layer that is applied waits for another, to be recorded with it in one commit."""


class Layers:
    """Applies what bronze has and layers lack. For one writer: ``require_writer`` raises if there may be another."""

    def __init__(self, ledger: EpochLedger, runs: Mapping[Layer, LayerRun], require_writer: Callable[[], None]) -> None:
        self.ledger = ledger
        self._runs = runs
        self._require_writer = require_writer

    def applied_to(self, layer: Layer) -> AppliedTo:
        """How far a layer is."""
        return self._runs[layer].applied_to

    def run(self, layers: Sequence[Layer], to_pass: int, to_lsn: Lsn, report: Report) -> int:
        """Apply to these layers, side by side, all up to a capture pass. Returns how many of bronze's rows that were.

        Raises what applying raises, once every layer is as far as it can come; if more than one fails, the failures of
        the others are logged.
        """
        self._require_writer()
        runs = [self._runs[layer] for layer in layers]
        begun = {run: work for run in runs if (work := run.begun())}
        failures = self._apply(begun, report)
        new = {run: work for run in runs if run not in failures and (work := run.next(to_pass, to_lsn))}
        self._plan(new)
        failures |= self._apply(new, report)
        raise_first({run.layer.value: failure for run, failure in failures.items()})
        return sum(work.rows for work in (*begun.values(), *new.values()))

    def rebuild(self, layer: Layer, tables: Collection[TableName], report: Report) -> int:
        """Make tables anew from all that bronze has of them, up to where the layer is; an epoch that was begun is ended
        with it. Returns how many of bronze's rows that were.

        Raises RequestRefusedError if a table is not in bronze, and what applying raises.
        """
        self._require_writer()
        run = self._runs[layer]
        work = run.anew(tables)
        self._plan({run: work})
        raise_first({run.layer.value: failure for run, failure in self._apply({run: work}, report).items()})
        return work.rows

    def _plan(self, work: Mapping[LayerRun, Work]) -> None:
        if work:
            self.ledger.plan({run.layer: each.planned for run, each in work.items()})
        for run, each in work.items():
            run.written_down(each, done=False)

    def _apply(self, work: Mapping[LayerRun, Work], report: Report) -> dict[LayerRun, BaseException]:
        """Apply what is written down, and record what is done. Returns why a layer failed."""
        failures: dict[LayerRun, BaseException] = {}
        with ThreadPoolExecutor(len(self._runs)) as pool:
            applying = {run: pool.submit(run.apply, each, report) for run, each in work.items()}
            while applying:
                wait(applying.values(), return_when=FIRST_COMPLETED)
                wait(applying.values(), timeout=TOGETHER_SECONDS)
                ended = {run: applying.pop(run) for run, future in list(applying.items()) if future.done()}
                failed = {run: error for run, future in ended.items() if (error := future.exception())}
                self._finish({run: (work[run], ended[run].result()) for run in ended.keys() - failed.keys()})
                failures |= failed
        return failures

    def _finish(self, applied: Mapping[LayerRun, tuple[Work, Mapping[TableName, AppliedTable]]]) -> None:
        if applied:
            self.ledger.finish({run.layer: (work.planned, tables) for run, (work, tables) in applied.items()})
        for run, (work, _) in applied.items():
            run.written_down(work, done=True)
