"""What an epoch's changes of one table ask for, before they are folded.

Invariant: ``moves`` is false only if no update of the epoch changed a key; the changes are read for it only where an
update came with an old tuple at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from walhouse.changes.columns import key_text, latest_columns
from walhouse.pgoutput.row import Op

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

    from walhouse.changes.facts import Facts, Place
    from walhouse.gold.key import GoldKey
    from walhouse.pgoutput.relation import RelationDescription


@dataclass(frozen=True, slots=True)
class Survey:
    """What an epoch's changes of one table contain; see ``walhouse.changes.facts.Facts``."""

    rows: int
    truncated_at: Place | None
    moves: bool
    """An update changed a row's key."""
    toasted: tuple[str, ...]
    """Columns whose value was left out somewhere and need not be in the change's own old row either, in their order."""
    in_old_row: tuple[str, ...]
    """Columns whose value was left out somewhere, but is in the change's own old row, in their order."""
    removals: int
    incomplete_removals: int


def survey(changes: DataFrame, relations: Sequence[RelationDescription], key: GoldKey, facts: Facts) -> Survey:
    """The facts in terms of the relations and the key. ``facts``: those of ``changes``."""
    names = latest_columns(relations)
    # of a partitioned table an old row that is told to be whole is as its leaf's identity has it
    toasted = facts.left_out | (facts.in_old_row if any(r.partitioned for r in relations) else frozenset())
    return Survey(
        rows=facts.rows,
        truncated_at=facts.truncated_at,
        moves=bool(key and facts.updates_with_old) and not changes.where(is_move(relations, key)).isEmpty(),
        toasted=tuple(name for name in names if name in toasted),
        in_old_row=tuple(name for name in names if name in facts.in_old_row),
        removals=facts.removals,
        incomplete_removals=facts.incomplete_removals,
    )


def is_move(relations: Sequence[RelationDescription], key: GoldKey) -> Column:
    """True for an update whose old tuple has another key than the new one. Never NULL."""
    differs = F.lit(False)
    for column in key:
        differs |= ~key_text("before", column, relations).eqNullSafe(key_text("after", column, relations))
    return (F.col("op") == Op.UPDATE.value) & F.col("before").isNotNull() & differs
