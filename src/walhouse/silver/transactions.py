"""Transactions as silver keeps them, with ``provide.transaction.metadata``: a row each, also of those without events.

Invariant: a transaction has one row, whose ``id`` is the same in its begin, its end and all of its events.
Source: Debezium documentation, PostgreSQL connector, "Transaction metadata". Debezium's id ends with the LSN of the
record that carries it, so that a transaction's records have different ids; here it ends with the commit LSN.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql.types import LongType, StringType, StructField, StructType

from walhouse.lakehouse.tables import create_table
from walhouse.silver.source import XID_EPOCH
from walhouse.silver.table import PROPERTIES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from walhouse.lakehouse.layout import LakeLayout

TRANSACTION_ID: Final = f"concat(xid % {XID_EPOCH}L, ':', commit_lsn)"
"""The id, as SQL."""


def _column(name: str, kind: LongType | StringType, comment: str) -> StructField:
    return StructField(name, kind, metadata={"comment": comment})


SCHEMA: Final = StructType(
    [
        _column("id", StringType(), "The xid's lower 32 bits, and the commit LSN"),
        _column("op", StringType(), "Always x; with commit_lsn and seq the row's identity"),
        _column("ts_ms", LongType(), "When it committed, milliseconds since 1970"),
        _column("ts_us", LongType(), "When it committed, microseconds since 1970"),
        _column("commit_lsn", LongType(), "LSN at which the commit record starts"),
        _column("seq", LongType(), "Before that of every change"),
        _column("xid", LongType(), "Transaction, 64 bits"),
    ]
)


def ensure_transactions(spark: SparkSession, layout: LakeLayout) -> None:
    """Create the table if it is missing."""
    comment = "Transactions since provide.transaction.metadata was set"
    create_table(spark, layout, layout.silver_transactions, SCHEMA, comment=comment, properties=PROPERTIES)


def transactions(rows: DataFrame) -> DataFrame:
    """The table's rows out of bronze's of kind transaction."""
    return rows.selectExpr(
        f"{TRANSACTION_ID} AS id",
        "'x' AS op",
        "unix_millis(commit_ts) AS ts_ms",
        "unix_micros(commit_ts) AS ts_us",
        "commit_lsn",
        "seq",
        "xid",
    )
