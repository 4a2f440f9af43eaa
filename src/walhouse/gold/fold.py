"""Many changes of a key folded to the one row that is left of them, in PostgreSQL's text.

Invariant: changes are ordered by (commit LSN, seq), never by their own LSN, and a value that was not sent (unchanged
TOAST) is taken only from an image of the same row in the same life, between its insert and its delete.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from walhouse.changes.columns import latest_columns
from walhouse.changes.images import text_at
from walhouse.gold.events import MOVED_OUT, key_events, last_event, latest_states, state_columns
from walhouse.gold.lineage import segments_with_values
from walhouse.pgoutput.row import Op

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

    from walhouse.gold.key import GoldKey
    from walhouse.gold.survey import Survey
    from walhouse.pgoutput.relation import RelationDescription


def fold(changes: DataFrame, relations: Sequence[RelationDescription], key: GoldKey, found: Survey) -> DataFrame:
    """The last state of each key of a table that has one. ``found`` is the changes' survey. One row a key:

    - ``key``: ARRAY<STRING>, the texts of the key's columns,
    - ``deleted``: BOOLEAN; ``commit_lsn``, ``seq``: BIGINT, of the key's last change,
    - ``image``: ARRAY<STRING>, the row in the order of ``latest_columns`` (without meaning if deleted),
    - ``missing``: ARRAY<STRING>, columns whose value stands only in the target, as it was before these changes,
    - ``base_key``: ARRAY<STRING>, the key of the target's row that has them; NULL if nothing is missing,
    - ``unavailable``: ARRAY<STRING>, columns whose value nobody has.
    """
    events = key_events(changes, relations, key, found)
    if found.moves and found.toasted:
        return _finish(segments_with_values(events, found), relations, found)
    return _finish(_last_of_each(events, key, found), relations, found)


def _last_of_each(events: DataFrame, key: GoldKey, found: Survey) -> DataFrame:
    """``key``, ``last`` and the states, and ``base_key``, the same as the key: no row moved."""
    # grouped by the texts, not by their array: Spark sorts by a text's first bytes, and by an array only as a whole
    texts = {f"key_{place}": F.col("key")[place] for place in range(len(key))}
    apart = events.withColumns(texts).drop("key")
    folded = apart.groupBy(*texts).agg(last_event().alias("last"), *latest_states(found))
    whole = F.array(*texts)
    return folded.withColumns({"key": whole, "base_key": whole})


def _finish(folded: DataFrame, relations: Sequence[RelationDescription], found: Survey) -> DataFrame:
    """``folded``: key, last, the states, and base_key, the key that the row had before the epoch if it was there."""
    states = state_columns(found)
    in_base = F.col("base_key").isNotNull() if found.truncated_at is None else F.lit(False)
    kept = ~F.col("deleted")
    missing = [F.when(kept & F.col(s).isNull() & in_base, F.lit(name)) for name, s in states.items()]
    nowhere = [
        F.when(kept & F.when(F.col(s).isNull(), ~in_base).otherwise(~F.col(s)["known"]), F.lit(name))
        for name, s in states.items()
    ]
    image = F.col("last.image")
    texts = (
        F.col(states[name])["value"] if name in states else text_at(image, position)
        for position, name in enumerate(latest_columns(relations))
    )
    return (
        folded.withColumn("deleted", F.col("last.op").isin(Op.DELETE.value, MOVED_OUT))
        .withColumns({"missing": _names(missing), "unavailable": _names(nowhere)})
        .select(
            "key",
            "deleted",
            "last.commit_lsn",
            "last.seq",
            F.array(*texts).alias("image"),
            "missing",
            F.when(F.size("missing") > 0, F.col("base_key")).alias("base_key"),
            "unavailable",
        )
    )


def _names(candidates: Sequence[Column]) -> Column:
    if not candidates:
        return F.array().cast("array<string>")
    return F.array_compact(F.array(*candidates))
