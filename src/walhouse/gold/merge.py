"""The one MERGE that brings a folded epoch into a gold table with a key.

Invariant: a row of the target is touched only by what is newer than it, by (commit LSN, seq), so that applying an epoch
again changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Observation
from pyspark.sql import functions as F

from walhouse.gold.columns import COMMIT_LSN, RESCUED, SEQ, UNAVAILABLE, GoldColumn
from walhouse.gold.native import key_columns
from walhouse.names import quote, string_literal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from walhouse.gold.key import GoldKey
    from walhouse.gold.survey import Survey
    from walhouse.names import LakeTable

_NEWER = f"(s.commit_lsn > t.{COMMIT_LSN} OR (s.commit_lsn = t.{COMMIT_LSN} AND s.seq > t.{SEQ}))"


def merge_rows(
    spark: SparkSession,
    target: LakeTable,
    rows: DataFrame,
    columns: Sequence[GoldColumn],
    *,
    key: GoldKey,
    found: Survey,
) -> dict[str, int]:
    """Merge folded native rows; how many rows were upserted and deleted."""
    toasted = set(found.toasted)
    values = {quote(c.name): _value(c, i, toasted) for i, c in enumerate(columns)}
    own_kept = {**_OWN_NEW, **(_KEPT if toasted else {})}
    inserted = _inserted(columns, found)
    clauses = f"""
        ON {_same_key(columns, key)}
        WHEN MATCHED AND s.deleted AND {_NEWER} THEN DELETE
        WHEN MATCHED AND {_NEWER} THEN UPDATE SET {", ".join(f"t.{k} = {v}" for k, v in {**values, **own_kept}.items())}
        WHEN NOT MATCHED AND NOT s.deleted THEN
            INSERT ({", ".join(inserted)}) VALUES ({", ".join(inserted.values())})
        {truncate_clause(found)}"""
    return run_merge(spark, target, rows, clauses)


def insert_rows(
    spark: SparkSession, target: LakeTable, rows: DataFrame, columns: Sequence[GoldColumn], *, found: Survey
) -> dict[str, int]:
    """Write the rows of a table's first epoch: the target is empty, so there is nothing to match. Counts alike."""
    values = ", ".join(f"{value} AS {name}" for name, value in _inserted(columns, found).items())
    escaped = values.replace("{", "{{").replace("}", "}}")
    seen = Observation()
    fresh = spark.sql(f"SELECT {escaped} FROM {{rows}} s WHERE NOT s.deleted", rows=rows)
    observed = fresh.observe(seen, F.count(F.lit(1)).alias("upserted"))
    # the fold has gathered the rows in a few large parts: no need to shuffle them once more
    observed.write.format("delta").mode("append").option("optimizeWrite", "false").saveAsTable(str(target))
    return {"upserted": int(seen.get["upserted"]), "deleted": 0}


def _inserted(columns: Sequence[GoldColumn], found: Survey) -> dict[str, str]:
    """Column to value of a row that is inserted."""
    inserted = {**{quote(c.name): f"s.v{i}" for i, c in enumerate(columns)}, **_OWN_NEW}
    if found.toasted:
        inserted[UNAVAILABLE] = _NAMES_AND_MISSING
    return inserted


def truncate_clause(found: Survey) -> str:
    """The clause that removes what a truncate removed: every row of the target from before it."""
    if found.truncated_at is None:
        return ""
    lsn, seq = found.truncated_at
    older = f"t.{COMMIT_LSN} < {lsn} OR (t.{COMMIT_LSN} = {lsn} AND t.{SEQ} < {seq})"
    return f"WHEN NOT MATCHED BY SOURCE AND ({older}) THEN DELETE"


def run_merge(spark: SparkSession, target: LakeTable, rows: DataFrame, clauses: str) -> dict[str, int]:
    """MERGE rows, called ``s``, into the target, called ``t``; how many rows were upserted and deleted."""
    # names may hold braces, which the placeholder's syntax would take for its own
    escaped = clauses.replace("{", "{{").replace("}", "}}")
    affected = spark.sql(f"MERGE INTO {target} t USING {{rows}} s {escaped}", rows=rows).head(1)[0]
    return {
        "upserted": affected["num_updated_rows"] + affected["num_inserted_rows"],
        "deleted": affected["num_deleted_rows"],
    }


_NAMES = "nullif(s.unavailable, CAST(array() AS ARRAY<STRING>))"
_NAMES_AND_MISSING = "nullif(array_union(s.unavailable, s.missing), CAST(array() AS ARRAY<STRING>))"
_OWN_NEW = {COMMIT_LSN: "s.commit_lsn", SEQ: "s.seq", RESCUED: "s.rescued", UNAVAILABLE: _NAMES}
_EMPTY_MAP = "CAST(map() AS MAP<STRING, STRING>)"
_KEPT = {
    RESCUED: f"""
        CASE WHEN size(s.missing) = 0 OR t.{RESCUED} IS NULL THEN s.rescued
        WHEN size(map_filter(t.{RESCUED}, (name, text) -> array_contains(s.missing, name))) = 0 THEN s.rescued
        ELSE map_concat(coalesce(s.rescued, {_EMPTY_MAP}),
                        map_filter(t.{RESCUED}, (name, text) -> array_contains(s.missing, name))) END""",
    UNAVAILABLE: f"""
        nullif(array_union(s.unavailable,
                           array_intersect(s.missing, coalesce(t.{UNAVAILABLE}, CAST(array() AS ARRAY<STRING>)))),
               CAST(array() AS ARRAY<STRING>))""",
}


def _value(column: GoldColumn, position: int, toasted: set[str]) -> str:
    if column.source.name not in toasted:
        return f"s.v{position}"
    name = string_literal(column.name)
    return f"CASE WHEN array_contains(s.missing, {name}) THEN t.{quote(column.name)} ELSE s.v{position} END"


def _same_key(columns: Sequence[GoldColumn], key: GoldKey) -> str:
    """Equal values; for types that refuse some texts, equal values or equal refused texts."""
    conditions = []
    for i, column in enumerate(key_columns(columns, key)):
        name = quote(column.name)
        if column.type.refuses:
            conditions.append(f"t.{name} <=> s.k{i}")
            conditions.append(f"t.{RESCUED}[{string_literal(column.name)}] <=> s.k{i}_text")
        else:
            conditions.append(f"t.{name} = s.k{i}")
    return " AND ".join(conditions)
