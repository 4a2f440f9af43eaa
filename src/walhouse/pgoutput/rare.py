"""The rare messages of a piece of the stream, by their frame.

Invariant: every Relation, Type, Origin, Truncate and Message frame is read and checked, also where its content is not
used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from walhouse.pgoutput.messages import (
    MESSAGE,
    ORIGIN,
    RELATION,
    TRUNCATE,
    TYPE,
    LogicalMessage,
    OriginMessage,
    RelationMessage,
    TruncateMessage,
    read_message,
    read_origin,
    read_relation,
    read_truncate,
    read_type,
)

if TYPE_CHECKING:
    from walhouse.pgoutput.frames import Frames
    from walhouse.pgoutput.wire import Octets


@dataclass(frozen=True, slots=True)
class RareMessages:
    """Messages by the index of their frame, in the order of the stream."""

    relations: dict[int, RelationMessage]
    origins: dict[int, OriginMessage]
    truncates: dict[int, TruncateMessage]
    messages: dict[int, LogicalMessage]


def read_rare(frames: Frames, types: Octets) -> RareMessages:
    """Read them all. Raises FrameError and its kinds."""

    def of(kind: int) -> list[int]:
        found: list[int] = np.flatnonzero(types == kind).tolist()
        return found

    for frame in of(TYPE):
        # The names of types come from the catalog; a Type message is checked and not needed.
        read_type(frames, frame)
    return RareMessages(
        relations={frame: read_relation(frames, frame) for frame in of(RELATION)},
        origins={frame: read_origin(frames, frame) for frame in of(ORIGIN)},
        truncates={frame: read_truncate(frames, frame) for frame in of(TRUNCATE)},
        messages={frame: read_message(frames, frame) for frame in of(MESSAGE)},
    )
