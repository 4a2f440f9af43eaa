"""Rounds of all layers: once, until nothing is left to do, or without end.

Invariant: layers are brought up to a position only when capture stands there with all that belongs before it: the
stream first, then chunks of snapshots, each followed by the stream up to where their rows belong.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from walhouse.errors import WalhouseError
from walhouse.lakehouse.refusal import on_lake
from walhouse.ops.retry import Tries, despite_passing

if TYPE_CHECKING:
    from collections.abc import Callable

    from walhouse.bronze.capture import Capture
    from walhouse.bronze.progress import CaptureStep, Progress
    from walhouse.bronze.requests.serve import Incomplete
    from walhouse.changes.epoch import AppliedTable
    from walhouse.changes.epochs import Layer
    from walhouse.changes.layer import Report
    from walhouse.lsn import Lsn
    from walhouse.names import TableName
    from walhouse.ops.reporting import Reporter
    from walhouse.ops.retry import Retry

IDLE_SECONDS: Final = 1.0
"""Pause of a continuous run when there was nothing to do."""


@dataclass(frozen=True, slots=True)
class Rounds:
    """What a round does, and how often an idle one commits."""

    open_capture: Callable[[], Capture]
    apply: Callable[[Progress], object]
    """Bring silver and gold up to a progress."""
    incomplete: Incomplete
    """Keys of gold's rows that lack a value which nobody sent."""
    gold_has: Callable[[Progress], bool]
    """Whether gold has all of bronze up to a progress."""
    forget: Callable[[], None]
    """Read state and connect anew: something failed."""
    reporter: Reporter
    slot_retry: Retry
    idle_seconds: float
    """Without changes, commit progress at most this often."""
    idle_bytes: int
    """Without changes, commit progress at the latest after this much WAL."""

    def once(self) -> None:
        """Until the source's LSN of now, and everything that signals ask for, is applied."""
        capture = self.open_capture()
        report = capture_report(self.reporter)
        despite_passing(lambda: capture.begin(report, starts=True))
        while True:
            progress = capture_all(capture, self.reporter)
            self.apply(progress)
            if progress.is_open or not capture.requests.finished:
                return
            self._read_incomplete_again(capture)

    def bronze(self) -> Progress:
        """Capture alone. What gold lacks is read again if gold, which others bring up, is where bronze was."""
        capture = self.open_capture()
        begun = capture.begun
        has_all = begun is not None and bool(begun.queue.finished) and self.gold_has(begun)
        report = capture_report(self.reporter)
        despite_passing(lambda: capture.begin(report, starts=True))
        if has_all:
            self._read_incomplete_again(capture)
        return capture_all(capture, self.reporter)

    def without_end(self) -> None:
        """A round where there is something, a pause where not. Errors are tried again as ``ops.retry`` says."""
        tries, starts = Tries(self.slot_retry), True
        while True:
            try:
                with on_lake():
                    capture = self.open_capture()
                    capture.begin(capture_report(self.reporter), starts=starts)
                    starts = False
                    self._catch_up(capture)
                    last_commit = time.monotonic()
                    while True:
                        if self._round(capture, last_commit):
                            last_commit = time.monotonic()
                        elif not capture.requests.any_readable:
                            time.sleep(IDLE_SECONDS)
                        tries.went_on()
            except WalhouseError as error:
                delay_seconds = tries.failed(error)
                self.forget()
                time.sleep(delay_seconds)

    def _catch_up(self, capture: Capture) -> None:
        """What the beginning has read, or an earlier run has left: the source need not write for it to be applied."""
        self.apply(capture.run(capture.target(), capture_report(self.reporter)))
        self._read_incomplete_again(capture)

    def _round(self, capture: Capture, last_commit: float) -> bool:
        """Whether there was something to do."""
        capture.requests.take_signals()
        if has_requests := capture.requests.any_readable:
            self.apply(capture.requests.read(capture_report(self.reporter)))
            self._read_incomplete_again(capture)
        target, captured_to = capture.target(), capture.progress.captured_to
        due = time.monotonic() - last_commit > self.idle_seconds or target - captured_to > self.idle_bytes
        if target > captured_to and (due or not capture.is_idle(target)):
            self.apply(capture.run(target, capture_report(self.reporter)))
            self._read_incomplete_again(capture)
            return True
        return has_requests

    def _read_incomplete_again(self, capture: Capture) -> None:
        """A row that moved behind a snapshot, or past a row filter, without sending its long value is found in gold,
        and read again.

        Not while bronze is open: gold has not got what was read.
        """
        if capture.requests.finished and not capture.progress.is_open:
            capture.requests.read_again(self.incomplete)


def capture_all(capture: Capture, reporter: Reporter) -> Progress:
    """The stream, then what signals ask for, until nothing is left."""
    report = capture_report(reporter)
    despite_passing(lambda: capture.run(capture.target(), report))
    capture.requests.take_signals()
    while capture.requests.any_readable:
        despite_passing(lambda: capture.requests.read(report))
        capture.requests.take_signals()
    return capture.progress


def capture_report(reporter: Reporter) -> Callable[[CaptureStep], None]:
    """How capture tells of its passes."""

    def report(step: CaptureStep) -> None:
        stage = "snapshot" if step.snapshot else "capture"
        reporter.update(stage, rows=step.rows, lsn=step.progress.captured_to, target=step.target, detail=step.snapshot)

    return report


def applied_report(to_lsn: Lsn, reporter: Reporter) -> Report:
    """How layers tell of each table that is done."""

    def report(layer: Layer, table: TableName, done: AppliedTable) -> None:
        reporter.update(layer.value, rows=sum(done.counts.values()), detail=str(table), lsn=to_lsn, target=to_lsn)

    return report
