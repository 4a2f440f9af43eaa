"""The rows of small answers: of queries that the driver asks for itself, a few rows each.

Invariant: what was given is not kept by the session. Spark 4.2's ``toLocalIterator`` keeps every row that it gave until
the session ends, which in a continuous run is never.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def few_rows(frame: DataFrame) -> list[dict[str, Any]]:
    """All rows, in their order, as dicts; so are structs and maps within them."""
    rows: list[dict[str, Any]] = frame.toArrow().to_pylist(maps_as_pydicts="strict")
    return rows
