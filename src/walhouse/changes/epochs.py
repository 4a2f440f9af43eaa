"""The ledger of epochs: what each layer has applied, and what it was about to apply when it died.

Invariant: an epoch is written down before anything is computed for it, with the Delta version of every table that it
will change, and is applied in order; one that was not finished is applied again against those same versions.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql import functions as F
from pyspark.sql.types import LongType, MapType, StringType, StructField, StructType, TimestampType

from walhouse.changes.epoch import AppliedTable, EpochRange
from walhouse.lakehouse.answers import few_rows
from walhouse.lakehouse.appends import append_rows
from walhouse.lakehouse.tables import create_table, table_exists
from walhouse.lakehouse.tidying import SHORT_HISTORY
from walhouse.lsn import Lsn
from walhouse.names import TableName

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

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


_Row = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class PlannedEpoch:
    """An epoch and the tables it changes, each with its target's version before.

    None: the target did not exist, or the layer does not look at it.
    """

    range: EpochRange
    bases: Mapping[TableName, int | None]
    anew: frozenset[TableName] = frozenset()
    """Tables that are made anew, from bronze's first pass on."""


class LastEpoch(NamedTuple):
    """A layer's last epoch, and whether all of it is applied."""

    planned: PlannedEpoch
    done: bool


@dataclass(frozen=True, slots=True)
class Cut:
    """A layer's tables at one position: every commit that starts before ``lsn`` is in all of them, and no other.

    ``versions``: the Delta version of each.
    """

    lsn: Lsn
    versions: Mapping[TableName, int]


class EpochLedger:
    """``ops.epochs``. Layers that go on together are written down together: each commit has its price."""

    def __init__(self, spark: SparkSession, layout: LakeLayout) -> None:
        self._spark = spark
        self._layout = layout
        self._table = layout.ops("epochs")
        if not table_exists(spark, layout, self._table):
            create_table(
                spark,
                layout,
                self._table,
                COLUMNS,
                comment="What each layer has applied of bronze, and against which version of each table",
                properties={"delta.appendOnly": "true", **(SHORT_HISTORY if layout.writes_files else {})},
            )

    def last(self, layer: Layer) -> LastEpoch | None:
        """A layer's last epoch; None before the first."""
        mine = self._spark.table(str(self._table)).where(F.col("layer") == layer.value)
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
        return LastEpoch(PlannedEpoch(epoch, bases, anew), any(row["state"] == EpochState.DONE for row in rows))

    def has_applied(self, layer: Layer, table: TableName) -> bool:
        """Whether a finished epoch of the layer changed the table."""
        of_table = (F.col("schema_name") == table.schema) & (F.col("table_name") == table.table)
        done = (F.col("layer") == layer.value) & (F.col("state") == EpochState.DONE.value)
        return not self._spark.table(str(self._table)).where(of_table & done).isEmpty()

    def plan(self, epochs: Mapping[Layer, PlannedEpoch]) -> None:
        """Write epochs down before they are applied."""
        self._append(row for layer, planned in epochs.items() for row in _planned_rows(layer, planned))

    def finish(self, epochs: Mapping[Layer, tuple[PlannedEpoch, Mapping[TableName, AppliedTable]]]) -> None:
        """Record of epochs that every table of theirs is applied, with its version."""
        self._append(row for layer, (planned, applied) in epochs.items() for row in _done_rows(layer, planned, applied))

    def cut(self, layer: Layer, at: Lsn | None = None) -> Cut | None:
        """All tables of a layer after its last finished epoch, or the last that ends at ``at`` or before; None: none.

        Each stands at the version that the last epoch before it left, since an epoch writes what it changes alone.
        """
        done = self._spark.table(str(self._table)).where(
            (F.col("layer") == layer.value) & (F.col("state") == EpochState.DONE.value)
        )
        if at is not None:
            done = done.where(F.col("to_lsn") <= int(at))
        epoch_of_version = F.when(F.col("version").isNotNull(), F.col("epoch"))
        rows = few_rows(
            done.groupBy("schema_name", "table_name").agg(
                F.max("to_lsn").alias("to_lsn"), F.max_by("version", epoch_of_version).alias("version")
            )
        )
        if not rows:
            return None
        versions = {
            TableName(row["schema_name"], row["table_name"]): int(row["version"])
            for row in rows
            if row["table_name"] is not None and row["version"] is not None
        }
        return Cut(Lsn(max(row["to_lsn"] for row in rows)), versions)

    def _append(self, rows: Iterable[_Row]) -> None:
        append_rows(self._spark, self._layout, self._table, COLUMNS, rows, tidies=True)


def applied_tables(spark: SparkSession, layout: LakeLayout, layer: Layer) -> frozenset[TableName]:
    """The tables that finished epochs of a layer changed, for whoever only reads the lake; none before the first."""
    ledger = layout.ops("epochs")
    if not table_exists(spark, layout, ledger):
        return frozenset()
    done = (F.col("layer") == layer.value) & (F.col("state") == EpochState.DONE.value)
    names = spark.table(str(ledger)).where(done & F.col("table_name").isNotNull())
    return frozenset(
        TableName(row["schema_name"], row["table_name"])
        for row in few_rows(names.select("schema_name", "table_name").distinct())
    )


def last_applied_pass(spark: SparkSession, layout: LakeLayout) -> int:
    """The last of bronze's passes that an epoch of any layer has; 0 without any. Answered from Delta's log."""
    table = layout.ops("epochs")
    if not table_exists(spark, layout, table):
        return 0
    local = layout.local(table)
    ends = None if local is None else local.greatest(("to_pass",))
    if ends is None:
        ends = tuple(few_rows(spark.table(str(table)).select(F.max("to_pass")))[0].values())
    return int(ends[0] or 0)


def _planned_rows(layer: Layer, planned: PlannedEpoch) -> Iterator[_Row]:
    yield _row(layer, planned.range, EpochState.PLANNED)
    for table, base in planned.bases.items():
        state = EpochState.ANEW if table in planned.anew else EpochState.PLANNED
        yield _row(layer, planned.range, state, table, base=base)


def _done_rows(layer: Layer, planned: PlannedEpoch, applied: Mapping[TableName, AppliedTable]) -> Iterator[_Row]:
    yield _row(layer, planned.range, EpochState.DONE)
    for table, done in applied.items():
        yield _row(layer, planned.range, EpochState.DONE, table, base=planned.bases[table], done=done)


def _row(
    layer: Layer,
    epoch: EpochRange,
    state: EpochState,
    table: TableName | None = None,
    *,
    base: int | None = None,
    done: AppliedTable | None = None,
) -> _Row:
    """One row, as COLUMNS has it; without a table of the epoch as a whole."""
    span = (epoch.after_pass, epoch.to_pass, int(epoch.to_lsn))
    name = (None, None) if table is None else (table.schema, table.table)
    counts = None if table is None else list(done.counts.items()) if done else []
    version = done.version if done else None
    return (layer.value, epoch.number, state.value, *span, *name, base, version, counts, datetime.now(UTC))
