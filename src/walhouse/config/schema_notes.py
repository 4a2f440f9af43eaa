"""What schemas tell of a column beyond its type: that it is masked, or what it is on the source.

Invariant: of several notes for one column one counts: truncated, masked, then the source's type. A hashed column is
masked whatever else is asked; Debezium would tell its type and leave it unhashed.
Source: Debezium 3.6, PostgreSQL connector, ``column.propagate.source.type``, ``datatype.propagate.source.type``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from walhouse.config.filters import any_matches
from walhouse.config.masks import MaskRule, first_matching

if TYPE_CHECKING:
    from walhouse.names import TableName


@dataclass(frozen=True, slots=True)
class SchemaNotes:
    """``columns`` and ``types`` are the patterns of the two properties."""

    masks: tuple[MaskRule, ...] = ()
    columns: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    case_sensitive: bool = False

    def truncated_to(self, table: TableName, column: str) -> int | None:
        """The length that its texts are cut to; None if they are not."""
        rule = first_matching(self.masks, f"{table}.{column}")
        return rule.length if rule is not None and rule.kind == "truncate" else None

    def is_masked(self, table: TableName, column: str) -> bool:
        """True if its texts are masked or hashed."""
        rule = first_matching(self.masks, f"{table}.{column}")
        return rule is not None and rule.kind != "truncate"

    def tells_source(self, table: TableName, column: str, type_name: str) -> bool:
        """True if the schema tells the column's type and name on the source; ``type_name`` as ``pg_type`` has it."""
        names = ((self.columns, f"{table}.{column}"), (self.types, f"{table}.{type_name}"))
        return any(any_matches(patterns, name, case_sensitive=self.case_sensitive) for patterns, name in names)
