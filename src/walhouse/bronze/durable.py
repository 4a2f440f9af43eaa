"""How far bronze is, as this process knows it, and where the stream must still come before layers may use that.

Invariant: what is held here is in bronze, but for what the next pass makes durable with it (signals' positions, what
was told); whoever takes over from another process first makes sure that nothing of that process can come any more.
"""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

from walhouse.bronze.progress import read_pass, read_progress
from walhouse.bronze.requests.notifications import ensure_notifications
from walhouse.bronze.snapshots.beside import taken_over
from walhouse.bronze.table import complete_bronze, create_bronze
from walhouse.changes.epochs import last_applied_pass
from walhouse.errors import LakeError
from walhouse.lakehouse.tables import table_exists
from walhouse.lsn import Lsn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from walhouse.bronze.progress import Progress
    from walhouse.bronze.requests.notifications import Notification
    from walhouse.bronze.snapshots.incremental import IncrementalSnapshots
    from walhouse.changes.relations import RelationCatalog
    from walhouse.lakehouse.layout import LakeLayout
    from walhouse.pgoutput.relation import RelationDescription

log = logging.getLogger("walhouse.capture")


class DurableProgress:
    """The last progress of one lake, and what may change it beside a pass over the WAL."""

    def __init__(
        self, spark: SparkSession, layout: LakeLayout, relations: RelationCatalog, snapshots: IncrementalSnapshots
    ) -> None:
        self._spark = spark
        self._layout = layout
        self._relations = relations
        self._snapshots = snapshots
        found = _found_or_begun(spark, layout)
        self._last = _counted_on(found, last_applied_pass(spark, layout))
        self._is_heir = False
        """Whether what another process was about to write is taken care of."""
        self._closing = Lsn(0)

    @property
    def has_begun(self) -> bool:
        """Whether the lake has a progress at all."""
        return self._last is not None

    @property
    def now(self) -> Progress:
        """How far bronze is."""
        assert self._last is not None, "begin() comes first"
        return self._last

    @property
    def closing(self) -> Lsn:
        """Where the stream must be before layers may use the snapshots that were read."""
        return self._closing

    def follow_to(self, at: Lsn) -> None:
        """Rows that are in bronze stand there at the latest: the stream must come to it."""
        self._closing = max(self._closing, at)

    def is_closed_by(self, end: Lsn) -> bool:
        """Whether nothing is missing any more once the stream is at ``end``."""
        return end >= self._closing and not self.now.is_reading and not self.now.awaited

    def came(self, progress: Progress) -> Progress:
        """This is durable now; what it describes is known to whoever reads next."""
        self._last = progress
        self._relations.refresh(progress.pass_number, last_has_none=progress.describes_nothing)
        return progress

    def hold(self, progress: Progress) -> Progress:
        """What the next pass makes durable: until then a crash may lose it."""
        self._last = progress
        return progress

    def save(self, progress: Progress, described: Sequence[RelationDescription] = ()) -> Progress:
        """Make a state durable that no rows go with, and descriptions that bronze lacks."""
        return self.came(self._snapshots.save(progress, described))

    def take_over(self, told: Sequence[Notification]) -> None:
        """Let no pass of chunks come any more that another process was reading; go on from one that came.

        ``told``: what need not be told again.
        """
        progress = self.now
        if not self._is_heir and (progress.awaited or progress.queue.tables):
            taken = taken_over(
                progress,
                lambda each, as_chunks: self._snapshots.save(each, as_chunks=as_chunks),
                lambda number: read_pass(self._spark, self._layout, number),
            )
            self._last = replace(taken, untold=tuple(each for each in taken.untold if each not in told))
            self._relations.forget_passes_from(min((*progress.awaited, progress.pass_number + 1)))
        self._is_heir = True

    def reserve(self, progress: Progress) -> None:
        """A pass of chunks is read from here on; it may be in bronze even if that raises."""
        self._last = progress.reserving()
        self._is_heir = False

    def release(self, progress: Progress) -> None:
        """That pass was not written: a task failed. ``progress``: before it was reserved."""
        self._last = replace(self.now, awaited=(), open_since=progress.open_since)
        self._is_heir = True

    def take(self, written: Progress) -> None:
        """That pass is in bronze; the stream may have gone on meanwhile."""
        self._is_heir = True
        if not written.describes_nothing:
            self._relations.forget_passes_from(written.pass_number)
        self.came(self.now.taking(written))


def _counted_on(found: Progress | None, applied: int) -> Progress | None:
    """The progress that bronze has, the next pass having a number that no layer takes for one that it has applied.

    Raises LakeError if bronze was removed, and the layers made of it were not.
    """
    if applied <= (0 if found is None else found.pass_number):
        return found
    if found is None:
        raise LakeError(
            f"Bronze is empty, and silver or gold have applied its passes up to {applied}: it was removed.",
            todo="Restore bronze's folder; or begin a new lake, in another folder or under other schema names.",
        )
    log.warning(
        "Bronze ends with pass %s, and silver or gold have applied passes up to %s: it was restored. Passes are counted"
        " from there on.",
        found.pass_number,
        applied,
    )
    return replace(found, pass_number=applied)


def _found_or_begun(spark: SparkSession, layout: LakeLayout) -> Progress | None:
    """The progress that bronze has. The first tables of a new lake are made side by side: one core makes each."""
    if table_exists(spark, layout, layout.bronze):
        complete_bronze(spark, layout)
        return read_progress(spark, layout)
    with ThreadPoolExecutor(1) as beside:
        notifications = beside.submit(ensure_notifications, spark, layout)
        create_bronze(spark, layout)
        notifications.result()
    return None
