"""Rows whose key changed: which earlier lives of other keys they come from.

Invariant: a value is followed along the row, not along the key. A key's history is cut into segments, each the life of
one row under that key; a row that moves in continues the segment that its old key had at that moment, through chains
of moves, swaps and keys that are used again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from walhouse.gold.events import MOVED_IN, MOVED_OUT, last_event, latest_states, state_columns
from walhouse.pgoutput.row import Op

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from walhouse.gold.survey import Survey

_PLACE: Final = "struct<lsn:bigint,seq:bigint>"
_BASE_LSN: Final = -1
"""The start of a segment that was there before the epoch."""


def segments_with_values(events: DataFrame, found: Survey) -> DataFrame:
    """One row a key: ``key``, ``last``, the states of its last segment followed to its ancestors, and ``base_key``.

    ``base_key`` is the key that the row had before the epoch, NULL if it was not there.
    """
    states = list(state_columns(found).values())
    segments = _segments(events, found)
    ancestry = _resolved(segments.where(F.col("parent").isNotNull() | (F.col("last.op") == MOVED_OUT)), states)
    newest = (
        segments.groupBy("key")
        .agg(F.max_by(F.struct("segment", "last", *states), F.col("ended")).alias("newest"))
        .select("key", "newest.*")
    )
    own_base = F.when(F.col("segment.lsn") == _BASE_LSN, F.col("key"))
    root_base = F.when(F.col("root.segment.lsn") == _BASE_LSN, F.col("root.key"))
    return newest.join(
        ancestry.select("key", "segment", "root", *(F.col(s).alias(f"found_{s}") for s in states)),
        ["key", "segment"],
        "left",
    ).select(
        "key",
        "last",
        *(F.coalesce(F.col(s), F.col(f"found_{s}")).alias(s) for s in states),
        F.when(F.col("root").isNull(), own_base).otherwise(root_base).alias("base_key"),
    )


def _segments(events: DataFrame, found: Survey) -> DataFrame:
    """One row a segment: ``key``, ``segment`` (its start), ``parent`` (key, segment), ``last``, ``ended``, states."""
    begins = F.col("op").isin(Op.CREATE.value, Op.READ.value, MOVED_IN)
    until_now = Window.partitionBy("key").orderBy("at").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    base = F.struct(F.lit(_BASE_LSN).alias("lsn"), F.lit(0).alias("seq")).cast(_PLACE)
    start: Column = F.max(F.when(begins, F.col("at").cast(_PLACE))).over(until_now)
    # the end of a segment tells nothing of its values: those are the row's, which may live on under another key
    ends = F.col("op").isin(Op.DELETE.value, MOVED_OUT)
    placed = events.withColumns(
        {
            "segment": F.coalesce(start, base),
            **{name: F.when(~ends, F.col(name)) for name in state_columns(found).values()},
        }
    )
    segments = placed.groupBy("key", "segment").agg(
        last_event().alias("last"), F.max("at").alias("ended"), *latest_states(found)
    )
    # a move is one change, so its two events share their place
    left = placed.where(F.col("op") == MOVED_OUT).select(
        F.col("at").cast(_PLACE).alias("moved_at"), F.struct("key", "segment").alias("parent")
    )
    return segments.join(left, F.col("segment") == F.col("moved_at"), "left").drop("moved_at")


def _resolved(nodes: DataFrame, states: list[str]) -> DataFrame:
    """Follow parents to the root, twice as far in each round, filling in states on the way. Adds ``root``."""
    nodes = nodes.select(
        "key", "segment", "parent", F.when(F.col("parent").isNull(), F.struct("key", "segment")).alias("root"), *states
    ).localCheckpoint()
    while not nodes.where(F.col("parent").isNotNull()).isEmpty():
        above = nodes.select(
            F.struct("key", "segment").alias("parent"),
            F.col("parent").alias("next_parent"),
            F.col("root").alias("parent_root"),
            *(F.col(s).alias(f"parent_{s}") for s in states),
        )
        nodes = (
            nodes.join(above, "parent", "left")
            .select(
                "key",
                "segment",
                F.col("next_parent").alias("parent"),
                F.coalesce("root", "parent_root").alias("root"),
                *(F.coalesce(F.col(s), F.col(f"parent_{s}")).alias(s) for s in states),
            )
            # each round reads the last one twice: without a cut the plan would grow with the power of two
            .localCheckpoint()
        )
    return nodes
