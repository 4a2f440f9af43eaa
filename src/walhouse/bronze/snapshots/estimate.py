"""How far a snapshot is, and how long it will take still, by what it has done so far.

Invariant: an estimate, for people: nothing is decided by it, and what is not known is None.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from walhouse.bronze.snapshots.queue import QueuedTable
    from walhouse.bronze.snapshots.reading import WholeReading


@dataclass(frozen=True, slots=True)
class Estimate:
    """``fraction``: of the work that is done, 0 to 1; ``seconds``: since it began."""

    fraction: float | None
    seconds: float | None

    @property
    def seconds_left(self) -> float | None:
        """If it goes on as it went."""
        if not self.fraction or self.seconds is None:
            return None
        return self.seconds * (1 - self.fraction) / self.fraction

    def __str__(self) -> str:
        if self.fraction is None:
            return ""
        left = self.seconds_left
        return f"{self.fraction:.0%}" + ("" if not left else f", about {duration(left)} left")


def of_reading(reading: WholeReading, now: float) -> Estimate:
    """Of all tables of a reading, by pages. ``now``: seconds since 1970."""
    done = reading.pages_done + sum(table.pages_read for table in reading.tables)
    pages = reading.pages_done + sum(table.pages for table in reading.tables)
    return Estimate(min(1.0, done / pages) if pages else None, _since(reading.began, now))


def of_chunks(table: QueuedTable, chunk_rows: int, rows: int | None, now: float) -> Estimate:
    """Of a table that is read by chunks. ``rows``: how many it has, about; None if nobody knows."""
    fraction = min(1.0, table.chunks * chunk_rows / rows) if rows else None
    return Estimate(fraction, _since(table.began, now))


def duration(seconds: float) -> str:
    """For people: 45 s, 3:05 min, 2:30 h."""
    minutes, rest = divmod(round(seconds), 60)
    if minutes == 0:
        return f"{rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02} h" if hours else f"{minutes}:{rest:02} min"


def _since(began: float | None, now: float) -> float | None:
    return None if began is None else max(0.0, now - began)
