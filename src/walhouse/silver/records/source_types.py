"""What a field's schema tells of its column on the source, as parameters: what Debezium adds where it is asked to.

Invariant: lengths and scales are those of PostgreSQL's JDBC driver (``types.lengths``).
Source: Debezium 3.6, PostgreSQL connector, ``column.propagate.source.type``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from walhouse.silver.types.lengths import can_be_cut, length, scale

if TYPE_CHECKING:
    from walhouse.names import TableName
    from walhouse.pgoutput.column import ColumnDescription
    from walhouse.silver.settings import ColumnNotes

_PREFIX: Final = "__debezium.source.column"


def note_parameters(table: TableName, column: ColumnDescription, notes: ColumnNotes) -> dict[str, str]:
    """The parameters of a column's field beyond its type's own, in Debezium's order."""
    limit = notes.truncated_to(table, column.name)
    if limit is not None:
        # Debezium tells it of any type, and never of a column that is too short to be cut
        return {"truncateLength": str(limit)} if can_be_cut(column, limit) else {}
    if notes.is_masked(table, column.name):
        return {"masked": "true"}
    name = column.declared_type or column.resolved_type
    if name is None or not notes.tells_source(table, column.name, name):
        return {}
    known = {"type": name.upper(), "length": length(column), "scale": scale(column), "name": column.name}
    return {f"{_PREFIX}.{fact}": str(value) for fact, value in known.items() if value != -1}
