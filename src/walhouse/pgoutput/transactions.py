"""Which transaction each frame belongs to, and its sequence number there.

Invariant: Begin and Commit alternate and agree, everything but a non-transactional message lies between them, and
``seq`` counts every change that the server sent, captured or not, so that it does not depend on the configuration.
Source: PostgreSQL documentation, "Logical Replication Message Formats", Begin, Commit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from walhouse.errors import FrameError
from walhouse.lsn import Lsn
from walhouse.pgoutput.frames import Frames, first_true
from walhouse.pgoutput.messages import BEGIN, COMMIT, OriginMessage
from walhouse.pgoutput.wire import Bools, Int64s, Octets, read_int64, read_uint32

if TYPE_CHECKING:
    from collections.abc import Mapping

POSTGRES_EPOCH: Final = 946_684_800_000_000
"""2000-01-01 UTC in microseconds since the Unix epoch."""


NEVER: Final = -(2**63)
"""A commit time that is not known."""


@dataclass(frozen=True, slots=True)
class LastCommit:
    """What the stream said last before a place: where a commit (or a message without one) ended, and of the last
    transaction its time, in microseconds since the Unix epoch, and its commit's LSN. 0 and NEVER: nothing yet."""

    end: int = 0
    commit_ts: int = NEVER
    lsn: int = 0


NOTHING_YET: Final = LastCommit()


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction whose Commit has not come yet, carried from one piece of the stream to the next."""

    commit_lsn: int
    commit_ts: int
    xid: int
    origin: OriginMessage | None
    next_seq: int


@dataclass(frozen=True, slots=True)
class Transactions:
    """The transactions of a piece of the stream: 0 is the one that was open before it, then one for each Begin.

    ``of_frame`` is each frame's transaction and ``seq`` the number of changes before it there. ``commit_ts`` is in
    microseconds since the Unix epoch, ``xid`` has 64 bits. ``previous_end`` is, for each frame, where the commit before
    it ended; of a message that belongs to no transaction it is the message's own LSN. 0: unknown.
    """

    commit_lsn: Int64s
    commit_ts: Int64s
    xid: Int64s
    origins: tuple[OriginMessage | None, ...]
    of_frame: Int64s
    seq: Int64s
    previous_end: Int64s
    last: LastCommit
    still_open: OpenTransaction | None


def find_transactions(
    frames: Frames,
    types: Octets,
    *,
    changes: Int64s,
    standalone: Bools,
    origins: Mapping[int, OriginMessage],
    before: OpenTransaction | None,
    last: LastCommit,
    next_xid: int,
) -> Transactions:
    """Find them. ``changes`` says how many changes each frame is, ``standalone`` which frames need no transaction.
    ``before`` and ``last`` are what the piece before this one left.

    Raises FrameError where the order of messages or their content is not that of the protocol.
    """
    begins, commits = np.flatnonzero(types == BEGIN), np.flatnonzero(types == COMMIT)
    _check_order(frames, types, standalone, is_open=before is not None)
    commit_lsn, commit_ts, xid = _read_begins(frames, begins, before, last, next_xid)
    of_frame = np.cumsum(types == BEGIN)
    _check_commits(frames, commits, commit_lsn[of_frame[commits]], commit_ts[of_frame[commits]])
    total = np.cumsum(changes)
    seen = total - changes
    first = np.concatenate([np.array([-before.next_seq if before else 0]), seen[begins]])
    seq = seen - first[of_frame]
    carried = before.origin if before else None
    origin_of = _assign_origins(frames, origins, of_frame, seq, [carried, *[None] * len(begins)])
    still_open = None
    if (before is not None) + len(begins) > len(commits):
        next_seq = int(changes.sum() - first[-1])
        still_open = OpenTransaction(int(commit_lsn[-1]), int(commit_ts[-1]), int(xid[-1]), origin_of[-1], next_seq)
    previous_end, last_end = _previous_ends(frames, types, standalone, last.end)
    return Transactions(
        commit_lsn,
        commit_ts,
        xid,
        origin_of,
        of_frame,
        seq,
        previous_end,
        LastCommit(last_end, int(commit_ts[-1]), int(commit_lsn[-1]) or last.lsn),
        still_open,
    )


def _previous_ends(frames: Frames, types: Octets, standalone: Bools, before: int) -> tuple[Int64s, int]:
    """For each frame, the end of the last commit before it (of a message without a transaction, its own LSN); and the
    last of all."""
    is_commit = types == COMMIT
    ends = np.zeros(len(types) + 1, np.int64)
    ends[0] = before
    ends[1:][is_commit] = read_int64(frames.buffer, frames.starts[is_commit] + 10)
    ends[1:][standalone] = read_int64(frames.buffer, frames.starts[standalone] + 2)
    marks = np.concatenate([np.ones(1, np.bool_), is_commit | standalone])
    latest = np.maximum.accumulate(np.where(marks, np.arange(len(marks)), 0))
    return ends[np.where(is_commit, latest[:-1], latest[1:])], int(ends[latest[-1]])


def widen_xids(xids: Int64s, next_xid: int) -> Int64s:
    """32-bit xids with their epoch: the greatest 64-bit xid up to ``next_xid + 2**31`` that has these low 32 bits.

    Running and recent transactions are never further than 2**31 from the next xid. Negative: there is no such xid.
    """
    limit = next_xid + 2**31
    return limit - ((limit - xids) & 0xFFFFFFFF)


def _check_order(frames: Frames, types: Octets, standalone: Bools, *, is_open: bool) -> None:
    is_begin, is_commit = types == BEGIN, types == COMMIT
    marks = np.flatnonzero(is_begin | is_commit)
    wrong = is_commit[marks] != (np.arange(len(marks)) % 2 == (0 if is_open else 1))
    if wrong.any():
        frame = int(marks[first_true(wrong)])
        problem = "A Commit comes without its Begin." if is_commit[frame] else "A Begin comes in an open transaction."
        raise frames.failure(FrameError, problem, frame, int(frames.starts[frame]))
    inside = int(is_open) + np.cumsum(is_begin) - np.cumsum(is_commit) + is_commit > 0
    outside = ~inside & ~standalone
    if outside.any():
        frame = first_true(outside)
        problem = f"A message of type {chr(types[frame])} comes outside of a transaction."
        raise frames.failure(FrameError, problem, frame, int(frames.starts[frame]))


def _read_begins(
    frames: Frames, begins: Int64s, before: OpenTransaction | None, last: LastCommit, next_xid: int
) -> tuple[Int64s, Int64s, Int64s]:
    at = frames.starts[begins]
    frames.require(begins, at + 21, "a Begin")
    frames.require_end(begins, at + 21)
    carried = (before.commit_lsn, before.commit_ts, before.xid) if before else (0, last.commit_ts, 0)
    lsns, xid = read_int64(frames.buffer, at + 1), widen_xids(read_uint32(frames.buffer, at + 17), next_xid)
    if (lsns < 0).any():
        index = first_true(lsns < 0)
        raise frames.failure(FrameError, "An LSN lies beyond 63 bits.", int(begins[index]), int(at[index]) + 1)
    if (xid < 0).any():
        index = first_true(xid < 0)
        raise frames.failure(
            FrameError, f"A Begin has an xid far after {next_xid}.", int(begins[index]), int(at[index]) + 17
        )
    columns = lsns, read_int64(frames.buffer, at + 9) + POSTGRES_EPOCH, xid
    lsn, ts, wide = (
        np.concatenate([np.array([first], np.int64), column]) for first, column in zip(carried, columns, strict=True)
    )
    return lsn, ts, wide


def _check_commits(frames: Frames, commits: Int64s, lsn: Int64s, ts: Int64s) -> None:
    at = frames.starts[commits]
    frames.require(commits, at + 26, "a Commit")
    frames.require_end(commits, at + 26)
    wrong = (
        (frames.buffer[at + 1] != 0)
        | (read_int64(frames.buffer, at + 2) != lsn)
        | (read_int64(frames.buffer, at + 10) <= lsn)  # where its record ends
        | (read_int64(frames.buffer, at + 18) + POSTGRES_EPOCH != ts)
    )
    if wrong.any():
        index = first_true(wrong)
        problem = f"A Commit does not agree with its Begin at {Lsn(lsn[index])}."
        raise frames.failure(FrameError, problem, int(commits[index]), int(at[index]))


def _assign_origins(
    frames: Frames,
    origins: Mapping[int, OriginMessage],
    of_frame: Int64s,
    seq: Int64s,
    found: list[OriginMessage | None],
) -> tuple[OriginMessage | None, ...]:
    for frame, origin in origins.items():
        if seq[frame] or found[of_frame[frame]] is not None:
            problem = "An Origin does not come at the start of its transaction."
            raise frames.failure(FrameError, problem, frame, int(frames.starts[frame]))
        found[of_frame[frame]] = origin
    return tuple(found)
