"""Rows of bronze as a record batch.

Invariant: every batch has exactly the schema ``row.ROW``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from walhouse.pgoutput.changes import FULL, KEY, ChangeImages
from walhouse.pgoutput.messages import DELETE, INSERT, MESSAGE, TRUNCATE, UPDATE, LogicalMessage
from walhouse.pgoutput.row import MICROS, ROW, TEXTS, BeforeKind, Kind, Op, batch
from walhouse.pgoutput.rows import DESCRIPTION, NONE, Rows
from walhouse.pgoutput.transactions import NEVER

if TYPE_CHECKING:
    from collections.abc import Mapping

    from walhouse.pgoutput.frames import Frames
    from walhouse.pgoutput.relations import RelationList
    from walhouse.pgoutput.transactions import Transactions
    from walhouse.pgoutput.wire import Bools, Int64s

_KINDS: Final = (Kind.CHANGE, Kind.MESSAGE, Kind.RELATION, Kind.TRANSACTION)
_OPS: Final = {INSERT: Op.CREATE, UPDATE: Op.UPDATE, DELETE: Op.DELETE, TRUNCATE: Op.TRUNCATE, MESSAGE: Op.MESSAGE}
_BEFORE_KINDS: Final = {KEY: BeforeKind.KEY, FULL: BeforeKind.FULL}


@dataclass(frozen=True, slots=True)
class Batch:
    """All that the rows of one piece of the stream refer to."""

    frames: Frames
    transactions: Transactions
    relations: RelationList
    messages: Mapping[int, LogicalMessage]
    """By frame."""
    pass_number: int
    captured_at: int
    slot_xmin: int | None

    def to_arrow(self, rows: Rows, places: Int64s, images: ChangeImages) -> pa.RecordBatch:
        """The record batch; change ``i`` of ``images`` is row ``places[i]``."""
        count = len(rows)
        before_kind = np.zeros(count, np.int64)
        before_kind[places] = images.before_kind
        columns: dict[str, pa.Array | None] = {
            "pass": _constant(self.pass_number, count),
            "captured_at": _constant(self.captured_at, count).view(MICROS),
            "kind": pc.take(pa.array(_KINDS, pa.string()), pa.array(rows.kind)),
            "op": _coded(_OPS, rows.type),
            **self._position(rows),
            "slot_xmin": None if self.slot_xmin is None else _constant(self.slot_xmin, count),
            **self._relation(rows),
            "before_kind": _coded(_BEFORE_KINDS, before_kind),
            "before": images.before.spread(places, count),
            "after": images.after.spread(places, count),
            "unchanged": images.unchanged.spread(places, count, TEXTS),
            "message": self._messages(rows),
            "origin": self._origins(rows),
        }
        return batch(count, columns)

    def _position(self, rows: Rows) -> dict[str, pa.Array]:
        transaction = self.transactions.of_frame[rows.frame]
        commit_lsn, alone = self.transactions.commit_lsn[transaction], rows.alone
        commit_lsn[alone] = [self.messages[frame].lsn for frame in rows.message[alone].tolist()]
        return {
            "commit_lsn": pa.array(commit_lsn),
            "seq": pa.array(rows.seq),
            "lsn": _nullable(self.frames.lsn[rows.frame], rows.kind == DESCRIPTION),
            "xid": _nullable(self.transactions.xid[transaction], alone),
            "commit_ts": _known(self.transactions.commit_ts[transaction], NEVER).view(MICROS),
            "previous_end": _known(self.transactions.previous_end[rows.frame], 0),
        }

    def _relation(self, rows: Rows) -> dict[str, pa.Array]:
        index = _nullable(rows.relation, rows.relation == NONE)
        schemas, tables = self.relations.table_names
        columns = {
            "schema_name": pc.take(schemas, index),
            "table_name": pc.take(tables, index),
            "relation_version": pc.take(pa.array(self.relations.versions), index),
        }
        described = rows.kind == DESCRIPTION
        if described.any():
            found = [self.relations.descriptions[index] for index in rows.relation[described]]
            texts = pa.array([relation.to_json() for relation in found if relation is not None], pa.string())
            columns["relation"] = pc.take(texts, _nullable(np.cumsum(described) - 1, ~described))
        return columns

    def _messages(self, rows: Rows) -> pa.Array | None:
        shown = rows.message != NONE
        if not shown.any():
            return None
        messages = [self.messages[frame] for frame in rows.message[shown].tolist()]
        structs = [
            {"prefix": message.prefix, "content": message.content, "transactional": message.transactional}
            for message in messages
        ]
        column = pa.array(structs, ROW.field("message").type)
        return pc.take(column, _nullable(np.cumsum(shown) - 1, ~shown))

    def _origins(self, rows: Rows) -> pa.Array | None:
        origins = self.transactions.origins
        if not any(origins):
            return None
        structs = [origin and {"name": origin.name, "lsn": origin.lsn} for origin in origins]
        column = pa.array(structs, ROW.field("origin").type)
        return pc.take(column, _nullable(self.transactions.of_frame[rows.frame], rows.alone))


def _constant(value: int, count: int) -> pa.Array:
    return pa.array(np.full(count, value, np.int64))


def _nullable(values: Int64s, missing: Bools) -> pa.Array:
    return pa.array(values, mask=missing if missing.any() else None)


def _known(values: Int64s, unknown: int) -> pa.Array:
    return _nullable(values, values == unknown)


def _coded(names: Mapping[int, str], codes: Int64s) -> pa.Array:
    """The name of each code, null for 0."""
    index_of = np.zeros(256, np.int64)
    index_of[list(names)] = np.arange(len(names))
    return pc.take(pa.array(list(names.values()), pa.string()), _nullable(index_of[codes], codes == 0))
