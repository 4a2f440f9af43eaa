"""The texts of one table's images as columns of their own, before anything is made of them.

Invariant: from here on a column's text is named by its slot (``before_0``, ``after_0``), and every expression over it
is SQL; positions and relation versions are behind us.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from walhouse.changes.columns import image_text
from walhouse.changes.images import text_at
from walhouse.names import string_literal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

    from walhouse.changes.columns import Image
    from walhouse.pgoutput.relation import RelationDescription
    from walhouse.silver.columns import SilverColumn
    from walhouse.silver.settings import TextMasks


def with_texts(
    changes: DataFrame,
    columns: Sequence[SilverColumn],
    relations: Sequence[RelationDescription],
    masks: TextMasks,
) -> DataFrame:
    """Add ``before_N`` and ``after_N``: an unchanged TOASTed value is taken from the old tuple if that has it.

    Where rows show another text than the key, that is in ``shown_before_N`` and ``shown_after_N``.
    """
    sent = []
    for column in columns:
        sent.append(image_text("before", column.name, relations).alias(column.before))
        sent.append(image_text("after", column.name, relations).alias(column.sent))
    found = [
        F.expr(f"coalesce({column.sent}, {_carried(column, column.before)}) AS {column.after}")
        for column in columns
        if column.left_out
    ]
    hidden = [column for column in columns if column.hidden]
    shown = []
    for column in hidden:
        shown.append(_hidden_text("before", column.name, relations, masks).alias(column.shown_before))
        shown.append(_hidden_text("after", column.name, relations, masks).alias(f"shown_{column.sent}"))
    carried = [
        F.expr(f"coalesce(shown_{column.sent}, {_carried(column, column.shown_before)}) AS {column.shown_after}")
        for column in hidden
        if column.left_out
    ]
    return changes.select("*", *sent, *shown).select("*", *found, *carried)


def _hidden_text(image: Image, column: str, relations: Sequence[RelationDescription], masks: TextMasks) -> Column:
    """What rows show of a masked column. Rows of bronze from before it was masked have the one text alone."""
    value = image_text(image, column, relations)
    for relation in relations:
        names = masks.masked_columns(relation)
        if column in names:
            hidden = text_at(F.col(image), len(relation.columns) + names.index(column))
            value = F.when(F.expr(of_versions([relation])) & hidden.isNotNull(), hidden).otherwise(value)
    return value


def is_unchanged(column: SilverColumn) -> str:
    """True if the new row came without this column's value."""
    return f"coalesce(array_contains(unchanged, {string_literal(column.name)}), false)"


def is_lost(column: SilverColumn) -> str:
    """True if nobody has the new row's value."""
    return f"({is_unchanged(column)} AND {column.before} IS NULL)"


def of_versions(relations: Sequence[RelationDescription]) -> str:
    """True if the row is of one of these relation versions."""
    return f"relation_version IN ({', '.join(str(relation.version) + 'L' for relation in relations)})"


def first_units(text: str, length: int) -> str:
    """The first characters as Java counts them, where one beyond U+FFFF counts twice; half of one is left out.

    PostgreSQL's texts have no U+0000, which is the other half meanwhile.
    """
    widened = f"regexp_replace({text}, r'([^\\x{{0}}-\\x{{FFFF}}])', concat(char(0), r'$1'))"
    return f"replace(left({widened}, {length}), char(0), '')"


def _carried(column: SilverColumn, before: str) -> str:
    return f"CASE WHEN {is_unchanged(column)} THEN {before} END"
