"""Insert, Update and Delete messages, all of a piece of the stream at once.

Invariant: a change is read to the last byte of its frame, and an old tuple holds every value that it names.
Source: PostgreSQL documentation, "Logical Replication Message Formats", Insert, Update, Delete.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from walhouse.errors import FrameError, UnknownTupleKindError
from walhouse.pgoutput.frames import Frames, first_true
from walhouse.pgoutput.images import Images, Lists, images
from walhouse.pgoutput.messages import DELETE, INSERT
from walhouse.pgoutput.tuples import parse_tuples

if TYPE_CHECKING:
    from walhouse.pgoutput.relations import RelationList
    from walhouse.pgoutput.wire import Bools, Int64s, Octets

KEY: Final = ord("K")
FULL: Final = ord("O")
_NEW: Final = ord("N")
_HEAD: Final = 6
"""Bytes before the first tuple: type, oid, and the tuple's kind."""


@dataclass(frozen=True, slots=True)
class ChangeImages:
    """The images of changes. ``before_kind`` is K or O for each change, 0 without an old tuple."""

    before_kind: Octets
    before: Images
    after: Images
    unchanged: Lists


def read_changes(
    frames: Frames, types: Octets, changes: Int64s, relation: Int64s, relations: RelationList
) -> ChangeImages:
    """Read the frames ``changes`` (I, U or D), whose descriptions are ``relation``.

    Raises FrameError and its kinds for anything that the protocol does not have.
    """
    kind = types[changes]
    head = frames.starts[changes] + _HEAD
    frames.require(changes, head, "a change's head")
    marker = frames.buffer[head - 1]
    has_old = ((marker == KEY) | (marker == FULL)) & (kind != INSERT)
    _expect_marker(frames, changes, head - 1, (marker == _NEW) & (kind != DELETE) | has_old)

    at = head - 1
    old = np.flatnonzero(has_old)
    before_tuples = parse_tuples(frames, changes[old], head[old])
    at[old] = before_tuples.tuple_ends
    before, unsent = images(
        frames, before_tuples, frame_of=changes[old], rows=old, relation=relation[old], relations=relations
    )
    if len(unsent.rows):
        frame = int(changes[unsent.rows[0]])
        raise frames.failure(FrameError, "An old tuple lacks a value.", frame, int(frames.starts[frame]))

    new = np.flatnonzero(kind != DELETE)
    updated = np.flatnonzero(has_old & (kind != DELETE))
    frames.require(changes[updated], at[updated] + 1, "an update")
    _expect_marker(frames, changes[updated], at[updated], frames.buffer[at[updated]] == _NEW)
    after_tuples = parse_tuples(frames, changes[new], at[new] + 1)
    at[new] = after_tuples.tuple_ends
    after, unchanged = images(
        frames, after_tuples, frame_of=changes[new], rows=new, relation=relation[new], relations=relations
    )
    frames.require_end(changes, at)
    return ChangeImages(np.where(has_old, marker, 0).astype(np.uint8), before, after, unchanged)


def _expect_marker(frames: Frames, changes: Int64s, at: Int64s, good: Bools) -> None:
    if not good.all():
        index = first_true(~good)
        byte = int(frames.buffer[at[index]])
        problem = f"A change has a tuple of the kind {bytes([byte])!r}."
        raise frames.failure(UnknownTupleKindError, problem, int(changes[index]), int(at[index]), byte=byte)
