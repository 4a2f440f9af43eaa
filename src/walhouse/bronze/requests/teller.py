"""Telling what became of requests.

Invariant: what is durable with a pass is told once: it is kept in the progress until it is, and Delta takes the
notifications of one pass only once.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from walhouse.bronze.requests.notifications import Event, Notification, RowsOf, notify
from walhouse.bronze.table import generation
from walhouse.errors import SourceError
from walhouse.lakehouse.files import Once

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import SparkSession

    from walhouse.bronze.progress import Progress
    from walhouse.lakehouse.layout import LakeLayout

_TELL_SECONDS: Final = 5
"""How often it is told how far a snapshot is."""


class Teller:
    """Writes notifications of one lake, not more often than each few seconds while there is more to come."""

    def __init__(self, spark: SparkSession, layout: LakeLayout, connector: str) -> None:
        self._spark = spark
        self._layout = layout
        self._connector = connector
        self._notes: list[tuple[int, Notification]] = []
        """Each with the number of durable ones that come before it."""
        self._told_at = float("-inf")
        self._counted: dict[RowsOf, int] = {}

    def knows(self, counted: Mapping[RowsOf, int]) -> None:
        """How many rows these readings have in bronze: who wrote them saw it."""
        self._counted.update(counted)

    def note(self, note: Notification, *, after: int) -> None:
        """What may be told in passing, after so many of what is to be told; a crash may lose it."""
        self._notes.append((after, note))

    def tell_now(self, note: Notification) -> None:
        """Write one that no progress has; a crash may lose it."""
        notify(self._spark, self._layout, self._connector, [note])

    @contextmanager
    def telling_of_interruption(self, request: str, aggregate: str) -> Iterator[None]:
        """A reading that the source interrupts goes on with the next run; until then people see why it stands."""
        try:
            yield
        except SourceError as error:
            self.tell_now(Notification(request, Event.INTERRUPTED, aggregate, {"reason": error.problem}))
            raise

    def tell(self, progress: Progress, *, at_once: bool) -> bool:
        """Whether all that the progress has to tell is in the table now."""
        if not progress.untold and not self._notes:
            return False
        now = time.monotonic()
        if not at_once and now - self._told_at <= _TELL_SECONDS:
            return False
        self._told_at = now
        durable = list(enumerate(progress.untold, 1))
        told = sorted([*durable, *self._notes], key=lambda each: each[0])  # stable: a note follows its number
        self._notes = []
        once = Once(f"walhouse:notifications:{generation(self._spark, self._layout)}", progress.pass_number)
        notes = [each for _, each in told]
        counted, self._counted = self._counted, {}
        notify(self._spark, self._layout, self._connector, notes, once=once if durable else None, counted=counted)
        return True
