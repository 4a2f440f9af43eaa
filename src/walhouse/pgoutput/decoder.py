"""The decoder: frames in, rows of bronze out.

Invariant: the rows depend on the frames and the plan alone, not on how the frames are cut into pieces; what is not
understood is an error, and nothing is left out but what the plan and the selection say.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from walhouse.errors import FrameError, TruncatedFrameError
from walhouse.lsn import Lsn, LsnRange
from walhouse.pgoutput.batch import Batch
from walhouse.pgoutput.changes import read_changes
from walhouse.pgoutput.frames import first_true
from walhouse.pgoutput.messages import BEGIN, COMMIT, DELETE, INSERT, MESSAGE, TRUNCATE, UPDATE, message_types
from walhouse.pgoutput.rare import RareMessages, read_rare
from walhouse.pgoutput.relations import RelationBook
from walhouse.pgoutput.row import MESSAGE_SEQ, TRANSACTION_SEQ
from walhouse.pgoutput.rows import CHANGE, DESCRIPTION, LOGICAL_MESSAGE, NONE, TRANSACTION, Rows, merge
from walhouse.pgoutput.transactions import NOTHING_YET, LastCommit, OpenTransaction, Transactions, find_transactions
from walhouse.pgoutput.wire import Bools, Int64s, Octets, read_uint32

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa

    from walhouse.names import TableName
    from walhouse.pgoutput.frames import Frames
    from walhouse.pgoutput.relation import RelationDescription
    from walhouse.pgoutput.selection import TableSelection
    from walhouse.pgoutput.type_facts import TypeFacts

MAX_FRAMES: Final = 16_384
MAX_BYTES: Final = 32 * 2**20
"""Frames, and bytes of frames, that are decoded at once and become one batch."""


@dataclass(frozen=True)
class DecoderPlan:
    """What to keep, and what the messages do not say. Can be pickled.

    A transaction is kept if its commit record starts in ``window``. A non-transactional message is kept if its LSN is
    at or past the window's start and not in ``seen_messages``, **also past the window's end**. Measured (PostgreSQL
    18.6): the server returns such a message exactly if its record *starts* in the range that is peeked, but the LSN
    that it reports is the record's *end*; so the last message of a range may report the range's end or (where the range
    ends within its record) more, and once the slot has moved to that end the message never comes again. If the slot
    did not move, it comes again in the next range, with an LSN at or past that range's start: ``seen_messages`` must
    therefore hold the LSN of every non-transactional message in bronze at or past ``window.start``.
    """

    window: LsnRange
    pass_number: int
    captured_at: int
    """Microseconds since the Unix epoch."""
    next_xid: int
    """A current 64-bit xid of the server, against which the stream's 32-bit xids are widened."""
    relations: Mapping[int, RelationDescription]
    """The catalog's descriptions, by oid."""
    types: Mapping[int, TypeFacts]
    """The catalog's types, by oid: for columns that are no longer as they were."""
    known_versions: frozenset[int]
    """Relation versions that bronze describes already."""
    seen_messages: frozenset[int]
    last: LastCommit = NOTHING_YET
    """What the stream said last before the window."""
    slot_xmin: int | None = None
    """``catalog_xmin`` of the slot, if each row is to tell it."""
    transactions: bool = False
    """Whether each kept transaction gets a row, also one without a change that is captured."""


@dataclass(frozen=True, slots=True)
class DecodedCounts:
    """What a decoder did.

    transactions: kept ones whose Commit came; changes, messages, relations: rows of these kinds; dropped: changes and
    messages outside the window or seen before; filtered: changes of tables that are not captured; last_commit_lsn: of
    the last kept transaction, None if there is none; bytes: of all messages read.
    """

    transactions: int = 0
    changes: int = 0
    messages: int = 0
    relations: int = 0
    dropped: int = 0
    filtered: int = 0
    last_commit_lsn: Lsn | None = None
    bytes: int = 0

    def plus(self, later: DecodedCounts) -> DecodedCounts:
        """These counts and those of the frames that follow."""
        return DecodedCounts(
            transactions=self.transactions + later.transactions,
            changes=self.changes + later.changes,
            messages=self.messages + later.messages,
            relations=self.relations + later.relations,
            dropped=self.dropped + later.dropped,
            filtered=self.filtered + later.filtered,
            last_commit_lsn=self.last_commit_lsn if later.last_commit_lsn is None else later.last_commit_lsn,
            bytes=self.bytes + later.bytes,
        )


class Decoder:
    """Decodes one window. State (relations, the open transaction) is carried from call to call.

    After an error the decoder is of no further use: decode the window again with a new one.
    """

    def __init__(self, plan: DecoderPlan, selection: TableSelection) -> None:
        self._plan = plan
        self._book = RelationBook(selection, plan.relations, plan.types)
        self._announced = set(plan.known_versions)
        self._seen_messages = set(plan.seen_messages)
        self._open: OpenTransaction | None = None
        self._last_begun = -1
        self._last = plan.last
        self._counts = DecodedCounts()
        self._left_out: set[int] = set()
        self._incomplete: set[int] = set()

    def decode(self, frames: Frames) -> Iterator[pa.RecordBatch]:
        """Batches of the rows of ``frames``, schema ``row.ROW``, at most about ``MAX_FRAMES`` rows each.

        Columns by kind. ``change``: all of the change; a TRUNCATE gives one row for each captured relation, in the
        message's order. ``message``: a transactional one stands in its transaction; any other has its own LSN as
        ``commit_lsn``, ``MESSAGE_SEQ`` as ``seq``, and neither xid nor commit time. ``relation``: stands directly
        before the first kept change that needs it, with its ``commit_lsn`` and ``seq``; ``lsn`` is null, since
        a description has no position of its own. Only versions that bronze does not know are described.
        ``transaction``, if the plan wants them: one for each kept Begin, with ``TRANSACTION_SEQ``.

        Raises TruncatedFrameError, UnknownMessageError, UnknownTupleKindError, UnknownRelationError, FrameError.
        """
        # no name for a batch: it would be kept while the next one is made
        decoded = map(self._decode, frames.chunks(MAX_FRAMES, MAX_BYTES))
        yield from filter(lambda batch: batch.num_rows, decoded)

    def finish(self) -> DecodedCounts:
        """What was decoded. Raises TruncatedFrameError if the Commit of the last transaction did not come."""
        if self._open is not None:
            lsn = Lsn(self._open.commit_lsn)
            raise TruncatedFrameError(f"The frames end within the transaction that commits at {lsn}.", lsn=lsn)
        return self._counts

    @property
    def relations(self) -> dict[int, RelationDescription]:
        """Descriptions of the captured tables so far, by version."""
        found = self._book.relations.descriptions
        return {relation.version: relation for relation in found if relation is not None}

    @property
    def left_out(self) -> frozenset[int]:
        """OIDs of the tables of which changes of the window were left out so far, as the selection does not have their
        name of then."""
        return frozenset(self._left_out)

    @property
    def incomplete(self) -> frozenset[TableName]:
        """Tables into which rows came so far without all of their values: an update took them past a publication's row
        filter, and did not send what is long and did not change."""
        found = (self._book.relations.descriptions[index] for index in self._incomplete)
        return frozenset(relation.name for relation in found if relation is not None)

    @property
    def last(self) -> LastCommit:
        """What the stream said last so far."""
        return self._last

    def _decode(self, frames: Frames) -> pa.RecordBatch:
        types = message_types(frames)
        rare = read_rare(frames, types)
        weights, standalone = _weigh(types, rare)
        transactions = self._next_transactions(frames, types, rare, weights, standalone)
        window = self._plan.window
        in_window = (transactions.commit_lsn >= window.start) & (transactions.commit_lsn < window.end)
        kept = in_window[transactions.of_frame]

        found = self._changes(frames, types, transactions, rare)
        relations = self._book.relations
        found = found.where(kept[found.frame])
        is_captured = relations.captured[found.relation]
        self._left_out.update(np.unique(relations.oids[found.relation[~is_captured]]).tolist())
        changes = found.where(is_captured)
        messages = self._messages(rare, transactions, kept)
        described = self._descriptions(changes)
        begun = _transactions(types, kept) if self._plan.transactions else Rows.of([])
        rows = merge(begun, merge(described, merge(messages, changes)))
        tuples = np.flatnonzero((rows.kind == CHANGE) & (rows.type != TRUNCATE))
        images = read_changes(frames, types, rows.frame[tuples], rows.relation[tuples], relations)
        sent_in_part = tuples[images.unchanged.rows]
        inserted = sent_in_part[rows.type[sent_in_part] == INSERT]  # an update that went past a row filter
        self._incomplete.update(np.unique(rows.relation[inserted]).tolist())

        ended = transactions.commit_lsn[transactions.of_frame[(types == COMMIT) & kept]]
        alone = int(np.count_nonzero(standalone) - np.count_nonzero(messages.alone))
        self._counts = self._counts.plus(
            DecodedCounts(
                transactions=len(ended),
                changes=len(changes),
                messages=len(messages),
                relations=len(described),
                dropped=int(weights[~kept].sum()) + alone,
                filtered=len(found) - len(changes),
                last_commit_lsn=Lsn(ended[-1]) if len(ended) else None,
                bytes=frames.size,
            )
        )
        plan = self._plan
        batch = Batch(
            frames, transactions, relations, rare.messages, plan.pass_number, plan.captured_at, plan.slot_xmin
        )
        return batch.to_arrow(rows, tuples, images)

    def _next_transactions(
        self, frames: Frames, types: Octets, rare: RareMessages, weights: Int64s, standalone: Bools
    ) -> Transactions:
        """The transactions of these frames; the one that stays open is carried to the next ones."""
        transactions = find_transactions(
            frames,
            types,
            changes=weights,
            standalone=standalone,
            origins=rare.origins,
            before=self._open,
            last=self._last,
            next_xid=self._plan.next_xid,
        )
        self._open, self._last = transactions.still_open, transactions.last
        self._require_order(frames, types, transactions.commit_lsn[1:])
        return transactions

    def _require_order(self, frames: Frames, types: Octets, begun: Int64s) -> None:
        """Raise FrameError if a transaction comes again, or after one that committed later."""
        wrong = np.diff(begun, prepend=self._last_begun) <= 0
        if wrong.any():
            frame = int(np.flatnonzero(types == BEGIN)[first_true(wrong)])
            problem = "A transaction does not come in the order of commits."
            raise frames.failure(FrameError, problem, frame, int(frames.starts[frame]))
        if len(begun):
            self._last_begun = int(begun[-1])

    def _changes(self, frames: Frames, types: Octets, transactions: Transactions, rare: RareMessages) -> Rows:
        """All changes of tables, in order, each with the description that held when it came."""
        at = np.flatnonzero((types == INSERT) | (types == UPDATE) | (types == DELETE))
        frames.require(at, frames.starts[at] + 5, "a change's oid")
        oids = read_uint32(frames.buffer, frames.starts[at] + 1)
        relation = np.empty(len(at), np.int64)
        truncated: list[tuple[int, ...]] = []
        done = 0
        for frame in sorted([*rare.relations, *rare.truncates, len(frames)]):
            upto = int(np.searchsorted(at, frame))
            relation[done:upto] = self._book.find(oids[done:upto], frames.lsn[at[done:upto]])
            done = upto
            if frame in rare.relations:
                self._book.add(rare.relations[frame])
            elif frame in rare.truncates:
                emptied = np.array(rare.truncates[frame].relations, np.int64)
                indexes = self._book.find(emptied, np.full(len(emptied), frames.lsn[frame]))
                first = int(transactions.seq[frame])
                truncated += [
                    (frame, CHANGE, TRUNCATE, first + place, int(index), NONE) for place, index in enumerate(indexes)
                ]
        count = len(at)
        changed = Rows(
            at, np.full(count, CHANGE), types[at].astype(np.int64), transactions.seq[at], relation, np.full(count, NONE)
        )
        return merge(Rows.of(truncated), changed)

    def _messages(self, rare: RareMessages, transactions: Transactions, kept: Bools) -> Rows:
        """The kept logical messages, each by its frame (``Rows.message``)."""
        rows: list[tuple[int, ...]] = []
        for frame, message in rare.messages.items():
            if message.transactional:
                if kept[frame]:
                    rows.append((frame, LOGICAL_MESSAGE, MESSAGE, int(transactions.seq[frame]), NONE, frame))
            elif message.lsn >= self._plan.window.start and message.lsn not in self._seen_messages:
                self._seen_messages.add(message.lsn)
                rows.append((frame, LOGICAL_MESSAGE, MESSAGE, MESSAGE_SEQ, NONE, frame))
        return Rows.of(rows)

    def _descriptions(self, changes: Rows) -> Rows:
        """A row for each version that bronze does not know, at the first change that needs it."""
        relations = self._book.relations
        used = np.bincount(changes.relation, minlength=len(relations.descriptions))
        rows: list[tuple[int, ...]] = []
        for index in np.flatnonzero(used).tolist():
            version = int(relations.versions[index])
            if version not in self._announced:
                self._announced.add(version)
                first = first_true(changes.relation == index)
                rows.append((int(changes.frame[first]), DESCRIPTION, 0, int(changes.seq[first]), index, NONE))
        return Rows.of(sorted(rows))


def _transactions(types: Octets, kept: Bools) -> Rows:
    """A row for each kept Begin."""
    begins = np.flatnonzero((types == BEGIN) & kept)
    values = (TRANSACTION, 0, TRANSACTION_SEQ, NONE, NONE)
    return Rows(begins, *(np.full(len(begins), value) for value in values))


def _weigh(types: Octets, rare: RareMessages) -> tuple[Int64s, Bools]:
    """How many numbers of its transaction each frame takes, and which frames are non-transactional messages."""
    weights = ((types == INSERT) | (types == UPDATE) | (types == DELETE)).astype(np.int64)
    for frame, truncate in rare.truncates.items():
        weights[frame] = len(truncate.relations)
    standalone = np.zeros(len(types), np.bool_)
    for frame, message in rare.messages.items():
        weights[frame] = int(message.transactional)
        standalone[frame] = not message.transactional
    return weights, standalone
