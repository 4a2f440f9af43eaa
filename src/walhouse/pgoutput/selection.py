"""What of the source's tables is kept, as the decoder and the snapshot ask for it.

Invariant: the stream and the snapshot keep the same columns of a table, since both ask ``kept_positions``; otherwise
the versions of their relations would differ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from walhouse.names import TableName
    from walhouse.pgoutput.column import ColumnDescription


class TableSelection(Protocol):
    """The configuration's choice of tables and columns. Must be picklable."""

    def captures(self, name: TableName) -> bool:
        """True if the table is captured."""
        ...

    def kept_columns(self, name: TableName, columns: Sequence[str], key: Sequence[str]) -> Sequence[int]:
        """Positions in ``columns`` of those that are kept; the columns of ``key`` always are."""
        ...


def kept_positions(
    selection: TableSelection,
    name: TableName,
    replica_identity: str,
    columns: Sequence[ColumnDescription],
    own_key: Sequence[str],
) -> tuple[int, ...]:
    """Positions of the kept columns among all published ones.

    What must be kept are the table's own key, which is in the keys of events, and the replica identity, by which rows
    are told; but for identity full, which flags every column, so that columns of such a table can be left out at all.
    """
    identity = () if replica_identity == "f" else (column.name for column in columns if column.identity)
    key = (*own_key, *identity)
    return tuple(selection.kept_columns(name, [column.name for column in columns], key))
