"""The rows of silver and bronze that are printed, and where each stands among all.

Invariant: a position is that of one change: (commit_lsn, read, seq). All lines of a change have its position.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from walhouse.pgoutput.row import Op

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame

    from walhouse.lsn import Lsn
    from walhouse.names import TableName


@dataclass(frozen=True, slots=True)
class PrintedRows:
    """What is printed: silver's rows by table, its logical messages and transactions, and bronze's passes.

    ``passes`` has a column ``commit_lsn``, too: what a pass captured to. None: these are not printed.
    """

    tables: Mapping[TableName, DataFrame]
    messages: DataFrame | None = None
    transactions: DataFrame | None = None
    passes: DataFrame | None = None

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to print."""
        return not self.tables and self.messages is None and self.transactions is None and self.passes is None

    def between(self, from_lsn: Lsn | int | None, to_lsn: Lsn | int | None) -> PrintedRows:
        """The rows of commits that start in ``[from_lsn, to_lsn)``."""
        return replace(
            self,
            tables={table: commits_between(rows, from_lsn, to_lsn) for table, rows in self.tables.items()},
            messages=None if self.messages is None else commits_between(self.messages, from_lsn, to_lsn),
            transactions=None if self.transactions is None else commits_between(self.transactions, from_lsn, to_lsn),
            passes=None if self.passes is None else commits_between(self.passes, from_lsn, to_lsn),
        )

    def positions(self) -> list[DataFrame]:
        """commit_lsn, read and seq of all changes and messages."""
        found = [rows.select("commit_lsn", read_of(table).alias("read"), "seq") for table, rows in self.tables.items()]
        if self.messages is not None:
            found.append(self.messages.select("commit_lsn", F.lit(None).cast("string").alias("read"), "seq"))
        return found


def read_of(table: TableName) -> Column:
    """The table where the row is one of a snapshot, else NULL: the tables of a snapshot follow one another."""
    return F.when(F.col("op") == Op.READ.value, F.lit(str(table)))


def commits_between(rows: DataFrame, from_lsn: Lsn | int | None, to_lsn: Lsn | int | None) -> DataFrame:
    """The rows with a ``commit_lsn`` in ``[from_lsn, to_lsn)``."""
    if from_lsn is not None:
        rows = rows.where(F.col("commit_lsn") >= int(from_lsn))
    return rows if to_lsn is None else rows.where(F.col("commit_lsn") < int(to_lsn))
