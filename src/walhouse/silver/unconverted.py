"""What becomes of values that no rule takes (``event.converting.failure.handling.mode``).

Invariant: the position and the column are told, never the value; bronze keeps the text whatever the mode, and silver
writes nothing of an epoch that it refuses.
Source: Debezium documentation, PostgreSQL connector, ``event.converting.failure.handling.mode``.
"""

from __future__ import annotations

import logging
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812  (the name everybody knows it by)

from walhouse.errors import ConversionError
from walhouse.lsn import Lsn

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from walhouse.names import TableName

_LOGGER: Final = logging.getLogger(__name__)


class ConversionFailures(StrEnum):
    """The modes. In all but ``fail`` the field is NULL and the text stands in ``unconverted``."""

    WARN = "warn"
    FAIL = "fail"
    SKIP = "skip"


def require_converted(events: DataFrame, table: TableName) -> None:
    """Raise ConversionError for the first event with a value that its field cannot hold."""
    found = _first(events)
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
        _LOGGER.warning(
            "%s: %d values cannot be converted: NULL in silver, with their texts beside them; the first at %s: %s.",
            table,
            count,
            lsn,
            ", ".join(columns),
        )


def _first(events: DataFrame) -> tuple[Lsn, tuple[str, ...]] | None:
    rows = (
        events.where("unconverted IS NOT NULL")
        .select("commit_lsn", "seq", F.map_keys("unconverted").alias("columns"))
        .orderBy("commit_lsn", "seq")
        .head(1)
    )
    return (Lsn(rows[0]["commit_lsn"]), tuple(rows[0]["columns"])) if rows else None
