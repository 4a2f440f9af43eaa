"""Values of a byte buffer as Arrow strings.

Invariant: int32 offsets never overflow, since a buffer over ``MAX_BYTES`` is refused; strings are bytes unchanged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from walhouse.pgoutput.wire import Int32s, Int64s, Octets

MAX_BYTES: Final = 2**31 - 1


def require_offsets(octets: int) -> None:
    """Raise ValueError if so many bytes are too many for the offsets of Arrow's strings."""
    if octets > MAX_BYTES:
        raise ValueError("too many bytes at a time: Arrow's string offsets have 32 bits")


def gather_texts(buffer: Octets, bounds: Int32s, *, picks: Int64s | None = None) -> pa.StringArray:
    """The strings ``buffer[bounds[2 * i] : bounds[2 * i + 1]]``.

    With ``picks`` only those, in that order. ``bounds`` must ascend. The bytes are taken to be UTF-8, as
    client_encoding UTF8 promises. Raises ValueError for a buffer over ``MAX_BYTES``.
    """
    require_offsets(len(buffer))
    # One string array over the whole buffer, uncopied, whose even elements are the values and whose odd ones are what
    # lies between them; taking the even ones makes the only copy of the values.
    offsets = bounds if len(bounds) else np.zeros(1, np.int32)
    whole = pa.StringArray.from_buffers(len(offsets) - 1, pa.py_buffer(offsets), pa.py_buffer(buffer))
    wanted = np.arange(0, len(bounds), 2, dtype=np.int32) if picks is None else 2 * picks
    return pc.take(whole, pa.array(wanted), boundscheck=False)
