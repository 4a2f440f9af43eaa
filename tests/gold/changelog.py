"""A table of PostgreSQL as a Python model, which writes down what the server would send for each statement.

Independent of walhouse's fold: the model keeps whole rows and applies each statement at once; what was left out of a
change (unchanged TOAST, old tuples by replica identity) is left out by the rules of the server, not of the product.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from walhouse.changes.epoch import EpochRange, TableEpoch
from walhouse.lsn import Lsn
from walhouse.names import TableName
from walhouse.pgoutput.column import ColumnDescription
from walhouse.pgoutput.image import pack_row
from walhouse.pgoutput.relation import RelationDescription, describe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

Row = tuple[str | None, ...]

CHANGE_SCHEMA = """
    op STRING, commit_lsn BIGINT, seq BIGINT, lsn BIGINT, xid BIGINT, commit_ts TIMESTAMP, captured_at TIMESTAMP,
    relation_version BIGINT, before_kind STRING, before STRING, after STRING, unchanged ARRAY<STRING>,
    origin STRUCT<name: STRING, lsn: BIGINT>, snapshot STRUCT<id: STRING, chunk: BIGINT, visibility: STRING>,
    superseded BOOLEAN"""

TYPES = {
    "bool": 16, "bytea": 17, "int8": 20, "int2": 21, "int4": 23, "text": 25, "oid": 26, "json": 114, "float4": 700,
    "float8": 701, "bpchar": 1042, "varchar": 1043, "date": 1082, "time": 1083, "timestamp": 1114, "timestamptz": 1184,
    "interval": 1186, "numeric": 1700, "uuid": 2950,
}  # fmt: skip


def column(name: str, type_name: str = "text", typmod: int = -1, **facts: Any) -> ColumnDescription:
    """A column as message and catalog describe it together."""
    oid = TYPES.get(type_name, 90000)
    described = ColumnDescription(name, oid, typmod, identity=False)
    return replace(described, base_type=type_name, base_typmod=typmod, **facts)


def numeric(name: str, precision: int, scale: int) -> ColumnDescription:
    """A numeric(precision, scale)."""
    return column(name, "numeric", ((precision << 16) | (scale & 0x7FF)) + 4)


def relation(
    columns: Sequence[ColumnDescription],
    *,
    key: Sequence[str] = (),
    identity: str = "d",
    table: TableName = TableName("public", "things"),  # noqa: B008  (a constant)
) -> RelationDescription:
    """A described relation; ``key`` is the primary key, or with identity i the index's columns."""
    flagged = [replace(c, identity=identity == "f" or (identity in "dic" and c.name in key)) for c in columns]
    described = describe(16400, table, identity, flagged)
    return replace(described, primary_key=() if identity == "i" else tuple(key))


@dataclass
class SourceTable:
    """The model: rows by key, or for a bag a count of rows; and the changes that the server would have sent."""

    relation: RelationDescription
    key: tuple[str, ...]
    lsn: int = 1000
    seq: int = 0
    rows: dict[Row, Row] = field(default_factory=dict)
    bag: Counter[Row] = field(default_factory=Counter)
    toasted: frozenset[str] = frozenset()
    """Columns whose values are stored out of line when they start with ``T``."""
    sent: list[tuple[Any, ...]] = field(default_factory=list)

    def key_of(self, row: Row) -> Row:
        return tuple(row[self.relation.position(name)] for name in self.key)  # type: ignore[index]  # a key column

    def commit(self) -> None:
        self.lsn += random.Random(self.lsn).randint(1, 400)
        self.seq = 0

    def insert(self, row: Row) -> None:
        if self.key:
            assert self.key_of(row) not in self.rows
            self.rows[self.key_of(row)] = row
        else:
            self.bag[row] += 1
        self._send("c", None, row, ())

    def update(self, old: Row, new: Row) -> None:
        if self.key:
            assert self.rows.pop(self.key_of(old)) == old
            assert self.key_of(new) not in self.rows
            self.rows[self.key_of(new)] = new
        else:
            self._take(old)
            self.bag[new] += 1
        unchanged = tuple(
            name
            for name, before, after in zip(self.relation.column_names, old, new, strict=True)
            if before == after and self._may_leave_out(name, before)
        )
        moved = self.key_of(old) != self.key_of(new)
        self._send("u", old if moved or self.relation.replica_identity == "f" else None, new, unchanged)

    def _may_leave_out(self, name: str, value: str | None) -> bool:
        if self.relation.replica_identity == "c":  # YugabyteDB's CHANGE: a new row has changed columns alone
            return name not in self.key
        return name in self.toasted and value is not None and value.startswith("T")

    def delete(self, old: Row) -> None:
        if self.key:
            assert self.rows.pop(self.key_of(old)) == old
        else:
            self._take(old)
        self._send("d", old, None, ())

    def truncate(self) -> None:
        self.rows.clear()
        self.bag.clear()
        self._send("t", None, None, ())

    def epoch(self, spark: SparkSession, number: int, base_version: int | None) -> TableEpoch:
        """All changes sent since the last call, shuffled: an epoch's changes come in no order."""
        sent, self.sent = self.sent, []
        random.Random(number).shuffle(sent)
        return epoch_of(spark, sent, (self.relation,), number=number, base_version=base_version)

    def _take(self, row: Row) -> None:
        assert self.bag[row] > 0
        self.bag[row] -= 1
        self.bag += Counter()

    def _send(self, op: str, before: Row | None, after: Row | None, unchanged: tuple[str, ...]) -> None:
        full = self.relation.replica_identity == "f"
        old = before
        if before is not None and not full:
            sent = self.relation.identity_columns
            old = tuple(v if n in sent else None for n, v in zip(self.relation.column_names, before, strict=True))
        new = after
        if after is not None:
            new = tuple(None if n in unchanged else v for n, v in zip(self.relation.column_names, after, strict=True))
        kind = None if before is None else "O" if full else "K"
        self.sent.append(
            change(op, self.lsn, self.seq, self.relation, before=old, before_kind=kind, after=new, unchanged=unchanged)
        )
        self.seq += 1


def change(
    op: str,
    commit_lsn: int,
    seq: int,
    described: RelationDescription,
    *,
    before: Row | None = None,
    before_kind: str | None = None,
    after: Row | None = None,
    unchanged: Sequence[str] = (),
    xid: int | None = None,
    superseded: bool = False,
) -> tuple[Any, ...]:
    """One resolved change, in the order of CHANGE_SCHEMA. Its own LSN is made to mislead whoever orders by it."""
    return (
        op, commit_lsn, seq, 10_000_000 - commit_lsn - seq, xid or commit_lsn, None, None, described.version,
        before_kind, None if before is None else pack_row(before), None if after is None else pack_row(after),
        list(unchanged) or None, None, None, superseded,
    )  # fmt: skip


def epoch_of(
    spark: SparkSession,
    changes: Sequence[tuple[Any, ...]],
    relations: Sequence[RelationDescription],
    *,
    number: int = 1,
    base_version: int | None = None,
) -> TableEpoch:
    """An epoch of these changes."""
    return TableEpoch(
        epoch=EpochRange(number, number - 1, number, Lsn(max((row[1] for row in changes), default=0) + 1)),
        table=relations[-1].name,
        changes=spark.createDataFrame(list(changes), CHANGE_SCHEMA),
        relations=tuple(relations),
        base_version=base_version,
    )
