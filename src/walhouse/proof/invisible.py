"""Commits that lie before the proof's LSN but that its snapshot does not see.

A commit is in the WAL before it is visible, so on a busy server a snapshot nearly always misses some commits before the
insert LSN that was read with it. Gold, as of that LSN, has them.

Invariant: gold is compared with the source's own row plus just these changes, never with a history that gold itself was
made from. That is exact: on one key commits become visible in the order of their LSNs (the row's lock is held until
then), so whatever the snapshot does not see of a key is later than what it sees.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from walhouse.changes.columns import image_text
from walhouse.changes.facts import facts_of
from walhouse.changes.images import packed, text_at
from walhouse.changes.placed import is_invisible
from walhouse.gold.bag import fold_bag
from walhouse.gold.fold import fold
from walhouse.gold.survey import survey
from walhouse.pgoutput.row import Op
from walhouse.postgres.visibility import SeenBefore
from walhouse.proof.compare import key_texts
from walhouse.proof.text import change_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from walhouse.changes.columns import Image
    from walhouse.gold.key import GoldKey
    from walhouse.lsn import Lsn
    from walhouse.pgoutput.relation import RelationDescription
    from walhouse.postgres.visibility import Visibility


_SNAPSHOT: Final = "struct<id:string,chunk:bigint,visibility:string>"


def invisible_changes(changes: DataFrame, visibility: Visibility | SeenBefore, h: Lsn) -> DataFrame:
    """The changes with a commit LSN before ``h`` whose transaction the snapshot has not seen; no snapshot rows."""
    if isinstance(visibility, SeenBefore):
        assert visibility.lsn >= h.page_aligned(), "a standby's snapshot is exact, or nothing can be proven by it"
        return changes.limit(0)
    unseen = is_invisible(F.col("xid"), F.lit(str(visibility)))
    return changes.where((F.col("commit_lsn") < int(h)) & (F.col("op") != Op.READ.value) & unseen)


def expected_overrides(
    source: DataFrame,
    changes: DataFrame,
    relations: Sequence[RelationDescription],
    visibility: Visibility | SeenBefore,
    h: Lsn,
) -> DataFrame | None:
    """What gold must hold, at ``h``, of the rows that the snapshot shows as they were before: for ``compare``.

    ``source`` as for ``compare``; ``changes``: resolved changes of the table that include all whose transaction the
    snapshot may not have seen; ``relations``: the versions that they need, the one that ``source`` was read by last.
    None if the snapshot sees every change.

    With a key: ``key`` ARRAY<STRING> and ``values`` ARRAY<STRING> (NULL: no row). A bag: ``values`` and ``copies``.
    """
    relation, key = relations[-1], relations[-1].row_key
    changes = _as_proof_texts(invisible_changes(changes, visibility, h), relations)
    found = survey(changes, (relation,), key, facts_of(changes))
    if found.rows == 0:
        return None
    if not key:
        net = fold_bag(changes, (relation,), found).select(F.col("image").alias("values"), F.col("net").alias("copies"))
        if found.truncated_at is not None:
            net = net.unionByName(source.select("values", F.lit(-1).cast("bigint").alias("copies")))
        return net.localCheckpoint()
    rows = source.select("values", key_texts(F.col("values"), relation, key).alias("key"))
    touched = _touched_keys(changes, relation, key)
    if found.truncated_at is None:
        rows = rows.join(touched, "key", "left_semi")
    folded = fold(changes.unionByName(_as_base(rows, relation)), (relation,), key, found)
    left = folded.where(~F.col("deleted")).select("key", F.col("image").alias("values"))
    # few rows that are used several times, and that would read the source each time
    return touched.unionByName(rows.select("key")).distinct().join(left, "key", "left").localCheckpoint()


def _as_proof_texts(changes: DataFrame, relations: Sequence[RelationDescription]) -> DataFrame:
    """The changes with both images as the proof writes rows, in the order of the last relation version."""
    relation = relations[-1]
    sides: tuple[Image, ...] = ("before", "after")
    images = {
        side: F.when(
            F.col(side).isNotNull(),
            packed(change_text(image_text(side, column.name, relations), column) for column in relation.columns),
        )
        for side in sides
    }
    wanted = ("op", "commit_lsn", "seq", "before_kind", "unchanged", "snapshot", "superseded")
    return changes.select(
        *wanted,
        F.lit(relation.version).alias("relation_version"),
        *(value.alias(side) for side, value in images.items()),
    )


def _touched_keys(changes: DataFrame, relation: RelationDescription, key: GoldKey) -> DataFrame:
    """Every key that a change names, old or new."""
    images = F.array_compact(F.array(F.col("before"), F.col("after")))
    return (
        changes.select(F.explode(images).alias("image"))
        .select(F.array(*(text_at(F.col("image"), relation.column_names.index(name)) for name in key)).alias("key"))
        .distinct()
    )


def _as_base(rows: DataFrame, relation: RelationDescription) -> DataFrame:
    """The source's rows as what the changes are folded onto: older than all of them."""
    nothing = F.lit(None).cast("string")
    texts = (F.get(F.col("values"), F.lit(place)) for place in range(len(relation.columns)))
    return rows.select(
        F.lit(Op.READ.value).alias("op"),
        F.lit(0).cast("bigint").alias("commit_lsn"),
        F.lit(0).cast("bigint").alias("seq"),
        nothing.alias("before_kind"),
        F.lit(None).cast("array<string>").alias("unchanged"),
        F.lit(None).cast(_SNAPSHOT).alias("snapshot"),
        F.lit(True).alias("superseded"),
        F.lit(relation.version).alias("relation_version"),
        nothing.alias("before"),
        packed(texts).alias("after"),
    )
