"""What is wrong with the server's bytes."""

from __future__ import annotations

from walhouse.errors.base import WalhouseError


class FrameError(WalhouseError):
    """The server's bytes cannot be decoded. Fields: lsn, offset."""

    exit_code = 4
    safe = "Nothing of this range was committed and the slot was not moved."
    todo = "Report it with the fields below; the frame can be read again from the slot."


class TruncatedFrameError(FrameError):
    """A frame ends before its content does. Fields: lsn, offset."""


class UnknownMessageError(FrameError):
    """A message type that the protocol does not have. Fields: byte, lsn, offset."""


class UnknownTupleKindError(FrameError):
    """A tuple value of an unknown kind, or one that was not asked for. Fields: byte, lsn, offset."""


class UnknownRelationError(FrameError):
    """A change for a relation that was not described before it. Fields: oid, lsn."""
