from __future__ import annotations

import io
import json
import threading

import pytest
from rich.console import Console

from walhouse.cli.logs import LogFormat, set_up
from walhouse.cli.progress import Lines, Live, Progress, progress
from walhouse.lsn import Lsn


def test_elsewhere_than_on_a_terminal_there_are_plain_lines_one_at_the_start_and_one_at_the_end(
    capsys: pytest.CaptureFixture[str],
) -> None:
    set_up(LogFormat.TEXT)
    with progress(LogFormat.TEXT) as reporter:
        for position in range(1, 101):
            reporter.update("capture", rows=1000, lsn=Lsn(position), target=Lsn(100))
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert lines[0].endswith("capture: 1,000 rows, at 0/1, 99 bytes to go")
    assert lines[1].partition("capture: ")[2].startswith("100,000 rows")
    assert lines[1].endswith("at 0/64, done")


def test_a_line_is_written_every_few_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    set_up(LogFormat.TEXT)
    reporter = Progress(Lines(LogFormat.TEXT, seconds=0))
    for _ in range(3):
        reporter.update("gold", rows=1, detail="shop.orders")
    assert len(capsys.readouterr().err.splitlines()) == 3


def test_lines_are_json_if_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    set_up(LogFormat.JSON)
    with progress(LogFormat.JSON) as reporter:
        reporter.update("silver", rows=5, lsn=Lsn(10), target=Lsn(15), detail="shop.orders")
    first, last = map(json.loads, capsys.readouterr().err.splitlines())
    moment = first.pop("ts")
    assert moment.endswith("+00:00")
    assert first == {
        "level": "info",
        "message": "progress",
        "state": "working",
        "stage": "silver",
        "rows": 5,
        "lsn": "0/A",
        "target": "0/F",
        "bytes_to_go": 5,
        "detail": "shop.orders",
    }
    assert last["state"] == "done"


def test_a_failure_still_leaves_the_last_position_behind(capsys: pytest.CaptureFixture[str]) -> None:
    set_up(LogFormat.TEXT)

    def fail() -> None:
        with progress(LogFormat.TEXT) as reporter:
            reporter.update("capture", rows=1, lsn=Lsn(1))
            reporter.update("capture", rows=1, lsn=Lsn(2))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert capsys.readouterr().err.splitlines()[-1].endswith("capture: 2 rows, at 0/2, done")


def test_several_threads_may_report_and_no_row_is_lost(capsys: pytest.CaptureFixture[str]) -> None:
    set_up(LogFormat.JSON)
    with progress(LogFormat.JSON) as reporter:

        def work() -> None:
            for _ in range(500):
                reporter.update("gold", rows=1)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert json.loads(capsys.readouterr().err.splitlines()[-1])["rows"] == 2000


def test_a_terminal_keeps_one_line_for_each_stage() -> None:
    screen = io.StringIO()
    reporter = Progress(Live(Console(file=screen, force_terminal=True, width=100, highlight=False, color_system=None)))
    reporter.update("capture", rows=12_000, lsn=Lsn(5), target=Lsn(9))
    reporter.update("gold", rows=7, detail="shop.orders")
    reporter.done()
    last = screen.getvalue().splitlines()[-2:]
    assert "✓ capture 12,000 rows, at 0/5, 4 bytes to go" in last[0]
    assert "✓ gold    7 rows" in last[1]
