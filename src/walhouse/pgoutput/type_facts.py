"""What the catalog says of a type, whether any column has it now or not.

Invariant: a column whose type was altered, or that was dropped or renamed, before the catalog was read is still known
by its type: the Relation message has the type's OID, and types outlive columns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from walhouse.pgoutput.column import ColumnDescription


@dataclass(frozen=True, slots=True)
class TypeFacts:
    """One row of ``pg_type``, with domains resolved; the fields are those of ``ColumnDescription``."""

    type_name: str
    """As ``format_type`` prints it without a modifier."""
    declared_type: str
    base_type: str
    base_typmod: int
    kind: str
    element_type: str | None
    enum_labels: tuple[str, ...] | None

    def told_of(self, column: ColumnDescription) -> ColumnDescription:
        """The column with the facts of its type."""
        return replace(
            column,
            type_name=self.type_name if column.typmod < 0 else None,
            declared_type=self.declared_type,
            base_type=self.base_type,
            base_typmod=column.typmod if column.typmod >= 0 else self.base_typmod,
            kind=self.kind,
            element_type=self.element_type,
            enum_labels=self.enum_labels,
        )
