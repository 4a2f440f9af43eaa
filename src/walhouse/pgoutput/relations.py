"""The relations that the stream has described so far.

Invariant: a change is read with the latest Relation message before it; a change of a relation that was never described
is an error.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from walhouse.errors import UnknownRelationError
from walhouse.lsn import Lsn
from walhouse.pgoutput.relation import RelationDescription, describe, with_catalog
from walhouse.pgoutput.selection import TableSelection, kept_positions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from walhouse.pgoutput.messages import RelationMessage
    from walhouse.pgoutput.type_facts import TypeFacts
    from walhouse.pgoutput.wire import Bools, Int64s


@dataclass(frozen=True)
class RelationList:
    """Every description so far, in the order of arrival, as arrays by its index. None: the table is not captured."""

    descriptions: tuple[RelationDescription | None, ...]
    widths: Int64s
    """The number of columns in the messages' tuples."""
    oids: Int64s

    @cached_property
    def captured(self) -> Bools:
        """Whether the table is captured."""
        return np.array([found is not None for found in self.descriptions], np.bool_)

    @cached_property
    def whole(self) -> Bools:
        """Whether all columns are kept, in the order of the message."""
        return np.array(
            [
                found is not None and found.positions == tuple(range(width))
                for found, width in zip(self.descriptions, self.widths, strict=True)
            ],
            np.bool_,
        )

    @cached_property
    def versions(self) -> Int64s:
        """The relation version; 0 where the table is not captured."""
        return np.array([found.version if found else 0 for found in self.descriptions], np.int64)

    @cached_property
    def column_names(self) -> tuple[pa.StringArray, Int64s]:
        """The kept columns' names of all descriptions, end to end, and where those of each begin."""
        names = [found.column_names if found else () for found in self.descriptions]
        first = np.concatenate([np.zeros(1, np.int64), np.cumsum([len(some) for some in names], dtype=np.int64)])
        return pa.array([name for some in names for name in some], pa.string()), first

    @cached_property
    def table_names(self) -> tuple[pa.StringArray, pa.StringArray]:
        """The schema and the table of each description, null where the table is not captured."""
        schemas = [found.schema if found else None for found in self.descriptions]
        tables = [found.table if found else None for found in self.descriptions]
        return pa.array(schemas, pa.string()), pa.array(tables, pa.string())

    def positions(self, index: int) -> tuple[int, ...]:
        """The kept positions of one description."""
        found = self.descriptions[index]
        return found.positions if found else ()


class RelationBook:
    """Relation messages as they come, and the description that holds for an oid now."""

    def __init__(
        self, selection: TableSelection, catalog: Mapping[int, RelationDescription], types: Mapping[int, TypeFacts]
    ) -> None:
        self._selection = selection
        self._catalog = catalog
        self._types = types
        self._index_of: dict[RelationMessage, int] = {}
        self._descriptions: list[RelationDescription | None] = []
        self._list = RelationList((), np.zeros(0, np.int64), np.zeros(0, np.int64))
        self._widths: list[int] = []
        self._described_oids: list[int] = []
        self._oids = np.zeros(0, np.int64)
        self._indexes = np.zeros(0, np.int64)

    @property
    def relations(self) -> RelationList:
        """All descriptions so far."""
        if len(self._list.descriptions) != len(self._descriptions):
            widths, oids = np.array(self._widths, np.int64), np.array(self._described_oids, np.int64)
            self._list = RelationList(tuple(self._descriptions), widths, oids)
        return self._list

    def add(self, message: RelationMessage) -> None:
        """From here on, changes of this oid are read with this message."""
        if message not in self._index_of:
            self._index_of[message] = len(self._descriptions)
            self._descriptions.append(self._describe(message))
            self._widths.append(len(message.columns))
            self._described_oids.append(message.oid)
        index = self._index_of[message]
        where = int(np.searchsorted(self._oids, message.oid))
        if where < len(self._oids) and self._oids[where] == message.oid:
            self._indexes[where] = index
        else:
            self._oids = np.insert(self._oids, where, message.oid)
            self._indexes = np.insert(self._indexes, where, index)

    def find(self, oids: Int64s, lsns: Int64s) -> Int64s:
        """The index of the description that holds for each oid now; ``lsns`` of the changes are for the error."""
        if not len(oids):
            return oids
        where = np.searchsorted(self._oids, oids)
        found = self._oids.take(where, mode="clip") == oids if len(self._oids) else np.zeros(len(oids), np.bool_)
        if not found.all():
            change = int(np.argmin(found))
            raise UnknownRelationError(
                f"A change is for the relation {oids[change]}, which was not described before it.",
                oid=int(oids[change]),
                lsn=Lsn(lsns[change]),
            )
        return self._indexes[where]

    def _describe(self, message: RelationMessage) -> RelationDescription | None:
        if not self._selection.captures(message.name):
            return None
        catalog = self._catalog.get(message.oid)
        kept = kept_positions(
            self._selection,
            message.name,
            message.replica_identity,
            message.columns,
            catalog.own_key if catalog else (),
        )
        described = describe(message.oid, message.name, message.replica_identity, message.columns, kept)
        return with_catalog(described, catalog, self._types)
