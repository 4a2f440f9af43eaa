"""Values of a byte buffer as Arrow strings.

Invariant: int32 offsets never overflow, since the caller keeps a buffer under ``MAX_BYTES``; the strings are its bytes,
unchanged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from walhouse.pgoutput.wire import Bools, Int64s, Octets

MAX_BYTES: Final = 2**31 - 1


def gather_texts(
    buffer: Octets, starts: Int64s, ends: Int64s, *, present: Bools, picks: Int64s | None = None
) -> pa.StringArray:
    """The strings ``buffer[starts[i]:ends[i]]``, null where not present; with ``picks`` those of them, in that order.

    Ranges must ascend without overlapping. The bytes are taken to be UTF-8, as client_encoding UTF8 promises.
    """
    # One string array over the whole buffer, uncopied, whose even elements are the values and whose odd ones are what
    # lies between them; taking the even ones makes the only copy of the values.
    offsets = np.empty(2 * len(starts), np.int32)
    offsets[0::2] = starts
    offsets[1::2] = ends
    whole = pa.StringArray.from_buffers(
        max(len(offsets) - 1, 0), pa.py_buffer(offsets if len(offsets) else bytes(4)), pa.py_buffer(buffer)
    )
    wanted = 2 * (np.arange(len(starts), dtype=np.int64) if picks is None else picks)
    shown = present if picks is None else present[picks]
    return pc.take(whole, pa.array(wanted, mask=None if shown.all() else ~shown), boundscheck=False)
