"""A model of PostgreSQL as far as the placing of chunk rows goes: what is written, what is visible, and what is read.

A commit is written into the WAL at one moment and becomes visible at a later one; until then its row locks are held.
So on one key commits become visible in the order in which they were written, and across keys they do not.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from walhouse.lsn import Lsn
from walhouse.postgres.visibility import SeenBefore, Visibility

if TYPE_CHECKING:
    from random import Random

FIRST_LSN = 100

UNSENT = -1
"""A long value that an update did not change and did not send."""


class Value(NamedTuple):
    """A row without its key: a short column, and a long one that updates may leave out."""

    short: int
    long: int


class Change(NamedTuple):
    """One change; ``old`` is another key than ``key`` only where the key changed. ``new`` None: a delete."""

    old: str | None
    key: str
    new: Value | None

    @property
    def op(self) -> str:
        return "d" if self.new is None else "c" if self.old is None else "u"


class Commit(NamedTuple):
    lsn: int
    xid: int
    changes: tuple[Change, ...]


@dataclass(slots=True)
class Chunk:
    """Rows of some keys as one snapshot saw them; ``lsn`` is read some time after it was taken."""

    visibility: Visibility | SeenBefore
    rows: dict[str, Value]
    keys: frozenset[str]
    lsn: int = -1

    def may_miss(self, commit: Commit) -> bool:
        """Whether the snapshot may not have seen a commit."""
        if isinstance(self.visibility, SeenBefore):
            return commit.lsn >= self.visibility.lsn
        return not self.visibility.sees(commit.xid)


@dataclass(slots=True)
class _Transaction:
    xid: int
    changes: list[Change]
    locked: set[str]


@dataclass(slots=True)
class World:
    """Runs at random. ``wal``: the commits in their order; ``chunks``: those that were read, in their order."""

    chance: Random
    keys: tuple[str, ...]
    visible: dict[str, Value] = field(default_factory=dict)
    wal: list[Commit] = field(default_factory=list)
    chunks: list[Chunk] = field(default_factory=list)
    first: dict[str, Value] = field(default_factory=dict)
    lsn: int = FIRST_LSN
    _next_xid: int = 10
    _next_value: int = 0
    _running: list[_Transaction] = field(default_factory=list)
    _written: list[_Transaction] = field(default_factory=list)
    _reading: list[Chunk] = field(default_factory=list)

    def run(self, steps: int) -> None:
        """Some steps; then every key is read once more, and everything ends."""
        for key in self.keys:
            if self.chance.random() < 0.6:
                self.visible[key] = self._value()
        self.first = dict(self.visible)
        moves = (self._begin, self._begin, self._write, self._write, self._show, self._show, self._roll_back)
        for _ in range(steps):
            self.chance.choice((*moves, self._read, self._place))()
        self._read(frozenset(self.keys))
        while self._running or self._written or self._reading:
            self.chance.choice((self._write, self._show, self._place))()

    def at(self, lsn: int) -> dict[str, Value]:
        """The table after all commits before an LSN."""
        rows = dict(self.first)
        for commit in self.wal:
            if commit.lsn < lsn:
                for change in commit.changes:
                    apply(rows, change)
        return rows

    def is_doubtful(self, lsn: int) -> bool:
        """Whether some chunk's snapshot may have seen a commit from there on and stands further: no epoch ends here."""
        return any(
            isinstance(each.visibility, SeenBefore) and each.visibility.lsn < lsn < each.lsn for each in self.chunks
        )

    def _value(self) -> Value:
        self._next_value += 1
        return Value(self._next_value, self._next_value)

    def _begin(self) -> None:
        locked = {key for each in (*self._running, *self._written) for key in each.locked}
        free = [key for key in self.keys if key not in locked]
        if not free:
            return
        mine = set(self.chance.sample(free, min(len(free), self.chance.choice((1, 1, 2)))))
        transaction = _Transaction(self._next_xid, [], mine)
        self._next_xid += 1
        rows = {key: self.visible[key] for key in mine if key in self.visible}
        for _ in range(self.chance.choice((1, 1, 2, 3))):
            change = self._change(sorted(mine), rows)
            apply(rows, change)
            transaction.changes.append(change)
        self._running.append(transaction)

    def _change(self, mine: list[str], rows: dict[str, Value]) -> Change:
        key = self.chance.choice(mine)
        if key not in rows:
            return Change(None, key, self._value())
        empty = [other for other in mine if other not in rows]
        kind = self.chance.choice(("delete", "change", "keep", "keep", "move"))
        if kind == "delete":
            return Change(key, key, None)
        value = self._value() if kind == "change" else Value(self._value().short, UNSENT)
        return Change(key, self.chance.choice(empty) if kind == "move" and empty else key, value)

    def _write(self) -> None:
        if self._running:
            transaction = self._running.pop(self.chance.randrange(len(self._running)))
            self.lsn += self.chance.randint(1, 3)
            self.wal.append(Commit(self.lsn, transaction.xid, tuple(transaction.changes)))
            self.lsn += 1
            self._written.append(transaction)

    def _show(self) -> None:
        if self._written:
            transaction = self._written.pop(self.chance.randrange(len(self._written)))
            for change in transaction.changes:
                apply(self.visible, change)

    def _roll_back(self) -> None:
        if self._running:
            self._running.pop(self.chance.randrange(len(self._running)))

    def _read(self, keys: frozenset[str] | None = None) -> None:
        wanted = keys or frozenset(self.chance.sample(self.keys, self.chance.randint(1, len(self.keys))))
        active = frozenset(each.xid for each in (*self._running, *self._written))
        seen = Visibility(min(active, default=self._next_xid), self._next_xid, active)
        self._reading.append(Chunk(seen, {key: self.visible[key] for key in wanted if key in self.visible}, wanted))

    def _place(self) -> None:
        if self._reading:
            chunk = self._reading.pop(0)
            chunk.lsn = self.lsn
            self.chunks.append(chunk)


class StandbyWorld(World):
    """The same on a standby: commits become visible in the order of the WAL, and no snapshot tells what it has seen.

    What is known is a position that was replayed before it was taken, and one that nothing that it has seen is beyond.
    """

    def _show(self) -> None:
        if self._written:
            for change in self._written.pop(0).changes:
                apply(self.visible, change)

    def _read(self, keys: frozenset[str] | None = None) -> None:
        super()._read(keys)
        replayed = len(self.wal) - len(self._written)
        ends = [FIRST_LSN, *(commit.lsn + 1 for commit in self.wal[:replayed])]
        self._reading[-1].visibility = SeenBefore(Lsn(self.chance.choice(ends[-3:])))


def apply(rows: dict[str, Value], change: Change) -> None:
    """Do a change to rows; an unsent value is that of the row."""
    row = rows.pop(change.old, None) if change.old is not None else None
    if change.new is not None:
        long = change.new.long if change.new.long != UNSENT else UNSENT if row is None else row.long
        rows[change.key] = Value(change.new.short, long)
