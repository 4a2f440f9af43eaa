"""The blocks of a COPY's result, end to end in one buffer: an object for each costs half as much again.

Invariant: what is taken out is in no ``Blocks`` any more, since a row may have a hundred MiB and is not kept twice.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from walhouse.pgoutput.wire import Octets


@dataclass(slots=True)
class Blocks:
    """A run of CopyData blocks, whole rows each: their bytes, and where each ends."""

    octets: bytearray = field(default_factory=bytearray)
    ends: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, blocks: Iterable[bytes]) -> Self:
        """These blocks, copied."""
        run = cls()
        for block in blocks:
            run.octets += block
            run.ends.append(len(run.octets))
        return run

    def __len__(self) -> int:
        return len(self.ends)

    def __iter__(self) -> Iterator[bytes]:
        """Each block, copied."""
        for start, end in zip([0, *self.ends], self.ends, strict=False):
            yield bytes(self.octets[start:end])

    @property
    def size(self) -> int:
        """Bytes of all."""
        return len(self.octets)

    def take(self) -> tuple[Octets, list[int]]:
        """The buffer, and where each block ends; none is left here."""
        octets, ends = self.octets, self.ends
        self.octets, self.ends = bytearray(), []
        return np.frombuffer(octets, np.uint8), ends

    def take_from(self, other: Blocks) -> None:
        """The other's blocks behind those that are here; none is left there."""
        if self.ends:
            before = self.size
            self.octets += other.octets
            self.ends += [before + end for end in other.ends]
        else:
            self.octets, self.ends = other.octets, other.ends
        other.octets, other.ends = bytearray(), []
