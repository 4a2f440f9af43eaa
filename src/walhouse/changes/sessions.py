"""Which Spark session computes a table's part of an epoch.

Invariant: all compute the same; one of them is sooner done with few rows, another with many.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from walhouse.lakehouse.session import SMALL_TABLES, TINY_TABLES, beside
from walhouse.lakehouse.tables import is_larger

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from walhouse.changes.touched import Touched
    from walhouse.lakehouse.layout import LakeLayout
    from walhouse.names import LakeTable

_FEW_ROWS: Final = 10_000
_FEW_ROWS_OF_ALL: Final = 100_000
_FEW_BYTES: Final = 16 * 2**20
_FEWER_BYTES: Final = 128 * 2**10
"""What is written anew stays on the disk until a VACUUM; a table that changes every few seconds shall not fill it."""


class Sessions:
    """The session that was given, and on a local lake two beside it, which interpret their queries.

    Generating and compiling the code of a table's queries takes seconds of the processor, once in a process; with many
    tables of few changes that was most of a round.
    """

    def __init__(self, spark: SparkSession, layout: LakeLayout) -> None:
        self._compiling = spark
        self._interpreting = beside(spark, SMALL_TABLES)
        self._rewriting = beside(spark, TINY_TABLES)
        self._layout = layout

    def of_epoch(self, touched: Touched, rows_of_all: int, target: LakeTable | None) -> SparkSession:
        """For a table's part of an epoch; ``rows_of_all`` has the epoch, and each part is looked for among them.

        ``target``: the table that is read beside them, if one is.
        """
        looks_further = touched.facts.chunks is not None  # at bronze's earlier rows of the table
        if looks_further or touched.facts.rows > _FEW_ROWS or rows_of_all > _FEW_ROWS_OF_ALL:
            return self._compiling
        if target is None:
            return self._interpreting
        if self._compiling is self._rewriting:  # nothing to choose from
            return self._compiling
        if is_larger(self._layout, target, _FEW_BYTES):
            return self._compiling
        return self._interpreting if is_larger(self._layout, target, _FEWER_BYTES) else self._rewriting
