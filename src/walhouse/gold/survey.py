"""One look at an epoch's changes before they are folded: what must be provided for, and what need not be.

Invariant: everything rare (a truncate, a key that changed, a value that was not sent) costs its extra work only in
epochs where it happens.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812  (the name everybody knows it by)

from walhouse.changes.columns import Image, image_text, latest_columns
from walhouse.gold.types import base_type
from walhouse.pgoutput.row import BeforeKind, Op

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

    from walhouse.gold.key import GoldKey
    from walhouse.pgoutput.relation import RelationDescription


@dataclass(frozen=True, slots=True)
class Survey:
    """What an epoch's changes of one table contain."""

    rows: int
    first_lsn: int
    """The smallest commit LSN; 0 if there are no rows."""
    truncated_at: tuple[int, int] | None
    """Commit LSN and seq of the last truncate. Every change before it is without effect."""
    moves: bool
    """An update changed a row's key."""
    toasted: tuple[str, ...]
    """Columns whose value was left out somewhere (unchanged TOAST) and is not in the change's own old row either."""
    in_old_row: tuple[str, ...]
    """Columns whose value was left out somewhere, but is in the change's own old row (replica identity full)."""
    removals: int
    """Updates and deletes."""
    incomplete_removals: int
    """Updates and deletes that came without the whole old row, as they must not in a bag."""


def survey(changes: DataFrame, relations: Sequence[RelationDescription], key: GoldKey) -> Survey:
    """Look through the changes once; no shuffle but that of one row."""
    removal = F.col("op").isin(Op.UPDATE.value, Op.DELETE.value)
    row = changes.agg(
        F.count(F.lit(1)),
        F.min("commit_lsn"),
        F.max(F.when(F.col("op") == Op.TRUNCATE.value, F.struct("commit_lsn", "seq"))),
        F.coalesce(F.bool_or(is_move(relations, key)), F.lit(False)) if key else F.lit(False),  # noqa: FBT003  (F.lit)
        F.flatten(F.collect_set(F.when(~has_full_before(), F.col("unchanged")))),
        F.flatten(F.collect_set(F.when(has_full_before(), F.col("unchanged")))),
        F.count(F.when(removal, 1)),
        F.count(F.when(removal & ~has_full_before(), 1)),
    ).head(1)[0]
    rows, first_lsn, truncated, moves, toasted, in_old_row, removals, incomplete = row
    names = latest_columns(relations)
    return Survey(
        rows=rows,
        first_lsn=first_lsn or 0,
        truncated_at=None if truncated is None else (truncated[0], truncated[1]),
        moves=moves,
        toasted=tuple(name for name in names if name in set(toasted)),
        in_old_row=tuple(name for name in names if name in set(in_old_row)),
        removals=removals,
        incomplete_removals=incomplete,
    )


def has_full_before() -> Column:
    """True if the change carries the whole old row, TOASTed values included. Never NULL."""
    return F.coalesce(F.col("before_kind") == BeforeKind.FULL.value, F.lit(False))  # noqa: FBT003  (F.lit's value)


def is_move(relations: Sequence[RelationDescription], key: GoldKey) -> Column:
    """True for an update whose old tuple has another key than the new one. Never NULL."""
    differs = F.lit(False)  # noqa: FBT003  (F.lit's value)
    for column in key:
        differs |= ~key_text("before", column, relations).eqNullSafe(key_text("after", column, relations))
    return (F.col("op") == Op.UPDATE.value) & F.col("before").isNotNull() & differs


def key_text(image: Image, column: str, relations: Sequence[RelationDescription]) -> Column:
    """A key column's text, the same for values that PostgreSQL takes for equal: only the float ``-0`` is special."""
    text = image_text(image, column, relations)
    if base_type(latest_columns(relations)[column]) in {"float4", "float8"}:
        return F.when(text == "-0", F.lit("0")).otherwise(text)
    return text
