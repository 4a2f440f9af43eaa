"""Tables without a key: a multiset of whole rows.

Invariant: for each distinct row, gold has it as often as PostgreSQL does. Rows are told apart by the digest of
PostgreSQL's texts, not of values, and counted: an update takes one old row away and adds one new row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from walhouse.changes.columns import is_unchanged, latest_columns
from walhouse.changes.facts import has_full_before
from walhouse.errors import BagMismatchError
from walhouse.gold.columns import COMMIT_LSN, DIGEST, RESCUED, SEQ, UNAVAILABLE, GoldColumn
from walhouse.gold.events import after_truncate, new_texts, old_texts
from walhouse.gold.merge import run_merge, truncate_clause
from walhouse.names import TableName, quote
from walhouse.pgoutput.row import Op

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from walhouse.gold.survey import Survey
    from walhouse.names import LakeTable
    from walhouse.pgoutput.relation import RelationDescription


def fold_bag(
    changes: DataFrame, relations: Sequence[RelationDescription], found: Survey, *, anew: bool = False
) -> DataFrame:
    """What changed, by distinct row: ``digest``, ``net`` (copies more or less), ``image``, ``unavailable``, ``places``.

    ``places``: ARRAY<STRUCT<lsn, seq>>, the changes that added copies, newest first. The order of adding and taking
    away plays no part, so a row that was deleted and inserted again counts for nothing.

    ``anew``: these are all changes that there are. Then rows are told apart by the columns of now alone, since a change
    from after a DROP COLUMN does not say what its row had there.
    """
    names = list(latest_columns(relations))
    telling = {name: names.index(name) for name in (relations[-1].column_names if anew else names)}
    place = F.struct(F.col("commit_lsn").alias("lsn"), "seq")
    lost = [F.when(is_unchanged(name) & ~has_full_before(), F.lit(name)) for name in names if name in found.toasted]
    nothing = F.array().cast("array<string>")
    gone = F.when(
        F.col("op").isin(Op.UPDATE.value, Op.DELETE.value),
        F.struct(
            F.lit(-1).alias("weight"), F.array(*old_texts(relations)).alias("image"), nothing.alias("unavailable")
        ),
    )
    come = F.when(
        F.col("after").isNotNull(),
        F.struct(
            F.lit(1).alias("weight"),
            F.array(*new_texts(relations, found)).alias("image"),
            (F.array_compact(F.array(*lost)) if lost else nothing).alias("unavailable"),
        ),
    )
    sides = after_truncate(changes, found).select(
        place.alias("place"), F.explode(F.array_compact(F.array(gone, come))).alias("side")
    )
    return (
        sides.select("place", "side.*")
        .withColumn("digest", digest(F.col("image"), telling))
        .groupBy("digest")
        .agg(
            F.sum("weight").alias("net"),
            F.first("image").alias("image"),
            F.first("unavailable").alias("unavailable"),
            F.sort_array(F.collect_list(F.when(F.col("weight") > 0, F.col("place"))), asc=False).alias("places"),
        )
        .where(F.col("net") != 0)
    )


def digest(image: Column, places: Mapping[str, int]) -> Column:
    """SHA-256 of the names and texts of the columns that are not NULL, by name: the same before and after ADD COLUMN.

    ``places``: where each column stands in the image. Names and texts go in with their lengths, so that no two rows are
    written alike.
    """
    parts = []
    for name, position in sorted(places.items()):
        text = F.get(image, F.lit(position))
        written = F.concat(F.lit(f"{len(name)}:{name}"), F.length(text).cast("string"), F.lit(":"), text)
        parts.append(F.coalesce(written, F.lit("")))
    return F.sha2(F.concat(*parts) if parts else F.lit(""), 256)


def rows_to_delete(net: DataFrame, base: DataFrame) -> DataFrame:
    """The rows of the target before the epoch that go: ``lsn`` and ``seq``, as many of each digest as the net says."""
    among = Window.partitionBy(DIGEST).orderBy(COMMIT_LSN, SEQ)
    fewer = net.where(F.col("net") < 0).select(F.col("digest").alias(DIGEST), (-F.col("net")).alias("fewer"))
    return (
        base.select(DIGEST, COMMIT_LSN, SEQ)
        .join(fewer, DIGEST)
        .withColumn("copy", F.row_number().over(among))
        .where(F.col("copy") <= F.col("fewer"))
        .select(F.col(COMMIT_LSN).alias("commit_lsn"), F.col(SEQ).alias("seq"))
    )


def require_matches(table: TableName, net: DataFrame, base: DataFrame | None, found: Survey) -> None:
    """Raise BagMismatchError if a row was taken away that was never there."""
    if found.removals == 0:
        return
    unmatched = found.incomplete_removals
    if unmatched == 0:
        fewer = net.where(F.col("net") < 0).select("digest", (-F.col("net")).alias("fewer"))
        if base is None:
            missing = fewer.agg(F.sum("fewer"))
        else:
            there = base.join(fewer, F.col(DIGEST) == F.col("digest"), "left_semi").groupBy(DIGEST).count()
            missing = fewer.join(there, F.col(DIGEST) == F.col("digest"), "left").agg(
                F.sum(F.greatest(F.col("fewer") - F.coalesce("count", F.lit(0)), F.lit(0)))
            )
        row = missing.first()
        unmatched = (row[0] or 0) if row is not None else 0
    if unmatched:
        raise BagMismatchError(
            f"{unmatched} updates or deletes of {table}, which has no key, match no row of its gold table.",
            safe="The gold table was not changed; bronze holds every change.",
            todo="Make it anew from bronze: walhouse rebuild gold TABLE. If that ends with this error, too, read it"
            " again: walhouse snapshot TABLE, walhouse capture, then rebuild and run.",
            table=str(table),
            count=unmatched,
        )


def merge_bag(
    spark: SparkSession,
    target: LakeTable,
    rows: DataFrame,
    columns: Sequence[GoldColumn],
    found: Survey,
) -> dict[str, int]:
    """Merge rows to insert (native) and rows to delete, by their place; how many were inserted and deleted."""
    inserted = {
        **{quote(column.name): f"s.v{i}" for i, column in enumerate(columns)},
        COMMIT_LSN: "s.commit_lsn",
        SEQ: "s.seq",
        RESCUED: "s.rescued",
        UNAVAILABLE: "nullif(s.unavailable, CAST(array() AS ARRAY<STRING>))",
        DIGEST: "s.digest",
    }
    clauses = f"""
        ON t.{COMMIT_LSN} = s.commit_lsn AND t.{SEQ} = s.seq
        WHEN MATCHED AND s.deleted THEN DELETE
        WHEN NOT MATCHED AND NOT s.deleted THEN
            INSERT ({", ".join(inserted)}) VALUES ({", ".join(inserted.values())})
        {truncate_clause(found)}"""
    return run_merge(spark, target, rows, clauses)


def rows_to_insert(net: DataFrame) -> DataFrame:
    """One row a copy: ``image``, ``digest``, ``unavailable``, ``commit_lsn``, ``seq`` of the change that added it."""
    more = net.where(F.col("net") > 0)
    return more.select(
        "digest",
        "image",
        "unavailable",
        F.explode(F.slice("places", F.lit(1), F.col("net").cast("int"))).alias("place"),
    ).select("digest", "image", "unavailable", F.col("place.lsn").alias("commit_lsn"), F.col("place.seq").alias("seq"))
