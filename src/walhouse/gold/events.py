"""A table's changes as events of single keys: what the folds work on.

Invariant: an event has the row as far as its own change tells it; nothing is looked up here.

Columns: ``key`` ARRAY<STRING> (texts of the key's columns); ``at`` STRUCT<lsn, seq>, the order; ``op``, ``commit_lsn``,
``seq``; ``image``, the row in the order of ``latest_columns``, packed; ``state_N`` STRUCT<value, known> for the
Nth toasted column: NULL where the change did not send it, ``known`` false where the row begins or ends without it; and
only if some key changed: ``parent`` ARRAY<STRING>, the key that the row had before this event.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from walhouse.changes.columns import image_text, is_unchanged, key_text, latest_columns
from walhouse.changes.facts import has_full_before
from walhouse.changes.images import packed
from walhouse.gold.survey import is_move
from walhouse.pgoutput.row import Op

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

    from walhouse.gold.key import GoldKey
    from walhouse.gold.survey import Survey
    from walhouse.pgoutput.relation import RelationDescription

MOVED_IN: Final = "in"
MOVED_OUT: Final = "out"
"""An update that changes the key is two events at one place: out of the old key, into the new one."""


def key_events(changes: DataFrame, relations: Sequence[RelationDescription], key: GoldKey, found: Survey) -> DataFrame:
    """The events of a table with a key, without those that a truncate undid."""
    events = after_truncate(changes, found).select(
        key_array(relations, key).alias("key"),
        F.struct(F.col("commit_lsn").alias("lsn"), F.col("seq").alias("seq")).alias("at"),
        "op",
        "commit_lsn",
        "seq",
        row_image(relations, found).alias("image"),
        *(_state(column, relations).alias(name) for column, name in state_columns(found).items()),
        *([_parent(relations, key).alias("parent")] if found.moves else []),
    )
    return _split_moves(events) if found.moves else events


def state_columns(found: Survey) -> dict[str, str]:
    """For each toasted column, the name of its state column."""
    return {column: f"state_{i}" for i, column in enumerate(found.toasted)}


def after_truncate(changes: DataFrame, found: Survey) -> DataFrame:
    """The changes that count: those after the last truncate, if there was one.

    A row that was read after it is, too, since its table's lock was held then: even a superseded one.
    """
    if found.truncated_at is None:
        return changes
    lsn, seq = found.truncated_at
    later = (F.col("commit_lsn") > lsn) | ((F.col("commit_lsn") == lsn) & (F.col("seq") > seq))
    return changes.where(later)


def row_image(relations: Sequence[RelationDescription], found: Survey) -> Column:
    """The row that a change leaves, or the one that a delete takes away."""
    if len(relations) == 1 and not found.in_old_row:
        return F.coalesce(F.col("after"), F.col("before"))
    new = packed(new_texts(relations, found))
    return F.when(F.col("after").isNotNull(), new).otherwise(packed(old_texts(relations)))


def new_texts(relations: Sequence[RelationDescription], found: Survey) -> list[Column]:
    """The texts of the row that a change leaves, in the order of ``latest_columns``."""
    return [_after_text(name, relations, found) for name in latest_columns(relations)]


def old_texts(relations: Sequence[RelationDescription]) -> list[Column]:
    """The texts of the old row, in the order of ``latest_columns``."""
    return [image_text("before", name, relations) for name in latest_columns(relations)]


def key_array(relations: Sequence[RelationDescription], key: GoldKey) -> Column:
    """The key of the row that a change leaves, or of the one that a delete takes away."""
    new = F.col("after").isNotNull()
    return F.array(
        *(
            F.when(new, key_text("after", column, relations)).otherwise(key_text("before", column, relations))
            for column in key
        )
    )


def last_event() -> Column:
    """The newest event of a group."""
    return F.max_by(F.struct("op", "image", "commit_lsn", "seq"), F.col("at"))


def latest_states(found: Survey) -> list[Column]:
    """For each toasted column, the newest state in the group that any event knew."""
    return [
        F.max_by(name, F.when(F.col(name).isNotNull(), F.col("at"))).alias(name)
        for name in state_columns(found).values()
    ]


def _after_text(name: str, relations: Sequence[RelationDescription], found: Survey) -> Column:
    text = image_text("after", name, relations)
    if name not in found.in_old_row:
        return text
    old = image_text("before", name, relations)
    return F.when(is_unchanged(name) & has_full_before(), old).otherwise(text)


def _parent(relations: Sequence[RelationDescription], key: GoldKey) -> Column:
    return F.when(is_move(relations, key), F.array(*(key_text("before", column, relations) for column in key)))


def _state(column: str, relations: Sequence[RelationDescription]) -> Column:
    """What the change tells of a toasted column."""
    unknown = F.struct(F.lit(None).cast("string").alias("value"), F.lit(False).alias("known"))
    sent = F.struct(image_text("after", column, relations).alias("value"), F.lit(True).alias("known"))
    old = image_text("before", column, relations)
    from_old = F.struct(old.alias("value"), F.lit(True).alias("known"))
    return (
        F.when(F.col("op") == Op.DELETE.value, unknown)
        .when(~is_unchanged(column), sent)
        .when(has_full_before() & old.isNotNull(), from_old)  # NULL was not sent: what is NULL is never TOASTed
        .when(F.col("op") != Op.UPDATE.value, unknown)
    )


def _split_moves(events: DataFrame) -> DataFrame:
    """Each change of a key as two events; all others as they are."""
    rest = [name for name in events.columns if name not in {"key", "op", "parent"}]
    into = F.struct("key", F.lit(MOVED_IN).alias("op"), "parent")
    out = F.struct(
        F.col("parent").alias("key"), F.lit(MOVED_OUT).alias("op"), F.lit(None).cast("array<string>").alias("parent")
    )
    sides = F.when(F.col("parent").isNotNull(), F.array(into, out)).otherwise(F.array(F.struct("key", "op", "parent")))
    return events.select(F.explode(sides).alias("side"), *rest).select("side.*", *rest)
