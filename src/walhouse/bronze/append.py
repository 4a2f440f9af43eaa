"""Appending to bronze, once.

Invariant: an append counts only after its progress row was read back. Delta skips, without an error, an append whose
version is not greater than the last one under the same name. There are two names: passes of chunks, which are written
beside the stream, are counted apart from all others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from walhouse.bronze.failure import on_driver
from walhouse.bronze.progress import read_pass
from walhouse.bronze.table import generation
from walhouse.errors import AppendSkippedError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from walhouse.bronze.progress import Progress
    from walhouse.lakehouse.layout import LakeLayout

_ROWS_PER_FILE: Final = 200_000
"""A range is read from the slot by one task; in several files the layers after bronze can read it with many."""


def append(
    spark: SparkSession, layout: LakeLayout, rows: DataFrame, upcoming: Progress, *, beside: bool = False
) -> Progress:
    """Write a pass in one Delta commit and give back its progress as bronze has it. Raises AppendSkippedError.

    ``beside``: passes with greater numbers may be written before it.
    """
    source = upcoming.source
    name = f"walhouse:{source.system_identifier}:{source.database}:{generation(spark, layout)}"
    name += ":chunks" if beside else ""
    with on_driver():
        (
            rows.write.format("delta")
            .mode("append")
            .option("txnAppId", name)
            .option("txnVersion", upcoming.pass_number)
            .option("maxRecordsPerFile", _ROWS_PER_FILE)
            .saveAsTable(str(layout.bronze))
        )
    written = read_pass(spark, layout, upcoming.pass_number)
    if written is None or written.captured_to != upcoming.captured_to:
        raise AppendSkippedError(
            f"Pass {upcoming.pass_number} is not in {layout.bronze} after it was written.",
            table=str(layout.bronze),
            pass_number=upcoming.pass_number,
        )
    return written
