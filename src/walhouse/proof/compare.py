"""Two tables compared as multisets of rows of text.

Invariant: a row that is missing, different, or there once too often on either side makes the tables unequal. NULL and
absent, NULL and the empty string are told apart; duplicates count.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F

from walhouse.gold.columns import gold_columns
from walhouse.proof.text import gold_texts

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from walhouse.gold.key import GoldKey
    from walhouse.pgoutput.relation import RelationDescription

Texts = tuple[str | None, ...]


class Totals(NamedTuple):
    """One side: its rows, and the sum over all rows of a 64-bit hash of each, which does not depend on their order."""

    rows: int
    digest: int


class Difference(NamedTuple):
    """One key whose rows differ. In a bag the key is the whole row.

    ``copies``: how often the source's row is there more often than gold's (negative: less often); 0 where both sides
    have another row. A side that has no such row is None.
    """

    key: Texts
    source: Texts | None
    gold: Texts | None
    copies: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """What comparing gave. ``sample`` holds values of rows: it is for who asked, and not part of the repr."""

    source: Totals
    gold: Totals
    differing: int
    """Keys whose rows differ (in a bag: distinct rows)."""
    sample: tuple[Difference, ...] = field(repr=False)

    @property
    def source_rows(self) -> int:
        """Rows of the source as of the compared LSN."""
        return self.source.rows

    @property
    def gold_rows(self) -> int:
        """Rows of gold."""
        return self.gold.rows

    @property
    def equal(self) -> bool:
        """Whether both sides have the same rows, each as often."""
        return self.source == self.gold


def compare(
    source: DataFrame,
    gold: DataFrame,
    relation: RelationDescription,
    key: GoldKey,
    *,
    limit: int = 20,
    expected_overrides: DataFrame | None = None,
) -> Comparison:
    """Compare the source's rows with gold's.

    ``source``: ``values`` ARRAY<STRING> in the relation's column order, by ``source_expressions``. ``gold``: the gold
    table. ``expected_overrides`` (see ``walhouse.proof.invisible``): for keys that the source's snapshot shows as
    they were before ``gold``'s LSN, the rows that they must have; with a key ``key`` and ``values`` (NULL for no row),
    without one ``values`` and ``copies`` to be added to the source's.

    Each side is read once; only if they are unequal again, to find up to ``limit`` differing keys.
    """
    columns = gold_columns((relation,), gold.columns)
    expected = _expected(source, relation, key, expected_overrides)
    actual = gold.select(gold_texts(columns, gold.schema).alias("values"), F.lit(1).alias("copies"))
    totals = Totals(*_totals(expected)), Totals(*_totals(actual))
    if totals[0] == totals[1]:
        return Comparison(*totals, differing=0, sample=())
    differences = _differences(expected, actual, _key_of(relation, key) if key else F.col("values"))
    sample = tuple(
        Difference(tuple(row["key"]), _texts(row["source"]), _texts(row["gold"]), row["copies"])
        for row in differences.limit(limit).toLocalIterator()
    )
    differing = len(sample) if len(sample) < limit else differences.count()
    return Comparison(*totals, differing=differing, sample=sample)


def _expected(source: DataFrame, relation: RelationDescription, key: GoldKey, overrides: DataFrame | None) -> DataFrame:
    """What gold must hold: ``values`` and ``copies``."""
    rows = source.select("values", F.lit(1).alias("copies"))
    if overrides is None:
        return rows
    if not key:
        return rows.unionByName(overrides.select("values", F.col("copies").cast("int")))
    rest = rows.withColumn("key", _key_of(relation, key)).join(overrides.select("key"), "key", "left_anti")
    there = overrides.where(F.col("values").isNotNull()).select("values", F.lit(1).alias("copies"))
    return rest.select("values", "copies").unionByName(there)


def _key_of(relation: RelationDescription, key: GoldKey) -> Column:
    return key_texts(F.col("values"), relation, key)


def key_texts(values: Column, relation: RelationDescription, key: GoldKey) -> Column:
    """The key's texts out of a row's."""
    return F.array(*(F.get(values, F.lit(relation.column_names.index(name))) for name in key))


def _totals(side: DataFrame) -> tuple[int, int]:
    # Spark's hash passes over NULLs, so [NULL, 'a'] and ['a', NULL] need their NULLs hashed beside them
    hashed = F.xxhash64("values", F.transform("values", lambda value: value.isNull()))
    row = side.agg(
        F.coalesce(F.sum("copies"), F.lit(0)),
        F.coalesce(F.sum(hashed.cast("decimal(20,0)") * F.col("copies").cast("decimal(10,0)")), F.lit(0)),
    ).head(1)[0]
    return int(row[0]), int(row[1])


def _differences(expected: DataFrame, actual: DataFrame, key: Column) -> DataFrame:
    """``key``, ``source``, ``gold`` (the rows), ``copies``. Grouping takes NULL for NULL's equal, and counts."""
    sides = expected.unionByName(actual.select("values", (-F.col("copies")).alias("copies")))
    unbalanced = sides.groupBy("values").agg(F.sum("copies").alias("copies")).where(F.col("copies") != 0)
    return (
        unbalanced.groupBy(key.alias("key"))
        .agg(
            F.max(F.when(F.col("copies") > 0, F.col("values"))).alias("source"),
            F.max(F.when(F.col("copies") < 0, F.col("values"))).alias("gold"),
            F.sum("copies").cast("int").alias("copies"),
        )
        .orderBy("key")
    )


def _texts(values: list[str | None] | None) -> Texts | None:
    return None if values is None else tuple(values)
