"""What cannot be decoded is refused with its LSN and offset, never read wrongly and never left out."""

from __future__ import annotations

import struct
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.pgoutput import encoder
from tests.pgoutput.decoding import Selection, decode, frames_of, plan
from tests.pgoutput.encoder import UNCHANGED, Frame, text
from walhouse.errors import (
    FrameError,
    TruncatedFrameError,
    UnknownMessageError,
    UnknownRelationError,
    UnknownTupleKindError,
)
from walhouse.lsn import Lsn
from walhouse.pgoutput.decoder import Decoder

OID = 16_384
TS = 1_700_000_000_000_000
BEGIN = encoder.begin(1_000, TS, 7)
COMMIT = encoder.commit(1_000, TS)
RELATION = encoder.relation(OID, "public", "tä", "d", [("id", 23, -1, True), ("v", 25, -1, False)])
VALID = [
    BEGIN,
    encoder.origin("upstream", 5),
    encoder.type_(60_000, "public", "mood"),
    RELATION,
    encoder.insert(OID, ["1", "größe"]),
    encoder.update(OID, ["1", UNCHANGED]),
    encoder.update(OID, ["2", "b"], ["1", None]),
    encoder.delete(OID, ["2", "b"], "O"),
    encoder.truncate([OID, OID], 3),
    encoder.message(60, "prefix", b"content", transactional=True),
    encoder.message(70, "prefix", b"content", transactional=False),
    COMMIT,
]
NAMES = [
    "begin",
    "origin",
    "type",
    "relation",
    "insert",
    "unchanged",
    "update",
    "delete",
    "truncate",
    "message",
    "alone",
    "commit",
]


def stream(*data: bytes) -> list[Frame]:
    return [Frame(each, 100 + place, 7) for place, each in enumerate(data)]


def within(*data: bytes) -> list[Frame]:
    """A transaction that describes the relation and holds these messages; the first of them has the LSN 102."""
    return stream(BEGIN, RELATION, *data, COMMIT)


def test_the_messages_that_are_damaged_below_are_valid() -> None:
    rows, counts = decode(stream(*VALID))
    assert (counts.changes, counts.messages, counts.relations, len(rows)) == (6, 2, 1, 9)


@pytest.mark.parametrize("place", range(len(VALID)), ids=NAMES)
def test_a_frame_cut_anywhere_is_truncated(place: int) -> None:
    for length in range(len(VALID[place])):
        cut_short = [*VALID[:place], VALID[place][:length]]
        for damaged in (cut_short, [*cut_short, *VALID[place + 1 :]]):  # at the buffer's end, and within it
            with pytest.raises(TruncatedFrameError) as raised:
                decode(stream(*damaged))
            assert raised.value.fields == {"lsn": Lsn(100 + place), "offset": length}


@pytest.mark.parametrize("place", range(len(VALID)), ids=NAMES)
def test_a_frame_that_goes_on_after_its_content_is_refused(place: int) -> None:
    with pytest.raises(FrameError, match="goes on") as raised:
        decode(stream(*VALID[:place], VALID[place] + b"\0", *VALID[place + 1 :]))
    assert raised.value.fields == {"lsn": Lsn(100 + place), "offset": len(VALID[place])}


@settings(max_examples=300)
@given(st.integers(0, len(VALID) - 1), st.integers(0, 200), st.binary(min_size=1, max_size=4))
def test_damaged_bytes_give_rows_or_a_named_error_and_nothing_else(place: int, at: int, patch: bytes) -> None:
    data = bytearray(VALID[place])
    data[at % len(data) : at % len(data) + len(patch)] = patch
    decoder = Decoder(plan(), Selection())
    with suppress(FrameError):
        for _ in decoder.decode(frames_of(stream(*VALID[:place], bytes(data), *VALID[place + 1 :]))):
            pass
        decoder.finish()


UNKNOWN = sorted(set(range(256)) - set(b"BCORYIUDTM"))


@pytest.mark.parametrize("byte", [*b"SEcAbPKrp", 0, 255])
def test_a_message_that_was_not_asked_for_is_unknown(byte: int) -> None:
    with pytest.raises(UnknownMessageError) as raised:
        decode(within(bytes([byte]) + b"\0\0\0\1"))
    assert raised.value.fields == {"byte": byte, "lsn": Lsn(102), "offset": 0}


def test_every_other_byte_is_an_unknown_message() -> None:
    for byte in UNKNOWN:
        with pytest.raises(UnknownMessageError):
            decode(within(bytes([byte])))


@pytest.mark.parametrize("kind", [b"b", b"x", b"\0", b"N"])
def test_a_value_that_is_binary_or_of_an_unknown_kind_is_refused(kind: bytes) -> None:
    data = b"I" + struct.pack(">I", OID) + b"N" + struct.pack(">h", 2) + b"n" + kind + struct.pack(">I", 1) + b"1"
    with pytest.raises(UnknownTupleKindError) as raised:
        decode(within(data))
    assert raised.value.fields == {"byte": kind[0], "lsn": Lsn(102), "offset": 9}


@pytest.mark.parametrize(("message", "kind"), [(b"I", b"K"), (b"I", b"O"), (b"D", b"N"), (b"U", b"X"), (b"I", b"t")])
def test_a_tuple_that_its_message_cannot_have_is_refused(message: bytes, kind: bytes) -> None:
    data = message + struct.pack(">I", OID) + kind + encoder.values(["1", "a"])
    with pytest.raises(UnknownTupleKindError) as raised:
        decode(within(data))
    assert raised.value.fields == {"byte": kind[0], "lsn": Lsn(102), "offset": 5}


def test_an_update_whose_second_tuple_is_not_the_new_one_is_refused() -> None:
    old = b"K" + encoder.values(["1", None])
    data = b"U" + struct.pack(">I", OID) + old + old
    with pytest.raises(UnknownTupleKindError) as raised:
        decode(within(data))
    assert raised.value.fields["offset"] == 5 + len(old)


def test_an_old_tuple_that_lacks_a_value_is_refused() -> None:
    with pytest.raises(FrameError, match="old tuple"):
        decode(within(encoder.delete(OID, ["1", UNCHANGED], "O")))


@pytest.mark.parametrize("filler", ["", "x" * 5_000], ids=["short", "long"])
@pytest.mark.parametrize("place", [0, 1])
def test_a_value_with_the_character_that_parts_values_is_refused_and_never_read_as_two(place: int, filler: str) -> None:
    row = ["1", "a" + filler]
    row[place] += "\0b"
    with pytest.raises(FrameError, match=r"U\+0000") as raised:
        decode(within(encoder.insert(OID, ["1", filler]), encoder.insert(OID, row)))
    assert raised.value.fields == {"lsn": Lsn(103), "offset": encoder.insert(OID, row).rindex(b"\0b")}


@pytest.mark.parametrize("row", [["1"], ["1", "a", "b"], []])
def test_a_tuple_with_another_number_of_columns_than_its_relation_is_refused(row: list[str]) -> None:
    with pytest.raises(FrameError, match="number of columns") as raised:
        decode(within(encoder.insert(OID, ["1", "a"]), encoder.insert(OID, row)))
    assert raised.value.fields["lsn"] == Lsn(103)


@pytest.mark.parametrize(
    "data",
    [encoder.insert(99, ["1"]), encoder.delete(99, ["1"]), encoder.truncate([OID, 99])],
    ids=["insert", "delete", "truncate"],
)
def test_a_change_of_a_relation_that_was_never_described_is_refused(data: bytes) -> None:
    with pytest.raises(UnknownRelationError) as raised:
        decode(within(data))
    assert raised.value.fields == {"oid": 99, "lsn": Lsn(102)}


def test_a_change_before_any_description_is_refused() -> None:
    with pytest.raises(UnknownRelationError):
        decode(stream(BEGIN, encoder.insert(OID, ["1", "a"]), RELATION, COMMIT))


def test_frames_that_end_within_a_transaction_are_truncated() -> None:
    with pytest.raises(TruncatedFrameError, match="transaction") as raised:
        decode(within(encoder.insert(OID, ["1", "a"]))[:-1])
    assert raised.value.fields["lsn"] == Lsn(1_000)


@pytest.mark.parametrize("cuts", [[], [1], [2]])
def test_a_begin_within_a_transaction_is_refused(cuts: list[int]) -> None:
    with pytest.raises(FrameError, match="Begin"):
        decode(stream(BEGIN, RELATION, BEGIN), cuts=cuts)


@pytest.mark.parametrize("cuts", [[], [2]])
def test_a_commit_without_its_begin_is_refused(cuts: list[int]) -> None:
    with pytest.raises(FrameError, match="Commit"):
        decode(stream(BEGIN, COMMIT, COMMIT), cuts=cuts)


@pytest.mark.parametrize(
    "commit",
    [
        encoder.commit(1_001, TS),
        encoder.commit(1_000, TS + 1),
        encoder.commit(1_000, TS, flags=1),
        encoder.commit(1_000, TS, end_lsn=1_000),
        encoder.commit(1_000, TS, end_lsn=2**63 + 1_048),
    ],
    ids=["lsn", "time", "flags", "empty record", "end beyond 63 bits"],
)
@pytest.mark.parametrize("cuts", [[], [1]])
def test_a_commit_that_does_not_agree_with_its_begin_is_refused(commit: bytes, cuts: list[int]) -> None:
    with pytest.raises(FrameError, match="does not agree"):
        decode(stream(BEGIN, commit), cuts=cuts)


@pytest.mark.parametrize("place", range(1, 10), ids=NAMES[1:10])
def test_a_message_of_a_transaction_that_comes_outside_of_one_is_refused(place: int) -> None:
    with pytest.raises(FrameError, match="outside of a transaction"):
        decode(stream(BEGIN, RELATION, COMMIT, VALID[place]))


def test_an_origin_after_the_first_change_is_refused() -> None:
    with pytest.raises(FrameError, match="Origin"):
        decode(within(encoder.insert(OID, ["1", "a"]), encoder.origin("late", 5)))
    with pytest.raises(FrameError, match="Origin"):
        decode(stream(BEGIN, encoder.origin("one", 5), encoder.origin("two", 5), COMMIT), cuts=[2])


@pytest.mark.parametrize(
    "data",
    [
        encoder.relation(OID, "public", "t", "x", []),
        b"R" + struct.pack(">I", OID) + b"\xff\0t\0d\0\0",
        encoder.relation(OID, "public", "t", "d", [("id", 23, -1, True)]).replace(b"\1id", b"\2id"),
        b"M\2" + bytes(8) + b"p\0" + bytes(4),
        b"M\1" + bytes(8) + b"p\0\xff\xff\xff\xff",
        b"R" + struct.pack(">I", OID) + text("public") + text("t") + b"d\xff\xff",
        encoder.truncate([OID], 4),
    ],
    ids=["identity", "name", "column flags", "message flags", "length", "column count", "truncate options"],
)
def test_a_value_that_the_protocol_does_not_have_is_refused(data: bytes) -> None:
    with pytest.raises(FrameError) as raised:
        decode(within(data))
    assert raised.value.fields["lsn"] == Lsn(102)


def test_an_error_holds_no_value_of_a_row() -> None:
    data = encoder.insert(OID, ["hidden", "secret"])
    with pytest.raises(TruncatedFrameError) as raised:
        decode(within(data[:-1]))
    assert "secret" not in str(raised.value)
    assert "hidden" not in str(raised.value)
