"""Which tables' changes bronze has, and of which tables it lacks rows.

Invariant: a table of which rows came that bronze does not have is lacking until a reading of all of it is in the queue;
so whoever captures it, be it again, gets it whole. Rows come without bronze: while the table is not published, while
the configuration or its name leaves it out, and before capture began. Rows of before are missing, too, under a name
that a table has got since: what bronze has is of another name, or of another table.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, Final, Self

from walhouse.names import TableName

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

AGAIN_SECONDS: Final = 60.0
"""When a table is tried again that could not be read."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """Tables by OID, as of a look at the source's catalog. What is made later than that is wholly in the stream."""

    captured: tuple[tuple[int, str, str], ...]
    """Published and selected: with schema and table."""
    lacking: tuple[int, ...]
    """Of which rows are missing: all others that there are, and captured ones that are still to be read."""

    @classmethod
    def of(cls, captured: Mapping[int, TableName], existing: Iterable[int], lacking: Iterable[int] = ()) -> Self:
        """A look; ``lacking``: what was known to be before."""
        others = frozenset(existing) - captured.keys()
        named = ((oid, *name) for oid, name in sorted(captured.items()))
        return cls(tuple(named), tuple(sorted(others | (captured.keys() & lacking))))

    @property
    def names(self) -> dict[int, TableName]:
        """Of the captured tables."""
        return {oid: TableName(*name) for oid, *name in self.captured}

    @property
    def wanted(self) -> frozenset[int]:
        """Captured tables that are to be read."""
        return frozenset(oid for oid, *_ in self.captured) & frozenset(self.lacking)

    def with_lacking(self, oids: Iterable[int]) -> Self:
        """With more tables of which rows are missing."""
        return replace(self, lacking=tuple(sorted({*self.lacking, *oids})))

    def without_lacking(self, oids: Iterable[int]) -> Self:
        """Without tables that are to be read."""
        return replace(self, lacking=tuple(sorted({*self.lacking}.difference(oids))))

    def to_dict(self) -> dict[str, Any]:
        """As it stands in each progress row: an OID that is lacking as its distance from the one before, since a
        database may have a hundred thousand tables, which are much the same distance apart."""
        return {"captured": self.captured, "gaps": [high - low for low, high in pairwise((0, *self.lacking))]}

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> Self:
        """Read what ``to_dict`` gave, by way of JSON."""
        lacking = accumulate(raw["gaps"]) if "gaps" in raw else raw["lacking"]  # older rows have the OIDs themselves
        return cls(tuple((oid, schema, table) for oid, schema, table in raw["captured"]), tuple(lacking))


@dataclass(frozen=True, slots=True)
class Attempts:
    """When each table was last put into the queue, in this process: one that cannot be read is not tried all the time.

    The next command tries it at once.
    """

    _at: dict[int, float] = field(default_factory=dict)

    def is_due(self, oid: int) -> bool:
        """Whether it may be tried."""
        return time.monotonic() - self._at.get(oid, float("-inf")) > AGAIN_SECONDS

    def begin(self, oid: int) -> None:
        """It is tried now."""
        self._at[oid] = time.monotonic()
