"""Where the rows of a chunk stand among the changes: exactly, by what the chunk's snapshot has seen.

A chunk is read in a snapshot of its own, with the insert LSN ``H`` read right after it. Every commit that it sees
starts before ``H``, but not every commit before ``H`` is seen: a commit is in the WAL before it is visible.

Invariant: a row stands at ``H``, unless a change of its key before ``H`` is invisible to its snapshot. Then the row is
older than that change, and stands right before the first such one: ``superseded``, no event of its own, but the base
onto which the change is folded. If an earlier epoch has applied it, the row tells nothing new and is left out.

That is exact because on one key commits become visible in the order of their LSNs: the row's lock is held until then.

A standby's snapshot (``postgres.standby``) tells an LSN before which it has seen all, and its rows stand at one from
which on it has seen nothing. Changes between the two may be seen or not. There are none of a key, mostly: the row is
exact where it stands. A key that has any is left to them, and the row is left out. They say what becomes of it,
whatever the row had of them: an insert or an update replaces it, a delete or a move to another key ends it, and each
has its own event. What may be missing then is a long value that an update did not send, if the lake never had it: gold
says so, and the row is read again, as one that moved behind a primary's chunks. **The row must not be folded under
them** as one that is older: a value that the last of them gave it may be taken along by the first, where that moves the
row away and a later one inserts another under its old key; ``tests/changes/world.py`` finds that.

No epoch ends between the two LSNs: layers are no further than the first when the chunk is read, as bronze is open from
there on (``bronze.snapshots.beside``), and they wait until the stream has passed the second. A TRUNCATE cannot come
while rows are read, as replay takes the lock that excludes a reader's; one in between that was seen leaves rows whose
inserts follow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from walhouse.changes.columns import key_text
from walhouse.changes.facts import is_of_chunk, is_of_standby, visibility_part
from walhouse.pgoutput.row import Op

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

    from walhouse.changes.columns import Image
    from walhouse.changes.facts import ChunkFacts
    from walhouse.pgoutput.relation import RelationDescription


def placed(
    changes: DataFrame, earlier: DataFrame, relations: Sequence[RelationDescription], chunks: ChunkFacts
) -> DataFrame:
    """Resolved changes with each chunk row where it belongs.

    ``changes``: the epoch's, see ``resolve``; ``earlier``: all of the table's before the epoch; ``relations``: all
    versions that either needs, the current one last; ``chunks``: what is known of the chunk rows among ``changes``.
    """
    late = _by_key(changes, relations, chunks, early=False).unionAll(_by_key(earlier, relations, chunks, early=True))
    late = late.distinct().localCheckpoint()  # few, if any, and used twice
    if late.isEmpty():
        return changes
    rows = changes.where(is_of_chunk()).select(
        "commit_lsn", "seq", F.col("snapshot.visibility").alias("visibility"), _key("after", relations).alias("key")
    )
    older = F.col("late_lsn") < F.col("commit_lsn")
    hit = rows.join(F.broadcast(late), "key").where(older & _may_be_invisible())
    left_to_changes = F.col("early") | is_of_standby(F.col("visibility"))
    found = hit.groupBy("commit_lsn", "seq").agg(
        F.max(left_to_changes).alias("left_out"), F.min("late_lsn").alias("first_late")
    )
    joined = changes.join(F.broadcast(found), ["commit_lsn", "seq"], "left")
    kept = joined.where(~F.coalesce("left_out", F.lit(False)))
    # a snapshot's rows come before all changes of the same commit LSN
    where = {"commit_lsn": F.coalesce("first_late", "commit_lsn"), "superseded": F.col("first_late").isNotNull()}
    return kept.withColumns(where).select(changes.columns)


def _may_be_invisible() -> Column:
    visibility = F.col("visibility")
    seen_to = visibility_part(visibility, 1)
    return F.when(is_of_standby(visibility), F.col("late_lsn") >= seen_to).otherwise(
        is_invisible(F.col("late_xid"), visibility)
    )


def is_invisible(xid: Column, visibility: Column) -> Column:
    """True if a snapshot ``xmin:xmax:xip,xip`` has not seen the committed transaction: ``Visibility.sees``, negated."""
    xmin, xmax = visibility_part(visibility, 0), visibility_part(visibility, 1)
    running = F.split(F.split(visibility, ":")[2], ",")
    return (xid >= xmin) & ((xid >= xmax) | F.array_contains(running, xid.cast("string")))


def _by_key(
    changes: DataFrame, relations: Sequence[RelationDescription], chunks: ChunkFacts, *, early: bool
) -> DataFrame:
    """The keys that changes touched which some chunk may not have seen: key, late_lsn, late_xid, early."""
    nothing = F.lit(False)
    unseen = nothing if chunks.xmin is None else F.col("xid") >= chunks.xmin
    unknown = nothing if chunks.seen_to is None else F.col("commit_lsn") >= chunks.seen_to
    may_be_unseen = (F.col("commit_lsn") < chunks.last_lsn) & (unseen | unknown)
    is_change = F.col("op").isin(Op.CREATE.value, Op.UPDATE.value, Op.DELETE.value)
    sides: tuple[Image, ...] = ("before", "after")
    keys = F.array_compact(F.array(*(F.when(F.col(side).isNotNull(), _key(side, relations)) for side in sides)))
    return changes.where(may_be_unseen & is_change).select(
        F.explode(keys).alias("key"),
        F.col("commit_lsn").alias("late_lsn"),
        F.col("xid").alias("late_xid"),
        F.lit(early).alias("early"),
    )


def _key(image: Image, relations: Sequence[RelationDescription]) -> Column:
    return F.array(*(key_text(image, column, relations) for column in relations[-1].row_key))
