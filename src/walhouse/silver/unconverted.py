"""What becomes of values that no rule takes, whole or in part (``event.converting.failure.handling.mode``).

An array whose elements are NULL where its text has others is counted and kept beside, too; it stops nothing, since it
stops nothing in Debezium.

Invariant: the position and the column are told, never the value; bronze keeps the text whatever the mode, and silver
writes nothing of an epoch that it refuses.
Source: Debezium documentation, PostgreSQL connector, ``event.converting.failure.handling.mode``.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from walhouse.errors import ConversionError
from walhouse.lsn import Lsn
from walhouse.names import quote, string_literal
from walhouse.silver.columns import fields_of
from walhouse.silver.table import struct_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from walhouse.names import TableName

log = logging.getLogger(__name__)


def require_converted(events: DataFrame, table: TableName, schema: StructType) -> None:
    """Raise ConversionError for the first event with a value that its field cannot hold: it is NULL.

    ``schema``: the silver table's.
    """
    found = _first(events.withColumn("unconverted", F.expr(_of_no_value(schema))))
    if found is not None:
        lsn, columns = found
        raise ConversionError(
            f"A value of {table} in the transaction that commits at {lsn} cannot be converted: {', '.join(columns)}.",
            table=str(table),
            lsn=str(lsn),
            columns=list(columns),
        )


def warn_of_unconverted(events: DataFrame, table: TableName, count: int) -> None:
    """Say how many values there were, and where the first one is."""
    found = _first(events) if count else None
    if found is not None:
        lsn, columns = found
        log.warning(
            "%s: %d values cannot be converted: NULL in silver, or elements of them, with their texts beside them;"
            " the first at %s: %s.",
            table,
            count,
            lsn,
            ", ".join(columns),
        )


def _of_no_value(schema: StructType) -> str:
    """``unconverted`` without the values of which a part is there; NULL if nothing is left."""
    missing = []
    for image in ("before", "after"):
        for column, fields in _fields_by_column(struct_of(schema, image)).items():
            has_none = " AND ".join(f"{image}.{quote(field)} IS NULL" for field in fields)
            missing.append(f"CASE WHEN {has_none} THEN {string_literal(f'{image}.{column}')} END")
    whole = f"map_filter(unconverted, (name, text) -> array_contains(array_compact(array({', '.join(missing)})), name))"
    return f"CASE WHEN size({whole}) > 0 THEN {whole} END"


def _fields_by_column(image: StructType) -> dict[str, list[str]]:
    """A column whose type was altered has several fields, one of which is its own in each event."""
    found: dict[str, list[str]] = {}
    for (column, _), field in fields_of(image).items():
        found.setdefault(column, []).append(field)
    return found


def _first(events: DataFrame) -> tuple[Lsn, tuple[str, ...]] | None:
    rows = (
        events.where("unconverted IS NOT NULL")
        .select("commit_lsn", "seq", F.map_keys("unconverted").alias("columns"))
        .orderBy("commit_lsn", "seq")
        .head(1)
    )
    return (Lsn(rows[0]["commit_lsn"]), tuple(rows[0]["columns"])) if rows else None
