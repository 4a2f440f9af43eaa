"""What the decoder makes of any stream: the rows that a plain reading of the messages gives."""

from __future__ import annotations

import json
import pickle
import weakref
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.pgoutput import encoder
from tests.pgoutput.decoding import Selection, decode, frames_of, peak_of, plan
from tests.pgoutput.encoder import Frame
from tests.pgoutput.streams import NAMES, NO_COLUMNS, Stream, streams
from walhouse.errors import FrameError
from walhouse.lsn import Lsn, LsnRange
from walhouse.names import TableName
from walhouse.pgoutput import decoder as decoder_module
from walhouse.pgoutput import images
from walhouse.pgoutput.column import ColumnDescription
from walhouse.pgoutput.decoder import Decoder
from walhouse.pgoutput.image import unpack_row
from walhouse.pgoutput.relation import describe
from walhouse.pgoutput.row import TRANSACTION_SEQ

if TYPE_CHECKING:
    import pyarrow as pa

    from walhouse.pgoutput.frames import Frames

EVERYTHING = LsnRange(Lsn(0), Lsn(2**62))
TABLES = (TableName("public", "T 0"), TableName("öffentlich", "T 1"), TableName("öffentlich", "T 2"))
SELECTIONS = st.builds(
    Selection,
    left_out=st.frozensets(st.sampled_from(TABLES)),
    dropped=st.dictionaries(st.sampled_from(TABLES), st.frozensets(NAMES)),
    reverse=st.booleans(),
)
CUTS = st.lists(st.integers(0, 60), max_size=6)
# On a busy machine drawing a stream takes long; how long is not what these tests are about.
fast = settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])


def plain(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows with the description read from its JSON, so that rows compare whatever the order of its keys."""
    return [{**row, "relation": json.loads(row["relation"])} if "relation" in row else row for row in rows]


@fast
@given(streams(), CUTS)
def test_any_stream_cut_anywhere_gives_the_rows_that_its_messages_mean(stream: Stream, cuts: list[int]) -> None:
    rows, counts = decode(stream.frames(), cuts=cuts)
    assert plain(rows) == stream.rows(EVERYTHING, Selection())
    kinds = [row["kind"] for row in rows]
    assert (counts.changes, counts.messages, counts.relations) == tuple(
        kinds.count(kind) for kind in ("change", "message", "relation")
    )
    assert counts.transactions == len(stream.transactions)
    assert (counts.dropped, counts.filtered) == (0, 0)
    assert counts.bytes == sum(len(frame.data) for frame in stream.frames())
    assert counts.last_commit_lsn == (stream.transactions[-1][0] if stream.transactions else None)


@fast
@given(streams(), SELECTIONS, CUTS)
def test_tables_and_columns_left_out_never_land_and_change_no_sequence_number(
    stream: Stream, selection: Selection, cuts: list[int]
) -> None:
    rows, counts = decode(stream.frames(), selection=selection, cuts=cuts)
    assert plain(rows) == stream.rows(EVERYTHING, selection)
    everything = stream.rows(EVERYTHING, Selection())
    assert counts.changes + counts.filtered == sum(row["kind"] == "change" for row in everything)
    positions = {(row["commit_lsn"], row["seq"]) for row in everything if row["kind"] == "change"}
    assert positions.issuperset((row["commit_lsn"], row["seq"]) for row in rows if row["kind"] == "change")


@fast
@given(streams(), SELECTIONS, CUTS)
def test_long_values_that_are_copied_one_by_one_give_the_same_rows(
    stream: Stream, selection: Selection, cuts: list[int]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(images, "_LONG", 0)
        rows, _ = decode(stream.frames(), selection=selection, cuts=cuts)
    assert plain(rows) == stream.rows(EVERYTHING, selection)


@fast
@given(streams(), CUTS, st.data())
def test_two_adjoining_ranges_hold_every_change_exactly_once(
    stream: Stream, cuts: list[int], data: st.DataObject
) -> None:
    commits = [transaction[0] for transaction in stream.transactions]
    border = data.draw(st.sampled_from(commits) | st.integers(0, 2_000) if commits else st.just(0))
    first, first_counts = decode(stream.frames(), plan(0, border), cuts=cuts)
    seen = frozenset(row["commit_lsn"] for row in first if row["seq"] == -1)
    assert plain(first) == stream.rows(LsnRange(Lsn(0), Lsn(border)), Selection())
    known = [row["relation_version"] for row in first if row["kind"] == "relation"]
    second, second_counts = decode(stream.frames(), plan(border, known=known, seen=seen), cuts=cuts)
    both = sorted(first + second, key=lambda row: (row["commit_lsn"], row["seq"], row["kind"] == "change"))
    whole, counts = decode(stream.frames())
    assert plain(both) == plain(sorted(whole, key=lambda row: (row["commit_lsn"], row["seq"], row["kind"] == "change")))
    assert first_counts.transactions + second_counts.transactions == counts.transactions
    for part in (first_counts, second_counts):
        assert part.changes + part.messages + part.dropped == counts.changes + counts.messages


RELATION = encoder.relation(16_384, "public", "t", "d", [("id", 23, -1, True), ("v", 25, -1, False)])


def transaction(*items: bytes, commit_lsn: int = 1_000, xid: int = 700) -> list[Frame]:
    ts = 1_700_000_000_000_000
    inside = [Frame(data, 500 + place, xid) for place, data in enumerate(items)]
    return [
        Frame(encoder.begin(commit_lsn, ts, xid), 500, xid),
        *inside,
        Frame(encoder.commit(commit_lsn, ts), commit_lsn + 48, xid),
    ]


def test_a_commit_that_starts_at_the_end_of_a_range_belongs_to_the_next_range() -> None:
    frames = transaction(RELATION, encoder.insert(16_384, ["1", "a"]), commit_lsn=2_000)
    assert decode(frames, plan(1_000, 2_000))[0] == []
    rows, counts = decode(frames, plan(2_000, 3_000))
    assert [row["kind"] for row in rows] == ["relation", "change"]
    assert counts.last_commit_lsn == Lsn(2_000)


@pytest.mark.parametrize("second", [1_000, 900])
def test_a_transaction_that_comes_again_or_too_late_is_an_error_and_no_second_row(second: int) -> None:
    """Ranges are read in pieces, each by a peek of its own: commits ascend over all of them."""
    decoder = Decoder(plan(0, 10_000), Selection())
    list(decoder.decode(frames_of(transaction(RELATION, encoder.insert(16_384, ["1", "a"]), commit_lsn=1_000))))
    with pytest.raises(FrameError, match="order of commits"):
        list(decoder.decode(frames_of(transaction(encoder.insert(16_384, ["2", "b"]), commit_lsn=second))))


def test_a_relation_described_before_the_range_still_describes_its_changes() -> None:
    frames = [
        *transaction(RELATION, encoder.insert(16_384, ["1", "a"]), commit_lsn=1_000),
        *transaction(encoder.insert(16_384, ["2", "b"]), commit_lsn=2_000),
    ]
    rows, counts = decode(frames, plan(2_000, 3_000))
    assert [(row["kind"], row["commit_lsn"], row["seq"]) for row in rows] == [
        ("relation", 2_000, 0),
        ("change", 2_000, 0),
    ]
    assert (counts.dropped, counts.transactions) == (1, 1)


def test_a_message_whose_lsn_lies_past_the_range_is_kept_since_the_server_never_sends_it_again() -> None:
    frames = [Frame(encoder.message(2_048, "p", b"x", transactional=False), 2_048)]
    rows, _ = decode(frames, plan(1_000, 2_000))
    assert [(row["commit_lsn"], row["seq"]) for row in rows] == [(2_048, -1)]
    again, counts = decode(frames, plan(2_000, 3_000, seen=[2_048]))
    assert again == []
    assert counts.dropped == 1


def test_a_message_at_the_start_of_the_range_is_kept_if_bronze_lacks_it() -> None:
    frames = [Frame(encoder.message(1_000, "p", b"x", transactional=False), 1_000)] * 2
    rows, counts = decode(frames, plan(1_000, 2_000))
    assert [row["commit_lsn"] for row in rows] == [1_000]
    assert counts.dropped == 1


def test_a_message_of_an_earlier_range_is_dropped_when_the_slot_sends_it_again() -> None:
    frames = [Frame(encoder.message(999, "p", b"x", transactional=False), 999)]
    assert decode(frames, plan(1_000, 2_000))[0] == []


def test_a_version_that_bronze_knows_is_not_described_again() -> None:
    frames = transaction(RELATION, encoder.insert(16_384, ["1", "a"]))
    (described, _), _ = decode(frames)
    rows, counts = decode(frames, plan(known=[described["relation_version"]]))
    assert [row["kind"] for row in rows] == ["change"]
    assert counts.relations == 0


def test_a_description_takes_the_facts_of_the_catalog() -> None:
    columns = [ColumnDescription("id", 23, -1, identity=True), ColumnDescription("v", 25, -1, identity=False)]
    message = describe(16_384, TableName("public", "t"), "d", columns)
    catalog = describe(
        16_384,
        TableName("public", "t"),
        "d",
        [ColumnDescription("id", 23, -1, identity=True, type_name="integer"), columns[1]],
    )
    rows, _ = decode(transaction(RELATION, encoder.insert(16_384, ["1", "a"])), plan(relations={16_384: catalog}))
    relation = json.loads(rows[0]["relation"])
    assert relation["columns"][0]["type_name"] == "integer"
    assert relation["version"] == message.version


def test_the_primary_key_of_a_table_with_full_identity_is_kept_and_other_columns_can_be_left_out() -> None:
    name = TableName("public", "t")
    full = encoder.relation(16_384, "public", "t", "f", [("id", 23, -1, True), ("v", 25, -1, True)])
    columns = [ColumnDescription("id", 23, -1, identity=True), ColumnDescription("v", 25, -1, identity=True)]
    catalog = replace(describe(16_384, name, "f", columns), primary_key=("id",))
    selection = Selection(dropped={name: frozenset({"id", "v"})})
    frames = transaction(full, encoder.delete(16_384, ["1", "secret"], "O"))
    with_key, _ = decode(frames, plan(relations={16_384: catalog}), selection)
    assert with_key[-1]["before"] == ["1"]
    without_key, _ = decode(frames, plan(), selection)
    assert without_key[-1]["before"] == NO_COLUMNS


def test_a_change_is_read_with_the_latest_description_before_it_also_within_a_transaction() -> None:
    wider = encoder.relation(
        16_384, "public", "t", "d", [("id", 23, -1, True), ("v", 25, -1, False), ("w", 25, -1, False)]
    )
    rows, _ = decode(
        transaction(RELATION, encoder.insert(16_384, ["1", "a"]), wider, encoder.insert(16_384, ["2", "b", "c"]))
    )
    assert [(row["kind"], row["seq"]) for row in rows] == [
        ("relation", 0),
        ("change", 0),
        ("relation", 1),
        ("change", 1),
    ]
    assert rows[0]["relation_version"] == rows[1]["relation_version"] != rows[3]["relation_version"]


def test_batches_are_bounded_and_hold_all_rows() -> None:
    inserts = [encoder.insert(16_384, [str(number), "x"]) for number in range(40_000)]
    frames = frames_of(transaction(RELATION, *inserts, commit_lsn=100_000))
    decoder = Decoder(plan(), Selection())
    batches = list(decoder.decode(frames))
    assert len(batches) == 3
    assert max(batch.num_rows for batch in batches) <= 16_385
    after = [unpack_row(image) for batch in batches for image in batch.column("after").to_pylist() if image]
    assert after == [[str(number), "x"] for number in range(40_000)]
    assert [seq for batch in batches for seq in batch.column("seq").to_pylist()] == [0, *range(40_000)]
    assert decoder.finish().changes == 40_000


def test_no_batch_is_kept_while_the_next_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoder_module, "MAX_FRAMES", 10)
    frames = frames_of(transaction(RELATION, *(encoder.insert(16_384, [str(number), "x"]) for number in range(40))))
    made: list[weakref.ref[pa.RecordBatch]] = []
    kept = []
    decode = Decoder._decode

    def watched(decoder: Decoder, part: Frames) -> pa.RecordBatch:
        kept.append(sum(each() is not None for each in made))
        batch = decode(decoder, part)
        made.append(weakref.ref(batch))
        return batch

    monkeypatch.setattr(Decoder, "_decode", watched)
    batches = Decoder(plan(), Selection()).decode(frames)
    while next(batches, None) is not None:
        pass
    assert len(kept) > 3
    assert not any(kept)


def test_a_long_value_is_copied_once_on_its_way_into_its_image() -> None:
    long = "\\" + "x" * (1 << 25)
    changes = (encoder.insert(16_384, ["1", long]), encoder.update(16_384, ["1", long]))
    frames = frames_of(transaction(RELATION, *changes, commit_lsn=100_000))
    assert peak_of(lambda: list(Decoder(plan(), Selection()).decode(frames))) < 2.2 * len(long)


def test_a_plan_can_be_sent_to_another_process() -> None:
    the_plan = plan(1, 2, known=[3], seen=[4])
    assert pickle.loads(pickle.dumps(the_plan)) == the_plan


@fast
@given(streams(), CUTS)
def test_where_transactions_are_wanted_each_has_one_row_before_its_changes_and_the_rest_stays_as_it_is(
    stream: Stream, cuts: list[int]
) -> None:
    rows, _ = decode(stream.frames(), replace(plan(), transactions=True), Selection(frozenset(TABLES)), cuts)
    begun = [row for row in rows if row["kind"] == "transaction"]
    assert [row["commit_lsn"] for row in begun] == [commit_lsn for commit_lsn, *_ in stream.transactions]
    assert all(row["seq"] == TRANSACTION_SEQ and {"xid", "commit_ts"} <= row.keys() for row in begun)
    assert [row for row in rows if row not in begun] == stream.rows(EVERYTHING, Selection(frozenset(TABLES)))
