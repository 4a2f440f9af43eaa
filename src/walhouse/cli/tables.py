"""Tables on standard output.

Invariant: what is printed is one table and nothing else, as wide as its content where the output is no terminal, so
that it can be searched and cut.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from walhouse.lsn import Lsn

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_WIDE: Final = 10_000
_COLOURS: Final = {"error": "red", "different": "red", "warning": "yellow", "ok": "green", "equal": "green"}


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str | None = None) -> None:
    """Print rows; numbers stand right, None is empty, the words for good and bad have colours.

    LSNs are written as PostgreSQL writes them.
    """
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=_WIDE)
    table = Table(box=SIMPLE_HEAD, title=title, title_justify="left", pad_edge=False)
    cells = [list(row) for row in rows]
    for position, column in enumerate(columns):
        number = any(isinstance(row[position], int | float) and not isinstance(row[position], Lsn) for row in cells)
        table.add_column(Text(column), justify="right" if number else "left", overflow="fold")
    for row in cells:
        table.add_row(*(_cell(value) for value in row))
    console.print(table)


def _cell(value: object) -> Text:
    if value is None:
        return Text("")
    text = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool | Lsn) else str(value)
    return Text(text, style=_COLOURS.get(text, ""))
