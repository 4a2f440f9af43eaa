"""Positions in PostgreSQL's write-ahead log.

Invariant: a position is an ``Lsn`` everywhere in Python and a BIGINT column everywhere in the lake; the text form
``16/B374D848`` is for people and for SQL sent to PostgreSQL only.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple, Self

_TEXT: Final = re.compile(r"([0-9A-Fa-f]{1,8})/([0-9A-Fa-f]{1,8})")

PAGE_SIZE: Final = 8192
"""Bytes of a WAL page (XLOG_BLCKSZ; every packaged PostgreSQL is built with this size)."""

PAGE_HEADER: Final = 24
"""Bytes of a page's header (XLogPageHeaderData)."""

LONG_PAGE_HEADER: Final = 40
"""Bytes of the header of a segment's first page (XLogLongPageHeaderData)."""

SMALLEST_SEGMENT: Final = 1 << 20
"""Bytes of the smallest segment that a server can be made with; a page that is no multiple of it has a short header."""


class Lsn(int):
    """A log sequence number: a byte position in the WAL, 64 bits unsigned in PostgreSQL, always positive here."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read PostgreSQL's text form ``X/Y`` (two hexadecimal numbers of 32 bits). Raises ValueError."""
        match = _TEXT.fullmatch(text)
        if match is None:
            raise ValueError(f"not an LSN: expected the form 16/B374D848, got {text!r}")
        position = (int(match[1], 16) << 32) | int(match[2], 16)
        if position >> 63:
            raise ValueError(f"not an LSN that the lake can hold: {text} is beyond 7FFFFFFF/FFFFFFFF")
        return cls(position)

    def __str__(self) -> str:
        return f"{int(self) >> 32:X}/{int(self) & 0xFFFFFFFF:X}"

    def __repr__(self) -> str:
        return f"Lsn('{self}')"

    def page_aligned(self) -> Lsn:
        """The page's start if this position lies within the page's header, else the position itself.

        Right after a page header the server's insert LSN is ahead of its flushed LSN although no record lies between
        them, so both must mean the same end of a range. Behind a short header the last bytes of a record that began on
        the page before may end where a long header would: they are not flushed with the page before.
        """
        start = Lsn(self - self % PAGE_SIZE)
        return start if self - start <= (PAGE_HEADER if start % SMALLEST_SEGMENT else LONG_PAGE_HEADER) else self


class LsnRange(NamedTuple):
    """The half-open range ``[start, end)`` over the LSN at which a commit record starts."""

    start: Lsn
    end: Lsn

    def __str__(self) -> str:
        return f"[{self.start}, {self.end})"

    @property
    def is_empty(self) -> bool:
        """True if no commit can lie in the range."""
        return self.end <= self.start
