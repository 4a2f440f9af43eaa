"""Events out of resolved changes: the rows of a silver table.

Invariant: one row per event, identified by (commit_lsn, seq, op): only a key change gives two events for one change,
and those differ in op.
Source: Debezium documentation, PostgreSQL connector, "Data change events".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812  (the name everybody knows it by)

from walhouse.pgoutput.row import Op
from walhouse.silver.columns import fields_of, silver_columns
from walhouse.silver.images import Images, no_names
from walhouse.silver.keys import NEW_KEY, OLD_KEY, key_changed, key_columns
from walhouse.silver.silver_type import null
from walhouse.silver.source import source, times
from walhouse.silver.table import HEADERS, TRANSACTION, struct_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from walhouse.names import TableName
    from walhouse.pgoutput.relation import RelationDescription
    from walhouse.silver.columns import SilverColumn
    from walhouse.silver.settings import SilverSettings


def envelope(
    changes: DataFrame,
    table: TableName,
    relations: Sequence[RelationDescription],
    target: StructType,
    settings: SilverSettings,
) -> DataFrame:
    """The events of one table, with exactly the columns and fields of ``target``, its silver table's schema.

    ``changes``: as in TableEpoch. A superseded snapshot row gives no event.
    """
    columns = silver_columns(relations, fields_of(struct_of(target, "after")))
    images = Images(relations, columns, settings)
    before, after, key = (struct_of(target, name) for name in ("before", "after", "key"))
    is_delete = F.col("event") == Op.DELETE.value
    # two projections, so that the second looks at the first one's values and does not compute them again
    built = _events(changes, relations, columns).select(
        "*",
        F.when(is_delete, images.key("before", key)).otherwise(images.key("after", key)).alias("new_key"),
        F.when(~F.col("moved") | is_delete, images.before(before)).alias("new_before"),
        F.when(~is_delete, images.after(after)).alias("new_after"),
    )
    millis, micros, nanos = times(F.col("captured_at"))
    return built.select(
        F.col("new_key").alias("key"),
        F.col("new_before").alias("before"),
        F.col("new_after").alias("after"),
        source(settings, table).alias("source"),
        F.col("event").alias("op"),
        millis.alias("ts_ms"),
        micros.alias("ts_us"),
        nanos.alias("ts_ns"),
        null(TRANSACTION).alias("transaction"),
        F.when(
            F.col("moved"),
            F.when(is_delete, F.create_map(F.lit(NEW_KEY), images.key_json("after"))).otherwise(
                F.create_map(F.lit(OLD_KEY), images.key_json("before"))
            ),
        )
        .otherwise(null(HEADERS))
        .alias("headers"),
        "commit_lsn",
        "seq",
        "xid",
        "relation_version",
        F.when(is_delete, no_names()).otherwise(images.unavailable()).alias("unavailable"),
        "before_kind",
        images.unconverted(F.col("new_before"), F.col("new_after")).alias("unconverted"),
    )


def _events(changes: DataFrame, relations: Sequence[RelationDescription], columns: Sequence[SilverColumn]) -> DataFrame:
    """One row per event, with its ``event`` (op) and ``moved``: whether it is half of a key change."""
    visible = changes.where(~F.col("superseded"))
    if not any(key_columns(relation) for relation in relations):
        return visible.select("*", F.col("op").alias("event"), F.lit(False).alias("moved"))  # noqa: FBT003  (a literal)
    halves = F.array(F.lit(Op.DELETE.value), F.lit(Op.CREATE.value))
    return visible.withColumn("moved", key_changed(relations, columns)).withColumn(
        "event", F.explode(F.when(F.col("moved"), halves).otherwise(F.array("op")))
    )
