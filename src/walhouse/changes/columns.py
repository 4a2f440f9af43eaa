"""Reading one column's text out of the images of bronze.

Invariant: a position is never used without the relation version that it belongs to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pyspark.sql import functions as F

from walhouse.changes.images import text_alone, text_at

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import Column

    from walhouse.pgoutput.column import ColumnDescription
    from walhouse.pgoutput.relation import RelationDescription

Image = Literal["before", "after"]


def image_text(image: Image, column: str, relations: Sequence[RelationDescription]) -> Column:
    """The column's text in an image: NULL if it is null, was not sent, or the row's relation version lacks it."""
    return _of_versions(image, column, relations, text_at)


def key_text(image: Image, column: str, relations: Sequence[RelationDescription]) -> Column:
    """A key column's text, the same for values that PostgreSQL takes for equal: only the float ``-0`` is special.

    A long key that did not change is not in the new row, as any such value, but then the old key is sent beside it.
    """
    text = _of_versions(image, column, relations, text_alone)
    described = latest_columns(relations)[column]
    if image == "after" and not described.has_one_length:
        old = _of_versions("before", column, relations, text_alone)
        text = F.coalesce(text, F.when(is_unchanged(column), old))
    if described.is_float:
        return F.when(text == "-0", F.lit("0")).otherwise(text)
    return text


def is_unchanged(column: str) -> Column:
    """True if the new row's value was not sent because it is TOASTed and did not change. Never NULL."""
    return F.coalesce(F.array_contains(F.col("unchanged"), column), F.lit(False))


def latest_columns(relations: Sequence[RelationDescription]) -> dict[str, ColumnDescription]:
    """All columns of these versions in order of first appearance, described by the last version that has each."""
    columns: dict[str, ColumnDescription] = {}
    for relation in relations:
        for column in relation.columns:
            columns[column.name] = column
    return columns


def _of_versions(
    image: Image,
    column: str,
    relations: Sequence[RelationDescription],
    text: Callable[[Column, int], Column],
) -> Column:
    by_position: dict[int | None, list[int]] = {}
    for relation in relations:
        by_position.setdefault(relation.position(column), []).append(relation.version)
    value = F.lit(None).cast("string")
    for position, versions in by_position.items():
        if position is None:
            continue
        found = text(F.col(image), position)
        if len(by_position) == 1:
            return found
        value = F.when(F.col("relation_version").isin(versions), found).otherwise(value)
    return value
