"""Tables on standard output: positions are PostgreSQL's, numbers are for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from walhouse.cli.tables import print_table
from walhouse.lsn import Lsn

if TYPE_CHECKING:
    import pytest


def test_an_lsn_is_written_as_postgresql_writes_it_and_a_number_with_separators(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_table(("at", "rows", "equal"), [(Lsn.parse("0/1728A28"), 24_283_688, True), (None, 0, False)])
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["0/1728A28", "24,283,688", "True"] in lines
    assert ["0", "False"] in lines
