"""Frames that a real server sent (PostgreSQL 18.6, ``fixtures/record_frames.py``) mean what its statements did."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from tests.pgoutput.decoding import Selection, plan, rows_of
from tests.pgoutput.encoder import HEADER
from walhouse.lsn import Lsn
from walhouse.names import TableName
from walhouse.pgoutput.blocks import Blocks
from walhouse.pgoutput.decoder import DecodedCounts, Decoder
from walhouse.pgoutput.frames import frames_from_copy

FRAMES = Path(__file__).parents[2] / "fixtures" / "frames"
LONG = "long " * 1000
QUOTED = 'Größe "x", y'


def blocks(name: str) -> list[bytes]:
    """The rows of a recorded COPY, one block each, as libpq would hand them out."""
    data = (FRAMES / f"{name}.bin").read_bytes()
    found, at = [], len(HEADER)
    while data[at : at + 2] != b"\xff\xff":
        start, at = at, at + 2
        for _ in range(3):
            at += 4 + int(struct.unpack_from(">i", data, at)[0])
        found.append(data[start:at])
    assert data[at:] == b"\xff\xff"
    return [data[: len(HEADER)] + found[0], *found[1:], data[at:]]


def decoded(
    name: str, selection: Selection | None = None, size: int = 10_000
) -> tuple[list[dict[str, Any]], DecodedCounts]:
    """Rows of a recording that is read in runs of ``size`` blocks."""
    decoder = Decoder(plan(next_xid=10_000), selection or Selection())
    all_blocks = blocks(name)
    rows: list[dict[str, Any]] = []
    for start in range(0, len(all_blocks), size):
        for batch in decoder.decode(frames_from_copy(Blocks.of(all_blocks[start : start + size]))):
            rows += rows_of(batch)
    return rows, decoder.finish()


def changes(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    names = ("op", "table_name", "seq", "before_kind", "before", "after", "unchanged")
    return [tuple(row.get(name) for name in names) for row in rows if row["kind"] == "change"]


CHANGES = [
    ("c", "customer", 0, None, None, ["1", "Zoë", LONG, "happy"], None),
    ("c", "customer", 1, None, None, ["2", "", None, None], None),
    ("u", "customer", 0, None, None, ["1", "Zoé", None, "happy"], ["note"]),
    ("u", "customer", 0, "K", ["1", None, None, None], ["3", "Zoé", None, "happy"], ["note"]),
    ("d", "customer", 0, "K", ["2", None, None, None], None, None),
    ("c", "everything", 0, None, None, ["1", "x"], None),
    ("c", "everything", 1, None, None, ["1", "x"], None),
    ("u", "everything", 0, "O", ["1", "x"], ["1", None], None),
    ("d", "everything", 0, "O", ["1", None], None, None),
    ("c", QUOTED, 0, None, None, ["1", "1.50", "10"], None),
    ("u", QUOTED, 0, "K", [None, None, "10"], ["1", "1.50", "11"], None),
    ("c", "measured", 0, None, None, ["2024-05-01", "0.1"], None),
    ("c", "measured", 1, None, None, ["2025-05-01", "NaN"], None),
    ("d", "measured", 0, "K", ["2024-05-01", None], None, None),
    ("c", "measured", 1, None, None, ["2025-06-01", "0.1"], None),
]


@pytest.mark.parametrize("size", [10_000, 7, 1])
def test_every_kind_of_change_is_what_its_statement_did(size: int) -> None:
    rows, counts = decoded("changes", size=size)
    assert changes(rows) == CHANGES
    assert (counts.transactions, counts.changes, counts.relations) == (11, 15, 4)
    positions = [(row["commit_lsn"], row["seq"]) for row in rows if row["kind"] == "change"]
    assert positions == sorted(set(positions))
    assert counts.last_commit_lsn == positions[-1][0]
    assert all(row["lsn"] < row["commit_lsn"] for row in rows if row["kind"] == "change")


def test_descriptions_hold_names_types_and_identity_and_leaves_of_a_partitioned_table_have_none() -> None:
    rows, _ = decoded("changes")
    described = {row["table_name"]: json.loads(row["relation"]) for row in rows if row["kind"] == "relation"}
    assert {name: relation["replica_identity"] for name, relation in described.items()} == {
        "customer": "d",
        "everything": "f",
        QUOTED: "i",
        "measured": "d",
    }
    facts = ("name", "type_oid", "typmod", "identity")
    assert [tuple(column[fact] for fact in facts) for column in described[QUOTED]["columns"]] == [
        ("Id", 23, -1, False),
        ("a b", 1700, (10 << 16 | 2) + 4, False),
        ("c", 23, -1, True),
    ]


def test_columns_left_out_do_not_land_but_those_of_the_identity_do() -> None:
    name = TableName("recorded", "customer")
    selection = Selection(dropped={name: frozenset({"id", "name", "note"})})
    rows, _ = decoded("changes", selection)
    assert [(row.get("before"), row.get("after")) for row in rows if row.get("table_name") == "customer"][1:] == [
        (None, ["1", "happy"]),
        (None, ["2", None]),
        (None, ["1", "happy"]),
        (["1", None], ["3", "happy"]),
        (["2", None], None),
    ]
    assert "Zo" not in str(rows)
    assert not any("unchanged" in row for row in rows)


@pytest.mark.parametrize("size", [10_000, 5, 1])
def test_transactions_come_in_the_order_of_their_commits_whatever_the_order_of_their_writes(size: int) -> None:
    rows, counts = decoded("transactions", size=size)
    assert changes(rows) == [
        ("c", "everything", 0, None, None, ["2", "first to commit"], None),
        ("c", "everything", 0, None, None, ["1", "first to write"], None),
        ("c", "everything", 1, None, None, ["4", "wider", "5"], None),
        ("t", "customer", 0, None, None, None, None),
        ("t", "everything", 1, None, None, None, None),
        ("t", "measured", 2, None, None, None, None),
        ("c", "everything", 0, None, None, ["8", "from elsewhere", "9"], None),
        ("c", "everything", 0, None, None, ["10", "from here", "11"], None),
    ]
    assert (counts.transactions, counts.messages) == (5, 2)
    first, second = (row for row in rows if row.get("after", [""])[0] in ("1", "2"))
    assert first["commit_lsn"] < second["commit_lsn"]
    assert first["lsn"] > second["lsn"]
    assert first["xid"] > second["xid"]


def test_a_table_altered_within_a_transaction_has_a_version_before_and_one_after() -> None:
    rows, _ = decoded("transactions")
    versions = {
        row["after"][0]: row["relation_version"] for row in rows if row["kind"] == "change" and row.get("after")
    }
    assert versions["1"] == versions["2"] != versions["4"] == versions["8"] == versions["10"]
    described = [row["relation_version"] for row in rows if row["kind"] == "relation"]
    assert len(described) == len(set(described)) == 4


def test_messages_are_of_their_transaction_or_stand_alone_at_their_own_lsn() -> None:
    rows, _ = decoded("transactions")
    alone, inside = (row for row in rows if row["kind"] == "message")
    assert alone["message"] == {"prefix": "heartbeat", "content": b"\x00\xff", "transactional": False}
    assert (alone["seq"], alone["commit_lsn"]) == (-1, alone["lsn"])
    assert not {"xid", "relation_version"} & set(alone)
    assert alone["previous_end"] == alone["lsn"], "what belongs to no transaction ends where it is"
    assert inside["message"] == {"prefix": "outbox", "content": b"with the transaction", "transactional": True}
    assert inside["seq"] == 1
    assert inside["xid"] == next(row["xid"] for row in rows if row.get("after") == ["2", "first to commit"])


def test_an_origin_is_that_of_its_transaction_alone() -> None:
    rows, _ = decoded("transactions")
    origins = {row["after"][0]: row.get("origin") for row in rows if row.get("after")}
    assert origins == {
        "1": None,
        "2": None,
        "4": None,
        "8": {"name": "upstream", "lsn": Lsn.parse("0/AFFE")},
        "10": None,
    }
