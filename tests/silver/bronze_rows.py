"""Relations and changes as bronze has them, written by hand: what the tests of silver start from."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StructType

from walhouse.bronze.table import COLUMNS
from walhouse.changes.epoch import EpochRange, TableEpoch
from walhouse.changes.resolve import RESOLVED
from walhouse.lsn import Lsn
from walhouse.pgoutput.column import ColumnDescription
from walhouse.pgoutput.image import pack_row
from walhouse.pgoutput.relation import RelationDescription, describe
from walhouse.pgoutput.row import TRANSACTION_SEQ

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from walhouse.names import TableName

COMMITTED = datetime(2026, 11, 21, 7, 30, 0, 123456, tzinfo=UTC)
CAPTURED = datetime(2026, 11, 21, 7, 30, 1, 654321, tzinfo=UTC)

EPOCH = EpochRange(number=1, after_pass=0, to_pass=1, to_lsn=Lsn(10_000))

Row = dict[str, Any]


def column(name: str, base_type: str, **facts: Any) -> ColumnDescription:
    """A column that the catalog knows. ``typmod`` as PostgreSQL has it."""
    typmod = facts.pop("typmod", -1)
    known = {"type_name": base_type, "base_type": base_type, "base_typmod": typmod, "kind": "b", "nullable": True}
    return ColumnDescription(name, 0, typmod, **{"identity": False, **known, **facts})


def numeric_typmod(precision: int, scale: int) -> int:
    """The modifier of numeric(precision, scale)."""
    return ((precision << 16) | (scale & 0x7FF)) + 4


def relation(
    name: TableName,
    columns: Sequence[ColumnDescription],
    *,
    primary_key: tuple[str, ...] | None = (),
    unique_keys: tuple[tuple[str, ...], ...] = (),
    identity: str = "d",
) -> RelationDescription:
    """A version whose identity columns are the primary key's, or all with identity ``f``."""
    flagged = [
        replace(each, identity=each.identity or identity == "f" or each.name in (primary_key or ())) for each in columns
    ]
    return replace(describe(1, name, identity, flagged), primary_key=primary_key, unique_keys=unique_keys)


@dataclass
class Wal:
    """Changes of one table, in commit order; each gets the next LSN unless told otherwise."""

    relation: RelationDescription
    rows: list[Row] = field(default_factory=list)
    lsn: int = 1000

    def add(self, op: str, *, before: Row | None = None, after: Row | None = None, **facts: Any) -> Wal:
        """A change. ``before`` and ``after`` map columns to PostgreSQL's text; a missing one is NULL."""
        self.lsn += 10
        described = facts.pop("relation", self.relation)
        kind = facts.pop("before_kind", None if before is None else "O" if described.replica_identity == "f" else "K")
        row: Row = dict.fromkeys(COLUMNS.fieldNames())
        row |= {
            "kind": "snapshot" if op == "r" else "change",
            "op": op,
            "schema_name": described.schema,
            "table_name": described.table,
            "commit_lsn": self.lsn,
            "seq": 0,
            "lsn": self.lsn - 5,
            "xid": 700,
            "commit_ts": COMMITTED,
            "captured_at": CAPTURED,
            "relation_version": described.version,
            "before_kind": kind,
            "before": _packed(described, before),
            "after": _packed(described, after),
        }
        self.rows.append({**row, "superseded": False, **facts})
        return self

    def frame(self, spark: SparkSession) -> DataFrame:
        """The changes as ``resolve`` gives them."""
        schema = StructType(list(COLUMNS.fields)).add("superseded", "boolean")
        return spark.createDataFrame(self.rows, schema).select(*RESOLVED, "superseded")

    def epoch(self, spark: SparkSession, *older: RelationDescription) -> TableEpoch:
        """The changes as an epoch; ``older``: versions before the current one."""
        relations = (*older, self.relation)
        return TableEpoch(EPOCH, self.relation.name, self.frame(spark), relations, None)


def message_frame(spark: SparkSession, rows: Sequence[Row]) -> DataFrame:
    """Bronze rows of kind message."""
    return _frame_of(spark, {"kind": "message", "op": "m"}, rows)


def transaction_frame(spark: SparkSession, rows: Sequence[Row]) -> DataFrame:
    """Bronze rows of kind transaction."""
    return _frame_of(spark, {"kind": "transaction", "seq": TRANSACTION_SEQ}, rows)


def _frame_of(spark: SparkSession, common: Row, rows: Sequence[Row]) -> DataFrame:
    empty: Row = dict.fromkeys(COLUMNS.fieldNames())
    times = {"commit_ts": COMMITTED, "captured_at": CAPTURED}
    return spark.createDataFrame([{**empty, **common, **times, **row} for row in rows], COLUMNS)


def _packed(described: RelationDescription, image: Row | None) -> str | None:
    if image is None:
        return None
    unknown = set(image) - set(described.column_names)
    assert not unknown, f"{described.name} has no columns {unknown}"
    return pack_row([image.get(name) for name in described.column_names])
