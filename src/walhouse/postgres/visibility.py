"""Which transactions a snapshot has seen, as it is kept beside the rows that were read in it.

Invariant: ``Visibility.sees`` is PostgreSQL's own rule for ``pg_snapshot`` (``pg_visible_in_snapshot``), over 64-bit
xids.
Source: PostgreSQL documentation, "Transaction ID and Snapshot Information Functions".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from walhouse.lsn import Lsn

_TEXT: Final = re.compile(r"([0-9]+):([0-9]+):((?:[0-9]+(?:,[0-9]+)*)?)")


@dataclass(frozen=True, slots=True)
class Visibility:
    """The snapshot ``xmin:xmax:xip``: all below xmin have ended, none from xmax on, and those in xip were running."""

    xmin: int
    xmax: int
    xip: frozenset[int]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read PostgreSQL's text form, ``10:20:10,14,15``. Raises ValueError."""
        match = _TEXT.fullmatch(text)
        if match is None:
            raise ValueError(f"not a snapshot: expected the form xmin:xmax:xip,xip, got {text!r}")
        return cls(int(match[1]), int(match[2]), frozenset(int(xid) for xid in match[3].split(",") if xid))

    def __str__(self) -> str:
        return f"{self.xmin}:{self.xmax}:{','.join(map(str, sorted(self.xip)))}"

    def sees(self, xid: int) -> bool:
        """Whether the snapshot has seen the committed transaction ``xid`` (64 bits)."""
        return xid < self.xmin or (xid < self.xmax and xid not in self.xip)


@dataclass(frozen=True, slots=True)
class SeenBefore:
    """The snapshot of a standby: it has seen every commit that starts before ``lsn``, and later ones nobody knows.

    Rows of it stand somewhere from there on, so between the two are the changes that it may not have seen.
    """

    lsn: Lsn

    def __str__(self) -> str:
        return f"lsn:{int(self.lsn)}"
