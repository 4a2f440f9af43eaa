"""The ``source`` block and the times of an event.

Invariant: what only people need stands here as Debezium has it; order and identity are ``commit_lsn`` and ``seq``.
Source: Debezium documentation, PostgreSQL connector, "Data change events", the ``source`` field.

What is not yet as Debezium has it:
- The first element of ``sequence`` is always null. Debezium puts the end of the commit processed last there, over all
  tables, which bronze does not hold; the order of commits is ``commit_lsn``.
- ``snapshot`` is ``true`` for every snapshot row; the markers for first and last are missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812  (the name everybody knows it by)
from pyspark.sql.types import LongType, StringType, StructType

from walhouse.pgoutput.row import Op
from walhouse.silver.silver_type import null

if TYPE_CHECKING:
    from pyspark.sql import Column

    from walhouse.names import TableName
    from walhouse.silver.settings import SilverSettings

_TEXT, _LONG = StringType(), LongType()

SOURCE: Final = (
    StructType()
    .add("version", _TEXT)
    .add("connector", _TEXT)
    .add("name", _TEXT)
    .add("ts_ms", _LONG)
    .add("snapshot", _TEXT)
    .add("db", _TEXT)
    .add("sequence", _TEXT)
    .add("ts_us", _LONG)
    .add("ts_ns", _LONG)
    .add("schema", _TEXT)
    .add("table", _TEXT)
    .add("txId", _LONG)
    .add("lsn", _LONG)
    .add("xmin", _LONG)
    .add("origin", _TEXT)
    .add("origin_lsn", _LONG)
)
"""Fields of ``source``, in the order of Debezium's schema."""

XID_EPOCH: Final = 1 << 32
"""The stream's transaction ids have 32 bits; a snapshot's and our own ``xid`` have 64."""


def source(settings: SilverSettings, table: TableName) -> Column:
    """``source`` of a change or snapshot row; of a logical message with empty schema and table."""
    is_read = F.col("op") == Op.READ.value
    lsn = F.when(is_read, F.col("commit_lsn")).otherwise(F.col("lsn"))
    committed = F.coalesce("commit_ts", "captured_at")
    millis, micros, nanos = times(committed)
    values = {
        "version": F.lit(settings.version),
        "connector": F.lit("postgresql"),
        "name": F.lit(settings.topic_prefix),
        "ts_ms": millis,
        "snapshot": F.when(is_read, F.lit("true")).otherwise(F.lit("false")),
        "db": F.lit(settings.database),
        "sequence": F.concat(F.lit('[null,"'), lsn.cast("string"), F.lit('"]')),
        "ts_us": micros,
        "ts_ns": nanos,
        "schema": F.lit(table.schema),
        "table": F.lit(table.table),
        "txId": F.when(is_read, F.col("xid")).otherwise(F.col("xid") % XID_EPOCH),
        "lsn": lsn,
        "xmin": null(_LONG),
        "origin": F.col("origin.name"),
        "origin_lsn": F.col("origin.lsn"),
    }
    return F.struct(*(values[field.name].cast(field.dataType).alias(field.name) for field in SOURCE.fields))


def times(instant: Column) -> tuple[Column, Column, Column]:
    """An instant as milliseconds, microseconds and nanoseconds since the epoch."""
    micros = F.unix_micros(instant)
    return F.unix_millis(instant), micros, micros * 1000
