"""Which tables are still to be read, by chunks or whole, and how far each is.

Invariant: the queue is part of the progress row that is written in the same Delta commit as the chunks that it counts,
so a chunk that is in bronze is never read again, and one that is not is.
Source: Debezium 3.6, PostgreSQL connector, "Incremental snapshots"; the order of its tables is that of the requests.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Self

from walhouse.bronze.snapshots.reading import WholeReading
from walhouse.names import TableName

if TYPE_CHECKING:
    from collections.abc import Iterable

    from walhouse.changes.facts import Place

ADDED: Final = "added"
"""How the request begins, before the table's OID, that reads a table of which bronze lacks rows."""

REPAIR: Final = "repair"
"""How the request is called that reads rows again which lack a value."""


@dataclass(frozen=True, slots=True)
class QueuedTable:
    """One table of a request. Keys are rows' values: they are in bronze, and never in a message or log."""

    request: str
    """The id of the signal that asked for it."""
    table: TableName
    condition: str | None = field(default=None, repr=False)
    """SQL that its rows must fulfil; it may name values."""
    key: tuple[str, ...] | None = None
    """The columns to read by, if not the rows' own key."""
    after: tuple[str, ...] | None = field(default=None, repr=False)
    """The last key that was read; None: nothing yet."""
    upto: tuple[str, ...] | None = field(default=None, repr=False)
    """The largest key when it began: what is inserted beyond is left to the stream. None: not begun."""
    chunks: int = 0
    first_chunk: int | None = None
    """Number of its first chunk; None: not begun. Other tables may be read whole between two of its chunks."""
    repairs: int = 0
    """How many times all of its incomplete rows were read again before."""
    tried: Place | None = None
    """Up to which place, a commit LSN and a seq, its incomplete rows were read again this time."""
    not_before: int | None = None
    """A transaction id: it may be read once all before it have ended. Earlier ones wrote rows that were not sent."""
    began: float | None = None
    """When its reading began, in seconds since 1970."""
    order: str | None = field(default=None, repr=False)
    """What ``after`` and ``upto`` are places in: ``KeyedTable.order`` of when it began."""
    own: bool = False
    """Whether nobody asked for it, and nobody will again if it fails."""
    owed: int | None = None
    """The table's OID, if bronze lacks rows of it until it is read."""

    def in_order(self, order: str) -> Self:
        """To be read in this order: from the beginning, if it began in another."""
        if self.order == order:
            return self
        return replace(self, order=order, after=None, upto=None, chunks=0, first_chunk=None, began=None)

    def waits(self, oldest: int) -> bool:
        """Whether it may not be read yet, all transactions before ``oldest`` having ended."""
        return self.not_before is not None and self.not_before > oldest

    def serves(self, other: QueuedTable) -> bool:
        """Whether its reading has what the other's would have: what was read before may have changed without a word."""
        same = (self.table, self.condition, self.key) == (other.table, other.condition, other.key)
        return same and self.began is None and (self.not_before or 0) >= (other.not_before or 0)


@dataclass(frozen=True, slots=True)
class SnapshotQueue:
    """The tables in their order; the first is read."""

    tables: tuple[QueuedTable, ...] = ()
    paused: bool = False
    next_chunk: int = 0
    """Number of the next chunk, of whatever table: the identity of its rows."""
    finished: tuple[QueuedTable, ...] = ()
    """Tables that were read, or got rows without all of their values, and whose rows in gold are still to be looked at
    for values that nobody sent."""
    whole: tuple[WholeReading, ...] = ()
    """Tables to be read whole, before any chunk; the first reading is the one at work."""

    @property
    def head(self) -> QueuedTable | None:
        """The table that is to be read now; None if there is none or the snapshots are paused."""
        return self.tables[0] if self.tables and not self.paused else None

    def add(self, tables: Iterable[QueuedTable]) -> Self:
        """With more tables at the end. One that waits already, with the same condition, is not added, unless it is to
        wait longer: for transactions that wrote what it may not see by then."""
        new = [each for each in tables if not any(known.serves(each) for known in self.tables)]
        return replace(self, tables=(*self.tables, *new))

    @property
    def waits_for_transactions(self) -> bool:
        """Whether a table waits for transactions that ran when it was added."""
        return any(each.not_before is not None for each in self.tables)

    def waiting_last(self, oldest: int) -> Self:
        """With those that wait while ``oldest`` runs behind the others."""
        return replace(self, tables=tuple(sorted(self.tables, key=lambda each: each.waits(oldest))))

    def without(self, tables: Iterable[TableName], *, own: bool = True) -> Self:
        """Without these tables; ``own``: also what nobody asked for of them."""
        gone = frozenset(tables)
        left = (each for each in self.tables if each.table not in gone or (each.own and not own))
        return replace(self, tables=tuple(left))

    def after_head(self) -> Self:
        """Without the table that is first."""
        return replace(self, tables=self.tables[1:])

    def after_finished_head(self) -> Self:
        """The same, the table having been read to its end."""
        return self.after_head().with_finished([replace(self.tables[0], after=None, upto=None)])

    def with_head(self, head: QueuedTable, *, chunks: int = 0) -> Self:
        """With another state of the first table, ``chunks`` of which were read."""
        return replace(self, tables=(head, *self.tables[1:]), next_chunk=self.next_chunk + chunks)

    def has_none_of(self, request: str) -> bool:
        """Whether no table of the request waits to be read by chunks."""
        return all(each.request != request for each in self.tables)

    def with_reading(self, reading: WholeReading) -> Self:
        """With another state of the reading at work; without it if nothing of it is left."""
        left = (reading,) if reading.tables else ()
        return replace(self, whole=(*left, *self.whole[1:]))

    def with_finished(self, tables: Iterable[QueuedTable]) -> Self:
        """With tables that gold is to be looked at for."""
        new = {each.table: each for each in tables}
        return replace(self, finished=(*(each for each in self.finished if each.table not in new), *new.values()))

    def to_dict(self) -> dict[str, Any]:
        """What the progress row keeps."""
        return asdict(self)

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> Self:
        """Read what ``to_dict`` gave, by way of JSON."""
        lists = {name: tuple(_table(each) for each in raw[name]) for name in ("tables", "finished")}
        return cls(**{**raw, **lists, "whole": tuple(map(WholeReading.from_dict, raw["whole"]))})


NOTHING_QUEUED = SnapshotQueue()


def _table(raw: dict[str, Any]) -> QueuedTable:
    lists = {name: None if raw.get(name) is None else tuple(raw[name]) for name in ("key", "after", "upto", "tried")}
    return QueuedTable(**{**raw, **lists, "table": TableName(*raw["table"])})
