"""What long work shows: a live line for each stage on a terminal, plain lines elsewhere.

Invariant: a ``walhouse.ops.reporting.Reporter`` that may be told from several threads; it shows counts, rates and
positions only, on standard error.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from walhouse.cli.failure import stderr_console
from walhouse.cli.logs import LogFormat, log

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console
    from rich.text import Text

    from walhouse.lsn import Lsn

LINE_SECONDS: Final = 5.0
"""At most one plain line of a stage in this time, and one at its end."""


@dataclass
class Stage:
    """How far one stage is."""

    name: str
    begin: float = field(default_factory=time.monotonic)
    last: float = field(default_factory=time.monotonic)
    rows: int = 0
    lsn: Lsn | None = None
    target: Lsn | None = None
    detail: str = ""

    def add(self, rows: int, lsn: Lsn | None, target: Lsn | None, detail: str) -> None:
        """Take in one report."""
        self.last = time.monotonic()
        self.rows += rows
        self.lsn = self.lsn if lsn is None else lsn
        self.target = self.target if target is None else target
        self.detail = detail

    @property
    def rate(self) -> int | None:
        """Rows a second up to the last report, None as long as that says nothing."""
        seconds = self.last - self.begin
        return round(self.rows / seconds) if self.rows and seconds >= 0.1 else None

    @property
    def distance(self) -> int | None:
        """Bytes of WAL between the position and the target."""
        return None if self.lsn is None or self.target is None else max(0, self.target - self.lsn)

    def fields(self) -> dict[str, object]:
        """The stage as a log line's fields."""
        facts: dict[str, object | None] = {
            "stage": self.name,
            "rows": self.rows,
            "rows_per_second": self.rate,
            "lsn": None if self.lsn is None else str(self.lsn),
            "target": None if self.target is None else str(self.target),
            "bytes_to_go": self.distance,
            "detail": self.detail or None,
        }
        return {name: value for name, value in facts.items() if value is not None}

    def sentence(self) -> str:
        """The stage as a person reads it."""
        parts = [
            f"{self.rows:,} rows",
            "" if self.rate is None else f"{self.rate:,} rows/s",
            "" if self.lsn is None else f"at {self.lsn}",
            f"{self.distance:,} bytes to go" if self.distance else "",
            self.detail,
        ]
        return ", ".join(part for part in parts if part)


class Display(Protocol):
    """What a progress is shown by."""

    def show(self, stages: dict[str, Stage], changed: Stage) -> None:
        """One stage has moved."""

    def close(self, stages: dict[str, Stage]) -> None:
        """The work has ended."""


class Progress:
    """The reporter of one command."""

    def __init__(self, display: Display) -> None:
        self._display = display
        self._stages: dict[str, Stage] = {}
        self._lock = threading.Lock()

    def update(
        self, stage: str, *, rows: int = 0, lsn: Lsn | None = None, target: Lsn | None = None, detail: str = ""
    ) -> None:
        """See ``walhouse.ops.reporting.Reporter``."""
        with self._lock:
            changed = self._stages.setdefault(stage, Stage(stage))
            changed.add(rows, lsn, target, detail)
            self._display.show(self._stages, changed)

    def done(self) -> None:
        """Leave the last word of each stage behind."""
        with self._lock:
            self._display.close(self._stages)


class Lines:
    """Plain lines, or JSON: one when a stage begins, then one every few seconds, and one at the end."""

    def __init__(self, form: LogFormat, seconds: float = LINE_SECONDS) -> None:
        self._form = form
        self._seconds = seconds
        self._written: dict[str, float] = {}

    def show(self, stages: dict[str, Stage], changed: Stage) -> None:  # noqa: ARG002  (the protocol)
        """Write the stage, if its last line is some time ago."""
        written = self._written.get(changed.name)
        if written is None or changed.last - written >= self._seconds:
            self._written[changed.name] = changed.last
            self._write(changed, "")

    def close(self, stages: dict[str, Stage]) -> None:
        """Write each stage's last state."""
        for stage in stages.values():
            stage.detail = ""
            self._write(stage, "done")

    def _write(self, stage: Stage, state: str) -> None:
        if self._form is LogFormat.JSON:
            log("progress", fields={"state": state or "working", **stage.fields()})
        else:
            log(f"{stage.name}: {stage.sentence()}{f', {state}' if state else ''}")


class Live:
    """A line for each stage, drawn over again on a terminal."""

    def __init__(self, console: Console) -> None:
        from rich.live import Live as RichLive  # noqa: PLC0415  (on a terminal only)

        self._begin = time.monotonic()
        self._stages: dict[str, Stage] = {}
        self._console = console
        self._live = RichLive(console=console, get_renderable=self._lines, refresh_per_second=8, transient=True)
        self._live.start()

    def show(self, stages: dict[str, Stage], changed: Stage) -> None:  # noqa: ARG002  (the protocol)
        """Take the stages in; they are drawn several times a second."""
        self._stages = dict(stages)

    def close(self, stages: dict[str, Stage]) -> None:
        """Stop drawing, leave a line for each stage."""
        self._live.stop()
        for stage in stages.values():
            stage.detail = ""
            self._console.print(self._line(stage, "✓"))

    def _lines(self) -> Text:
        from rich.text import Text  # noqa: PLC0415

        dots = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
        mark = dots[int(time.monotonic() * 8) % len(dots)]
        lines = [self._line(stage, mark) for stage in self._stages.values()]
        waiting = [Text(f"{mark} {time.monotonic() - self._begin:.0f} s", style="dim")]
        return Text("\n").join(lines or waiting)

    @staticmethod
    def _line(stage: Stage, mark: str) -> Text:
        from rich.text import Text  # noqa: PLC0415

        return Text(f"{mark} ", style="cyan") + Text(f"{stage.name:<8}", style="bold") + Text(stage.sentence())


@contextmanager
def progress(form: LogFormat) -> Iterator[Progress]:
    """The reporter of one command; its last lines are written however the command ends."""
    console = stderr_console()
    live = console.is_terminal and form is LogFormat.TEXT
    reporter = Progress(Live(console) if live else Lines(form))
    try:
        yield reporter
    finally:
        reporter.done()
