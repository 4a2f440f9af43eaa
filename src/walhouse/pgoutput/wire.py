"""Reading big-endian integers at many byte positions at once.

Invariant: the caller has checked that every position lies within the buffer; nothing here reads beyond it.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Octets: TypeAlias = npt.NDArray[np.uint8]
Int32s: TypeAlias = npt.NDArray[np.int32]
Int64s: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]

NO_INTEGERS: Int64s = np.zeros(0, np.int64)


def read_int16(buffer: Octets, at: Int64s) -> Int64s:
    """The signed 16-bit integers at these positions."""
    return _read(buffer, at, ">i2", 2)


def read_int32(buffer: Octets, at: Int64s) -> Int64s:
    """The signed 32-bit integers at these positions."""
    return _read(buffer, at, ">i4", 4)


def read_uint32(buffer: Octets, at: Int64s) -> Int64s:
    """The unsigned 32-bit integers at these positions."""
    return _read(buffer, at, ">u4", 4)


def read_int64(buffer: Octets, at: Int64s) -> Int64s:
    """The signed 64-bit integers at these positions."""
    return _read(buffer, at, ">i8", 8)


def _read(buffer: Octets, at: Int64s, dtype: str, size: int) -> Int64s:
    # A view in which element i is the integer that begins at byte i: one gather instead of one per byte.
    windows: npt.NDArray[np.int64] = np.ndarray(
        shape=(max(len(buffer) - size + 1, 0),), dtype=dtype, buffer=buffer, strides=(1,)
    )
    return windows[at].astype(np.int64)
