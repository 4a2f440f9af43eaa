"""From PostgreSQL's text to native values, with what a type cannot hold put aside as text.

Invariant: no value is lost. A text that its column's conversion does not take stands in ``rescued``, and nowhere is a
value both converted and rescued.
"""

from __future__ import annotations

from operator import and_, or_
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from walhouse.gold.columns import RESCUED, UNAVAILABLE, GoldColumn
from walhouse.lakehouse.expressions import joined
from walhouse.names import quote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

    from walhouse.gold.key import GoldKey


def with_native_values(rows: DataFrame, columns: Sequence[GoldColumn]) -> DataFrame:
    """Add ``v0`` ... (the values of ``image``) and ``rescued`` (MAP of gold name to text, NULL if there is none)."""
    texts = [F.get(F.col("image"), F.lit(i)) for i in range(len(columns))]
    converted = rows.withColumns(
        {f"v{i}": column.type.convert(text) for i, (column, text) in enumerate(zip(columns, texts, strict=True))}
    )
    refused = {
        column.name: (F.col(f"v{i}").isNull() & texts[i].isNotNull(), texts[i])
        for i, column in enumerate(columns)
        if not column.type.total
    }
    return converted.withColumn("rescued", _map_of(refused))


def with_native_key(rows: DataFrame, columns: Sequence[GoldColumn], key: GoldKey, texts: str, prefix: str) -> DataFrame:
    """Add the key's values out of the array ``texts``: ``<prefix>0`` ..., and ``<prefix>0_text`` for refused texts."""
    added: dict[str, Column] = {}
    for i, column in enumerate(key_columns(columns, key)):
        text = F.get(F.col(texts), F.lit(i))
        value = column.type.convert(text)
        added[f"{prefix}{i}"] = value
        if column.type.refuses:
            added[f"{prefix}{i}_text"] = F.when(value.isNull(), text)
    return rows.withColumns(added)


def key_columns(columns: Sequence[GoldColumn], key: GoldKey) -> list[GoldColumn]:
    """The gold columns of the key, in its order."""
    by_source = {column.source.name: column for column in columns}
    return [by_source[name] for name in key]


def from_base(
    rows: DataFrame, base: DataFrame, columns: Sequence[GoldColumn], key: GoldKey, toasted: Sequence[str]
) -> DataFrame:
    """Fill in values that stand in the target under another key. ``base``: the target before the epoch.

    Afterwards ``missing`` names only columns to be taken from the target's row of the same key.
    """
    rows = rows.withColumn("moved", F.coalesce(F.col("base_key") != F.col("key"), F.lit(False)))
    rows = with_native_key(rows, columns, key, "base_key", "b")
    wanted = [(i, c) for i, c in enumerate(columns) if c.source.name in toasted and c.name in base.columns]
    keys = key_columns(columns, key)
    found = base.select(
        *(F.col(quote(column.name)).alias(f"base_k{i}") for i, column in enumerate(keys)),
        *(F.col(quote(column.name)).alias(f"base_v{i}") for i, column in wanted),
        F.col(RESCUED).alias("base_rescued"),
        F.coalesce(F.col(UNAVAILABLE), F.array().cast("array<string>")).alias("base_unavailable"),
        F.lit(True).alias("base_found"),
    )
    with_base = rows.join(found, F.col("moved") & joined(and_, _key_matches(keys)), "left")
    taken: dict[str, Column] = {}
    texts: dict[str, tuple[Column, Column]] = {}
    for i, column in wanted:
        take = F.col("moved") & F.array_contains("missing", column.name)
        taken[f"v{i}"] = F.when(take, F.col(f"base_v{i}")).otherwise(F.col(f"v{i}"))
        text = F.col("base_rescued")[column.name]
        texts[column.name] = (take & text.isNotNull(), text)
    absent = F.when(F.col("base_found"), F.array_intersect("missing", "base_unavailable")).otherwise(F.col("missing"))
    return with_base.withColumns(
        {
            **taken,
            "rescued": _joined_maps(F.col("rescued"), _map_of(texts)),
            "unavailable": F.when(F.col("moved"), F.array_union("unavailable", absent)).otherwise(F.col("unavailable")),
            "missing": F.when(F.col("moved"), F.array().cast("array<string>")).otherwise(F.col("missing")),
        }
    )


def _key_matches(keys: Sequence[GoldColumn]) -> list[Column]:
    matches = []
    for i, column in enumerate(keys):
        if column.type.refuses:
            matches.append(F.col(f"b{i}").eqNullSafe(F.col(f"base_k{i}")))
            matches.append(F.col(f"b{i}_text").eqNullSafe(F.col("base_rescued")[column.name]))
        else:
            matches.append(F.col(f"b{i}") == F.col(f"base_k{i}"))
    return matches


def _map_of(entries: dict[str, tuple[Column, Column]]) -> Column:
    """Name to text for those whose condition holds; NULL if there is none."""
    if not entries:
        return F.lit(None).cast("map<string,string>")
    any_holds = joined(or_, [holds for holds, _ in entries.values()])
    pairs = [
        F.when(holds, F.struct(F.lit(name).alias("key"), text.alias("value")))
        for name, (holds, text) in entries.items()
    ]
    return F.when(any_holds, F.map_from_entries(F.array_compact(F.array(*pairs))))


def _joined_maps(one: Column, other: Column) -> Column:
    return F.when(one.isNull(), other).when(other.isNull(), one).otherwise(F.map_concat(one, other))
