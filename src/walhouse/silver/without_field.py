"""Columns whose type Debezium does not know: events leave them out, and what they held is counted.

Invariant: a value that events do not have is counted as one of a column without a field, or is told by the event
itself (``unavailable``, ``unconverted``); bronze and gold have it in any case.
Source: Debezium documentation, PostgreSQL connector, ``include.unknown.datatypes``.
"""

from __future__ import annotations

from operator import add
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from walhouse.changes.columns import image_text
from walhouse.lakehouse.answers import few_rows
from walhouse.lakehouse.expressions import joined
from walhouse.silver.texts import of_versions
from walhouse.silver.types.registry import silver_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

    from walhouse.pgoutput.relation import RelationDescription
    from walhouse.silver.modes import TypeModes


def count_without_field(
    changes: DataFrame, relations: Sequence[RelationDescription], modes: TypeModes
) -> dict[str, int]:
    """``without_field``: how many values old and new rows have in such columns. Empty if there are no such columns."""
    versions = _versions_by_column(relations, modes)
    if not versions:
        return {}
    given = [_given(name, lacking) for name, lacking in versions.items()]
    (row,) = few_rows(changes.agg(F.sum(joined(add, given)).alias("values")))
    return {"without_field": int(row["values"] or 0)}


def _versions_by_column(
    relations: Sequence[RelationDescription], modes: TypeModes
) -> dict[str, list[RelationDescription]]:
    found: dict[str, list[RelationDescription]] = {}
    for relation in relations:
        for column in relation.columns:
            if silver_type(column, modes) is None:
                found.setdefault(column.name, []).append(relation)
    return found


def _given(column: str, relations: Sequence[RelationDescription]) -> Column:
    """How many values of it a change has: none, its new or its old row's, or both."""
    texts = (image_text("before", column, relations), image_text("after", column, relations))
    there = joined(add, [text.isNotNull().cast("int") for text in texts])
    return F.when(F.expr(of_versions(relations)), there).otherwise(0)
