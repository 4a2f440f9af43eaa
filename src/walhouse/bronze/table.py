"""The bronze table: its columns as Delta has them, its creation, and the view that people read.

Invariant: append-only, and the same columns as ``walhouse.pgoutput.row.ROW``, in the same order.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from walhouse.bronze.readable import ensure_readable
from walhouse.errors import LakeVersionError
from walhouse.lakehouse.tables import create_table, sql_type, table_exists
from walhouse.lakehouse.tidying import SHORT_HISTORY
from walhouse.names import quote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from walhouse.lakehouse.layout import LakeLayout

GENERATION: Final = "walhouse.generation"
"""Table property: part of the name under which appends are counted. A restored table must get a new one."""

_LONG, _TEXT, _TIME = LongType(), StringType(), TimestampType()
_TEXTS = ArrayType(StringType())


def _column(name: str, data_type: DataType, comment: str) -> StructField:
    return StructField(name, data_type, nullable=True, metadata={"comment": comment})


COLUMNS: Final = StructType(
    [
        _column("pass", _LONG, "The capture pass that wrote the row"),
        _column("captured_to", _LONG, "Progress rows: every commit that starts before this LSN is in bronze"),
        _column(
            "kind",
            _TEXT,
            "change, snapshot, base (the reading of a whole table begins), message, transaction, relation or progress",
        ),
        _column("op", _TEXT, "c u d t; r for a snapshot row, b for a base; m for a message"),
        _column("schema_name", _TEXT, "Schema of the source table"),
        _column("table_name", _TEXT, "Name of the source table"),
        _column("commit_lsn", _LONG, "LSN at which the commit record starts; a snapshot row's: that of its snapshot"),
        _column("seq", _LONG, "Place within the transaction, from 0; negative for snapshot rows and lone messages"),
        _column("lsn", _LONG, "LSN of the change itself; neither an order nor an identity"),
        _column("xid", _LONG, "Transaction, 64 bits"),
        _column("commit_ts", _TIME, "When the transaction committed"),
        _column("previous_end", _LONG, "Where the commit before this one ended, in the order of the stream"),
        _column("slot_xmin", _LONG, "catalog_xmin of the slot when the pass began, with xmin.fetch.interval.ms"),
        _column("captured_at", _TIME, "When the row was captured"),
        _column("relation_version", _LONG, "Which relation row describes before and after"),
        _column("before_kind", _TEXT, "K: the old tuple has identity columns only; O: it is the whole old row"),
        _column(
            "before",
            _TEXT,
            "Old values as PostgreSQL's text, packed, by the relation version's columns; then what events show",
        ),
        _column(
            "after",
            _TEXT,
            "New values as PostgreSQL's text, packed, by the relation version's columns; then what events show",
        ),
        _column("unchanged", _TEXTS, "Columns whose TOASTed value was not sent because it did not change"),
        _column(
            "snapshot",
            StructType(
                [
                    _column("id", _TEXT, "Which snapshot"),
                    _column("chunk", _LONG, "Which chunk of it"),
                    _column("visibility", _TEXT, "xmin:xmax:xip of the transaction that read it"),
                ]
            ),
            "Snapshot rows: where the row was read",
        ),
        _column(
            "message",
            StructType(
                [
                    _column("prefix", _TEXT, "The message's prefix"),
                    _column("content", BinaryType(), "The message's bytes"),
                    _column("transactional", BooleanType(), "Whether it belongs to a transaction"),
                ]
            ),
            "A logical message",
        ),
        _column(
            "origin",
            StructType([_column("name", _TEXT, "Origin's name"), _column("lsn", _LONG, "Commit LSN on the origin")]),
            "Replication origin of the transaction",
        ),
        _column("relation", _TEXT, "Relation rows: the description, as JSON"),
        _column("progress", _TEXT, "Progress rows: the state of capture, as JSON"),
    ]
)

SKIPPING: Final = ("pass", "captured_to", "kind", "op", "schema_name", "table_name", "commit_lsn", "seq", "xid")
"""The columns whose statistics files have."""


def ensure_bronze(spark: SparkSession, layout: LakeLayout) -> None:
    """``complete_bronze`` if it is there, else ``create_bronze``."""
    if table_exists(spark, layout, layout.bronze):
        complete_bronze(spark, layout)
    else:
        create_bronze(spark, layout)


def complete_bronze(spark: SparkSession, layout: LakeLayout) -> None:
    """Add the columns that an older bronze may lack. Raises LakeVersionError if it has a column in another form."""
    present = require_form(spark, layout).fieldNames()
    if missing := [column for column in COLUMNS.fields if column.name not in present]:
        added = ", ".join(f"{quote(column.name)} {sql_type(column.dataType)}" for column in missing)
        spark.sql(f"ALTER TABLE {layout.bronze} ADD COLUMNS ({added})")


def create_bronze(spark: SparkSession, layout: LakeLayout) -> None:
    """Create the table and its view for people."""
    create_table(
        spark,
        layout,
        layout.bronze,
        COLUMNS,
        comment="Decoded WAL and snapshot rows of one PostgreSQL database, append-only",
        properties={
            "delta.appendOnly": "true",
            "delta.dataSkippingStatsColumns": ",".join(SKIPPING),
            **(SHORT_HISTORY if layout.writes_files else {}),
            "walhouse.layer": "bronze",
            GENERATION: uuid.uuid4().hex,
        },
    )
    ensure_readable(spark, layout)


def require_form(spark: SparkSession, layout: LakeLayout) -> StructType:
    """Bronze's columns as they are. Raises LakeVersionError if one has another type than this version's."""
    present = spark.table(str(layout.bronze)).schema
    for column in present.fields:
        expected = COLUMNS[column.name].dataType if column.name in COLUMNS.fieldNames() else column.dataType
        if column.dataType.simpleString() != expected.simpleString():
            raise LakeVersionError(
                f"The lake was begun by another version of walhouse: {column.name} in {layout.bronze} is"
                f" {column.dataType.simpleString()}, where this version has {expected.simpleString()}.",
                found=[column.name],
            )
    return present


def generation(spark: SparkSession, layout: LakeLayout) -> str:
    """The table's generation, part of ``txnAppId``."""
    local = layout.local(layout.bronze)
    if local is not None:
        return local.properties().get(GENERATION, "")
    row = spark.sql(f"SHOW TBLPROPERTIES {layout.bronze} ('{GENERATION}')").first()
    return str(row["value"]) if row is not None else ""


def new_generation(spark: SparkSession, layout: LakeLayout) -> None:
    """Count appends anew: needed once after bronze was restored to an earlier version, else Delta skips them."""
    spark.sql(f"ALTER TABLE {layout.bronze} SET TBLPROPERTIES ('{GENERATION}' = '{uuid.uuid4().hex}')")
