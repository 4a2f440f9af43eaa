"""What is left of a reading of whole tables after some of its pieces, and what is told of it."""

from __future__ import annotations

import pytest

from tests.bronze.snapshots.test_pieces import KEYED, T, chunks
from walhouse.bronze.requests.notifications import Event, RowsOf
from walhouse.bronze.snapshots.outcome import after_pieces, require_passable
from walhouse.bronze.snapshots.pieces import pieces_of
from walhouse.bronze.snapshots.reading import WholeKind, WholeReading, WholeTable
from walhouse.errors import SourceUnreachableError, TableChangedError
from walhouse.names import TableName

OTHER = WholeTable(TableName("s", "other"), pages=7)
READING = WholeReading("r", WholeKind.BLOCKING, (WholeTable(T), OTHER), pages_done=2)


def test_a_table_is_told_to_begin_once_and_with_its_last_piece_its_pages_are_done() -> None:
    mark, first, last = pieces_of(WholeTable(T), KEYED, chunks([3, 1], WholeTable(T), 4), files="f", first=5)
    begun, told = after_pieces(READING, [mark, first])
    assert (begun.tables, begun.pages_done) == ((first.after, OTHER), 2)
    assert [note.type for note in told] == [Event.IN_PROGRESS]
    left, told = after_pieces(begun, [last])
    assert (left.tables, left.pages_done) == ((OTHER,), 6)
    assert [(note.type, note.rows_of) for note in told] == [(Event.TABLE_SCAN_COMPLETED, RowsOf("blocking-r", *T, 5))]


@pytest.mark.parametrize(
    ("kind", "error", "is_passable"),
    [
        (WholeKind.BLOCKING, TableChangedError("It changed.", table=str(T)), True),
        (WholeKind.BLOCKING, TableChangedError("It changed.", table="s.unknown"), False),
        (WholeKind.BLOCKING, SourceUnreachableError("It is away.", table=str(T)), False),
        (WholeKind.INITIAL, TableChangedError("It changed.", table=str(T)), False),
    ],
)
def test_a_table_is_passed_over_only_if_a_signal_asked_for_it_and_the_fault_is_its_own(
    kind: WholeKind, error: TableChangedError | SourceUnreachableError, *, is_passable: bool
) -> None:
    reading = WholeReading("r", kind, READING.tables)
    if is_passable:
        require_passable(reading, error)
        return
    with pytest.raises(type(error)):
        require_passable(reading, error)
