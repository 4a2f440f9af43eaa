"""Random streams of pgoutput messages, with the rows that they mean, worked out change by change in plain Python."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from hypothesis import strategies as st

from tests.pgoutput import encoder
from tests.pgoutput.decoding import CAPTURED_AT, PASS, Selection
from tests.pgoutput.encoder import UNCHANGED, Frame, Value
from walhouse.names import TableName
from walhouse.pgoutput.column import ColumnDescription
from walhouse.pgoutput.relation import RelationDescription, describe

if TYPE_CHECKING:
    from walhouse.lsn import LsnRange

EPOCH = 5 * 2**32
"""The 64-bit xid of a transaction is this and its 32 bits: the plans' next xid is a little greater."""

TEXT = st.one_of(
    st.sampled_from(["", "ä", "日本", "𝄞", "\\N", "__debezium_unavailable_value", "a\nb"]),
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12),
)
NAMES = st.sampled_from(["id", "Name", "größe", "a,b", "with blank", "val", "_commit_lsn"])

NO_COLUMNS: list[str | None] = [None]
"""What the image of a row without columns unpacks to."""


@dataclass(frozen=True)
class Shape:
    """A relation as one Relation message describes it."""

    oid: int
    name: TableName
    identity: str
    columns: tuple[tuple[str, int, int, bool], ...]

    def frame(self) -> bytes:
        return encoder.relation(self.oid, *self.name, self.identity, self.columns)


class Row(NamedTuple):
    op: str
    shape: Shape
    old_kind: str | None = None
    old: list[Value] | None = None
    new: list[Value] | None = None


@dataclass
class Item:
    """A frame of a transaction, and what it does: changes of rows, or a message."""

    data: bytes
    lsn: int
    rows: list[Row] = field(default_factory=list)
    message: tuple[str, bytes, bool] | None = None


@dataclass
class Stream:
    """Transactions (commit LSN, time, xid, origin, items), and items that stand before each of them and at the end."""

    transactions: list[tuple[int, int, int, tuple[str, int] | None, list[Item]]]
    between: list[list[Item]]

    def frames(self) -> list[Frame]:
        frames: list[Frame] = []
        for index, before in enumerate(self.between):
            frames += [Frame(item.data, item.lsn) for item in before]
            if index == len(self.transactions):
                continue
            commit_lsn, ts, xid, origin, items = self.transactions[index]
            frames.append(Frame(encoder.begin(commit_lsn, ts, xid), 0 if origin else 17, xid))
            if origin:
                frames.append(Frame(encoder.origin(*origin), 0, xid))
            frames += [Frame(item.data, item.lsn, xid) for item in items]
            frames.append(Frame(encoder.commit(commit_lsn, ts), commit_lsn + encoder.COMMIT_SIZE, xid))
        return frames

    def rows(self, window: LsnRange, selection: Selection, seen: frozenset[int] = frozenset()) -> list[dict[str, Any]]:
        """The rows of bronze that these frames mean."""
        model = Model(window, selection, seen)
        for index, before in enumerate(self.between):
            for item in before:
                model.alone(item)
            if index < len(self.transactions):
                model.transaction(*self.transactions[index])
        return model.rows


class Model:
    """The rules, one change at a time."""

    def __init__(self, window: LsnRange, selection: Selection, seen: frozenset[int]) -> None:
        self.window, self.selection, self.seen = window, selection, seen
        self.announced: set[int] = set()
        self.rows: list[dict[str, Any]] = []
        self.previous_end: int | None = None
        self.last_ts: int | None = None

    def transaction(
        self, commit_lsn: int, ts: int, xid: int, origin: tuple[str, int] | None, items: list[Item]
    ) -> None:
        shared: dict[str, Any] = {"commit_lsn": commit_lsn, "commit_ts": ts, "xid": EPOCH + xid}
        if origin:
            shared["origin"] = {"name": origin[0], "lsn": origin[1]}
        inside = self.window.start <= commit_lsn < self.window.end
        self.last_ts = ts
        seq = 0
        for item in items:
            if item.message and not item.message[2]:
                self.alone(item)
            elif item.message:
                if inside:
                    self.add("message", **shared, op="m", seq=seq, lsn=item.lsn, message=_struct(item.message))
                seq += 1
            shown = [
                (seq + place, row)
                for place, row in enumerate(item.rows)
                if inside and self.selection.captures(row.shape.name)
            ]
            seq += len(item.rows)
            for at, row in shown:
                self.describe(at, shared, row.shape)
            for at, row in shown:
                self.change(item.lsn, at, shared, row)
        self.previous_end = commit_lsn + encoder.COMMIT_SIZE

    def describe(self, seq: int, shared: dict[str, Any], shape: Shape) -> None:
        described = self.description(shape)
        if described.version not in self.announced:
            self.announced.add(described.version)
            self.add("relation", **shared, **_table(described, seq), relation=json.loads(described.to_json()))

    def change(self, lsn: int, seq: int, shared: dict[str, Any], change: Row) -> None:
        described = self.description(change.shape)
        kept = described.positions
        row: dict[str, Any] = {"op": change.op, "lsn": lsn}
        if change.old is not None:
            row |= {"before_kind": change.old_kind, "before": [change.old[place] for place in kept] or NO_COLUMNS}
        if change.new is not None:
            new = [change.new[place] for place in kept]
            unsent = [name for name, value in zip(described.column_names, new, strict=True) if value is UNCHANGED]
            row["after"] = [None if value is UNCHANGED else value for value in new] or NO_COLUMNS
            row |= {"unchanged": unsent} if unsent else {}
        self.add("change", **shared, **_table(described, seq), **row)

    def description(self, shape: Shape) -> RelationDescription:
        key = [name for name, _, _, is_key in shape.columns if is_key and shape.identity != "f"]
        kept = self.selection.kept_columns(shape.name, [column[0] for column in shape.columns], key)
        columns = [ColumnDescription(name, oid, mod, identity=is_key) for name, oid, mod, is_key in shape.columns]
        return describe(shape.oid, shape.name, shape.identity, columns, kept)

    def alone(self, item: Item) -> None:
        assert item.message
        self.previous_end = item.lsn
        if item.lsn >= self.window.start and item.lsn not in self.seen:
            last = {} if self.last_ts is None else {"commit_ts": self.last_ts}
            place = {"seq": -1, "commit_lsn": item.lsn, "lsn": item.lsn}
            self.add("message", op="m", message=_struct(item.message), **place, **last)

    def add(self, kind: str, **fields: Any) -> None:
        before = {} if self.previous_end is None else {"previous_end": self.previous_end}
        self.rows.append({"kind": kind, "pass": PASS, "captured_at": CAPTURED_AT, **before, **fields})


def _table(described: RelationDescription, seq: int) -> dict[str, Any]:
    return {
        "schema_name": described.schema,
        "table_name": described.table,
        "relation_version": described.version,
        "seq": seq,
    }


def _struct(message: tuple[str, bytes, bool]) -> dict[str, Any]:
    return dict(zip(("prefix", "content", "transactional"), message, strict=True))


@st.composite
def shapes(draw: st.DrawFn, number: int) -> Shape:
    """Some description of the table with this number."""
    names = draw(st.lists(NAMES, min_size=0, max_size=5, unique=True))
    identity = draw(st.sampled_from("dnfi"))
    flags = [identity == "f" or draw(st.booleans()) for _ in names]
    columns = tuple(
        (name, draw(st.sampled_from([23, 25, 1700])), draw(st.sampled_from([-1, 655366])), flag)
        for name, flag in zip(names, flags, strict=True)
    )
    return Shape(16_384 + number, TableName("öffentlich" if number else "public", f"T {number}"), identity, columns)


@st.composite
def tuples(draw: st.DrawFn, shape: Shape, *, unchanged: bool = False) -> list[Value]:
    value: st.SearchStrategy[Value] = st.one_of(TEXT, TEXT, st.none(), *([st.just(UNCHANGED)] if unchanged else []))
    return [draw(value) for _ in shape.columns]


@st.composite
def messages(draw: st.DrawFn, lsn: int, *, transactional: bool) -> Item:
    prefix, content = draw(TEXT), draw(st.binary(max_size=8))
    data = encoder.message(lsn, prefix, content, transactional=transactional)
    return Item(data, lsn, message=(prefix, content, transactional))


@st.composite
def changes(draw: st.DrawFn, lsn: int, shape: Shape) -> Item:
    kind = draw(st.sampled_from("iuukod"))
    new = draw(tuples(shape, unchanged=kind != "i"))
    if kind == "i":
        return Item(encoder.insert(shape.oid, new), lsn, [Row("c", shape, None, None, new)])
    if kind == "u":
        return Item(encoder.update(shape.oid, new), lsn, [Row("u", shape, None, None, new)])
    old = draw(tuples(shape))
    old_kind = draw(st.sampled_from("KO"))
    if kind == "d":
        return Item(encoder.delete(shape.oid, old, old_kind), lsn, [Row("d", shape, old_kind, old, None)])
    return Item(encoder.update(shape.oid, new, old, old_kind), lsn, [Row("u", shape, old_kind, old, new)])


@st.composite
def streams(draw: st.DrawFn, tables: int = 3) -> Stream:
    """Transactions over a few tables whose descriptions may change at any time, also within a transaction."""
    lsn = draw(st.integers(0, 1_000))
    known: dict[int, Shape] = {}
    transactions: list[tuple[int, int, int, tuple[str, int] | None, list[Item]]] = []
    between: list[list[Item]] = []

    def alone() -> list[Item]:
        nonlocal lsn
        lsn += 10
        return [draw(messages(lsn, transactional=False))] if draw(st.integers(0, 4)) == 0 else []

    for _ in range(draw(st.integers(0, 4))):
        between.append(alone())
        items: list[Item] = []
        for _ in range(draw(st.integers(0, 8))):
            lsn += draw(st.integers(1, 100))
            number = draw(st.integers(0, tables - 1))
            if number not in known or draw(st.integers(0, 9)) == 0:
                known[number] = draw(shapes(number))
                items.append(Item(encoder.type_(60_000, "public", "mood"), 0))
                items.append(Item(known[number].frame(), 0))
            step = draw(st.integers(0, 9))
            if step == 0:
                items.append(draw(messages(lsn, transactional=True)))
            elif step == 1:
                emptied = draw(st.lists(st.sampled_from(sorted(known)), max_size=3, unique=True))
                rows = [Row("t", known[each]) for each in emptied]
                data = encoder.truncate([known[each].oid for each in emptied], draw(st.integers(0, 3)))
                items.append(Item(data, lsn, rows))
            elif step == 2:
                items += alone()
            else:
                items.append(draw(changes(lsn, known[number])))
        lsn += 100
        origin = draw(st.none() | st.tuples(TEXT, st.integers(0, 2**40)))
        transactions.append((lsn, draw(st.integers(0, 2**52)), draw(st.integers(3, 900_000)), origin, items))
    between.append(alone())
    return Stream(transactions, between)
