"""Tables on standard output.

Invariant: what is printed is one table and nothing else, as wide as its content where the output is no terminal, so
that it can be searched and cut. On a terminal no word is cut that has room on a line of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from walhouse.lsn import Lsn

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_WIDE: Final = 10_000
_BETWEEN: Final = 3
"""What stands between two columns."""
_COLOURS: Final = {"error": "red", "different": "red", "warning": "yellow", "ok": "green", "equal": "green"}


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str | None = None) -> None:
    """Print rows; numbers stand right, None is empty, the words for good and bad have colours.

    LSNs are written as PostgreSQL writes them. Where a terminal is too narrow for the words of a row to stand side by
    side, they stand one below another, each with its column's name.
    """
    console = Console(highlight=False)
    values = [list(row) for row in rows]
    cells = [[_cell(value) for value in row] for row in values]
    if not console.is_terminal:
        console = Console(highlight=False, width=_WIDE)
    least = _least_widths(columns, cells)
    if console.is_terminal and sum(least) + _BETWEEN * len(columns) > console.width:
        console.print(_records(columns, cells, title))
        return
    table = Table(box=SIMPLE_HEAD, title=title, title_justify="left", pad_edge=False)
    for position, column in enumerate(columns):
        number = any(isinstance(row[position], int | float) and not isinstance(row[position], Lsn) for row in values)
        justify: Literal["left", "right"] = "right" if number else "left"
        table.add_column(Text(column), justify=justify, overflow="fold", min_width=least[position])
    for row in cells:
        table.add_row(*row)
    console.print(table)


def _least_widths(columns: Sequence[str], cells: Sequence[Sequence[Text]]) -> list[int]:
    """What each column takes at least, if none of its words is to be cut."""
    texts = [[column, *(row[place].plain for row in cells)] for place, column in enumerate(columns)]
    return [max((cell_len(word) for text in column for word in text.split()), default=0) for column in texts]


def _records(columns: Sequence[str], cells: Sequence[Sequence[Text]], title: str | None) -> Table:
    """A line for each value, and one between two rows."""
    table = Table(box=SIMPLE_HEAD, title=title, title_justify="left", pad_edge=False, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for row in cells:
        for place, (column, cell) in enumerate(zip(columns, row, strict=True), start=1):
            table.add_row(Text(column), cell, end_section=place == len(columns))
    return table


def _cell(value: object) -> Text:
    if value is None:
        return Text("")
    text = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool | Lsn) else str(value)
    return Text(text, style=_COLOURS.get(text, ""))
