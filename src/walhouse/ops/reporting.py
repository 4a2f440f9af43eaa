"""What long work says while it works.

Invariant: identifiers, counts and positions only; never a value of a row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from walhouse.lsn import Lsn


class Reporter(Protocol):
    """Told of progress. ``rows`` is the number of rows since the last call of the same stage."""

    def update(
        self, stage: str, *, rows: int = 0, lsn: Lsn | None = None, target: Lsn | None = None, detail: str = ""
    ) -> None:
        """``stage`` is snapshot, capture, silver, gold, read (what is to be compared) or verify; ``lsn`` how far it is;
        ``detail`` a table's name.
        """


class Silent:
    """Says nothing."""

    def update(
        self, stage: str, *, rows: int = 0, lsn: Lsn | None = None, target: Lsn | None = None, detail: str = ""
    ) -> None:
        """Do nothing."""
