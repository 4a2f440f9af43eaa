"""What the demo shows: steps as they happen, then tables."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.live import Live
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console

    from walhouse.lsn import Lsn


class Screen:
    """A console, and the clock since the demo began."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._begin = time.monotonic()

    def say(self, text: str) -> None:
        """One line, with the time since the beginning."""
        self.console.print(f"[dim]{self._clock()}[/] {text}", highlight=False)

    @contextmanager
    def step(self, title: str) -> Iterator[Steps]:
        """A piece of work: its progress while it runs, one line with what it took when it is done."""
        steps = Steps(self.console, title)
        with steps:
            yield steps
        self.say(f"[green]✓[/] {title} [dim]{steps.summary()}[/]")

    def table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """A table; numbers to the right."""
        table = Table(title=title, title_justify="left", title_style="bold", header_style="dim", expand=False)
        for index, column in enumerate(columns):
            numeric = bool(rows) and all(isinstance(row[index], int) for row in rows)
            table.add_column(column, justify="right" if numeric else "left", overflow="fold")
        for row in rows:
            table.add_row(*(f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row))
        self.console.print()
        self.console.print(table)

    def _clock(self) -> str:
        seconds = time.monotonic() - self._begin
        return f"{int(seconds // 60):d}:{int(seconds % 60):02d}"


class Steps:
    """The progress of one piece of work, as walhouse reports it; called from several threads."""

    def __init__(self, console: Console, title: str) -> None:
        self._title = title
        self._begin = time.monotonic()
        self._rows: dict[str, int] = {}
        self._detail = ""
        self._live = Live(self, console=console, refresh_per_second=8, transient=True)

    def __enter__(self) -> None:
        self._live.start()

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def update(
        self, stage: str, *, rows: int = 0, lsn: Lsn | None = None, target: Lsn | None = None, detail: str = ""
    ) -> None:
        """Told by walhouse: so many more rows of a stage are done."""
        self._rows[stage] = self._rows.get(stage, 0) + rows
        distance = f"{target - lsn:,} bytes to go" if lsn is not None and target is not None and target > lsn else ""
        self._detail = " ".join(part for part in (stage, detail, distance) if part)

    def __rich__(self) -> Text:
        return Text(f"     {self._title} … {self.summary()} {self._detail}", style="cyan")

    def summary(self) -> str:
        """Rows and rate of each stage, and the seconds."""
        seconds = time.monotonic() - self._begin
        rows = ", ".join(f"{stage} {count:,} rows" for stage, count in self._rows.items() if count)
        return f"{rows}{' in ' if rows else ''}{seconds:.1f} s"
