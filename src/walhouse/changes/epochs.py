"""The ledger of epochs: what each layer has applied, and what it was about to apply when it died.

Invariant: an epoch is written down before anything is computed for it, with the Delta version of every table that it
will change, and is applied in order; one that was not finished is applied again against those same versions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812  (the name everybody knows it by)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import LongType, MapType, StringType, StructField, StructType, TimestampType

from walhouse.changes.epoch import AppliedTable, EpochRange
from walhouse.lakehouse.answers import few_rows
from walhouse.lakehouse.tables import create_table, table_exists
from walhouse.lsn import Lsn
from walhouse.names import TableName

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from walhouse.lakehouse.layout import LakeLayout


class Layer(StrEnum):
    """What is computed by epochs."""

    SILVER = "silver"
    GOLD = "gold"


class EpochState(StrEnum):
    """How far an epoch of a layer is."""

    PLANNED = "planned"
    ANEW = "anew"
    """Planned, and the table is made anew from all that bronze has of it."""
    DONE = "done"


COLUMNS: Final = StructType(
    [
        StructField("layer", StringType(), metadata={"comment": "silver or gold"}),
        StructField("epoch", LongType(), metadata={"comment": "Number, from 1, without gaps within a layer"}),
        StructField(
            "state", StringType(), metadata={"comment": "planned, or anew if its table is made anew; then done"}
        ),
        StructField("after_pass", LongType(), metadata={"comment": "The epoch's first pass is the one after this"}),
        StructField("to_pass", LongType(), metadata={"comment": "The epoch's last capture pass"}),
        StructField("to_lsn", LongType(), metadata={"comment": "Every commit that starts before this is applied"}),
        StructField("schema_name", StringType(), metadata={"comment": "Source table; NULL: the epoch as a whole"}),
        StructField("table_name", StringType(), metadata={"comment": "Source table; NULL: the epoch as a whole"}),
        StructField(
            "base_version", LongType(), metadata={"comment": "Target's Delta version before; NULL: none, or not needed"}
        ),
        StructField("version", LongType(), metadata={"comment": "Target's Delta version after"}),
        StructField("counts", MapType(StringType(), LongType()), metadata={"comment": "What applying it did"}),
        StructField("at", TimestampType(), metadata={"comment": "When the row was written"}),
    ]
)


AppliedRow = tuple[int | None, int | None, Mapping[str, int]]
"""Base version, version after, counts."""


@dataclass(frozen=True, slots=True)
class PlannedEpoch:
    """An epoch and the tables it changes, each with its target's version before.

    None: the target did not exist, or the layer does not look at it.
    """

    range: EpochRange
    bases: Mapping[TableName, int | None]
    anew: frozenset[TableName] = frozenset()
    """Tables that are made anew, from bronze's first pass on."""


class EpochLedger:
    """``ops.epochs`` for one layer."""

    def __init__(self, spark: SparkSession, layout: LakeLayout, layer: Layer) -> None:
        self._spark = spark
        self._table = layout.ops("epochs")
        self.layer = layer
        if not table_exists(spark, self._table):
            create_table(
                spark,
                layout,
                self._table,
                COLUMNS,
                comment="What each layer has applied of bronze, and against which version of each table",
                properties={"delta.appendOnly": "true"},
            )

    def last(self) -> tuple[PlannedEpoch, bool] | None:
        """The last epoch and whether it is done; None before the first."""
        mine = self._spark.table(str(self._table)).where(F.col("layer") == self.layer.value)
        top = mine.select(F.max("epoch")).first()
        if top is None or top[0] is None:
            return None
        rows = few_rows(mine.where(F.col("epoch") == int(top[0])))
        whole = next(row for row in rows if row["table_name"] is None)
        bases = {
            TableName(row["schema_name"], row["table_name"]): row["base_version"]
            for row in rows
            if row["table_name"] is not None and row["state"] != EpochState.DONE
        }
        anew = frozenset(
            TableName(row["schema_name"], row["table_name"]) for row in rows if row["state"] == EpochState.ANEW
        )
        epoch = EpochRange(whole["epoch"], whole["after_pass"], whole["to_pass"], Lsn(whole["to_lsn"]))
        return PlannedEpoch(epoch, bases, anew), any(row["state"] == EpochState.DONE for row in rows)

    def plan(self, planned: PlannedEpoch) -> None:
        """Write an epoch down before it is applied."""
        applied: dict[TableName, AppliedRow] = {table: (base, None, {}) for table, base in planned.bases.items()}
        self._append(planned.range, EpochState.PLANNED, applied, planned.anew)

    def finish(self, planned: PlannedEpoch, applied: Mapping[TableName, AppliedTable]) -> None:
        """Record that every table of the epoch is applied, with its version."""
        rows: dict[TableName, AppliedRow] = {
            table: (planned.bases[table], done.version, done.counts) for table, done in applied.items()
        }
        self._append(planned.range, EpochState.DONE, rows)

    def versions(self, to_pass: int | None = None) -> dict[TableName, int]:
        """The Delta version of each table as of the last finished epoch (that ends at or before a pass)."""
        done = self._spark.table(str(self._table)).where(
            (F.col("layer") == self.layer.value)
            & (F.col("state") == EpochState.DONE.value)
            & F.col("version").isNotNull()
        )
        if to_pass is not None:
            done = done.where(F.col("to_pass") <= to_pass)
        rows = done.groupBy("schema_name", "table_name").agg(F.max_by("version", "epoch").alias("version"))
        return {TableName(row["schema_name"], row["table_name"]): int(row["version"]) for row in few_rows(rows)}

    def _append(
        self,
        epoch: EpochRange,
        state: EpochState,
        tables: Mapping[TableName, AppliedRow],
        anew: frozenset[TableName] = frozenset(),
    ) -> None:
        now, span = datetime.now(UTC), (epoch.after_pass, epoch.to_pass, int(epoch.to_lsn))
        mine = (self.layer.value, epoch.number)
        rows: list[tuple[object, ...]] = [(*mine, state.value, *span, None, None, None, None, None, now)]
        for table, (base, version, counts) in tables.items():
            of_table = EpochState.ANEW if table in anew else state
            name = (table.schema, table.table)
            rows.append((*mine, of_table.value, *span, *name, base, version, list(counts.items()), now))
        # by way of Arrow, since plain rows would start a Python worker
        columns = zip(*rows, strict=True)
        fields = zip(to_arrow_schema(COLUMNS, timezone="UTC"), columns, strict=True)
        table = pa.table([pa.array(list(values), field.type) for field, values in fields], names=COLUMNS.names)
        frame = self._spark.createDataFrame(table, COLUMNS)
        frame.write.format("delta").mode("append").saveAsTable(str(self._table))
