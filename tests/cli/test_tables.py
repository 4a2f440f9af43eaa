"""Tables on standard output: positions are PostgreSQL's, numbers are for people."""

from __future__ import annotations

import re
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


def test_where_a_terminal_is_too_narrow_each_value_has_a_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    columns = ("table", "silver_unavailable", "silver_unconverted", "gold_upserted")
    rows = [("public.a_table", 1, 2_000, None), ("public.other", 3, 4, Lsn.parse("0/1728A28"))]

    def printed(width: int) -> list[list[str]]:
        monkeypatch.setenv("COLUMNS", str(width))
        print_table(columns, rows)
        plain = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
        return [line.split() for line in plain.splitlines() if line.strip(" ─")]

    narrow = printed(40)
    assert ["table", "public.a_table"] in narrow
    assert ["silver_unconverted", "2,000"] in narrow
    assert ["gold_upserted", "0/1728A28"] in narrow
    assert len(narrow) == 8
    assert printed(100)[1] == ["public.a_table", "1", "2,000"]


def test_a_word_is_not_cut_where_another_column_can_be_folded(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"FORCE_COLOR": "1", "TERM": "xterm", "COLUMNS": "40"}.items():
        monkeypatch.setenv(name, value)
    print_table(("name", "found"), [("max_slot_wal_keep_size", "a sentence that is longer than the line is wide")])
    assert "max_slot_wal_keep_size" in capsys.readouterr().out
