"""Following a request until it has come to its end.

Invariant: whoever waits is told, once, of what would keep them waiting for ever: snapshots that are paused.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from walhouse.bronze.progress import read_progress
from walhouse.bronze.requests.notifications import has_ended, notifications_of, require_read
from walhouse.lakehouse.tables import table_exists

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from walhouse.bronze.requests.notifications import Notification
    from walhouse.lakehouse.layout import LakeLayout

log = logging.getLogger(__name__)


def follow(
    spark: SparkSession, layout: LakeLayout, request: str, work: Callable[[], object], poll_seconds: float
) -> list[Notification]:
    """What was told of a request, once that is all. ``work``: done after each pause, that there be an end.

    Raises RequestRefusedError, TableNotReadError.
    """
    told_of_pause = False
    while not has_ended(told := notifications_of(spark, layout, request)):
        if not told_of_pause and _are_paused(spark, layout):
            log.warning("Snapshots are paused. They go on, this one too, after `walhouse signal resume-snapshot`.")
            told_of_pause = True
        time.sleep(poll_seconds)
        work()
    return require_read(request, told)


def _are_paused(spark: SparkSession, layout: LakeLayout) -> bool:
    progress = read_progress(spark, layout) if table_exists(spark, layout, layout.bronze) else None
    return progress is not None and progress.queue.paused
