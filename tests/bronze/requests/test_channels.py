"""Signals by the lake's table and by a file: each is read until it is durable, and none is lost or read by halves."""

from __future__ import annotations

import json
import os
import re
import shutil
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.bronze.test_progress import PROGRESS
from walhouse.bronze.progress import NO_SIGNALS
from walhouse.bronze.requests.channels import SignalChannels, SignalSettings, ensure_signals, give_signal
from walhouse.bronze.requests.signals import Signal
from walhouse.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from walhouse.lakehouse.layout import LakeLayout

pytestmark = pytest.mark.spark


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "signals.txt"


@pytest.fixture
def channels(spark: SparkSession, lake: LakeLayout, file: Path) -> SignalChannels:
    return SignalChannels(spark, lake, SignalSettings(file=file, poll_seconds=0))


def ids(channels: SignalChannels, *, forget: bool = True) -> list[str]:
    found = channels.read(PROGRESS)
    if forget:
        channels.forget(found)
    return [each.id for each in found.signals]


def lines(*names: str) -> str:
    return "".join(f'{{"id": "{name}", "type": "log"}}\n' for name in names)


def test_a_file_is_read_again_until_its_signals_are_durable(channels: SignalChannels, file: Path) -> None:
    file.write_text(lines("a", "b"))
    file.chmod(0o662)
    assert ids(channels, forget=False) == ids(channels) == ["a", "b"]
    assert ids(channels) == []
    assert (file.read_text(), file.stat().st_mode & 0o777) == ("", 0o662), "who may only write to it goes on"


def test_a_file_that_was_emptied_right_before_it_was_taken_holds_up_nothing(
    channels: SignalChannels, file: Path
) -> None:
    taken = file.with_name("signals.txt.taken")
    taken.touch()
    file.write_text(lines("a"))
    assert ids(channels) == [], "its writer may be at work"
    os.utime(taken, (1, 1))
    assert ids(channels) == ["a"]


def test_a_file_is_found_behind_a_link_and_made_again_where_a_process_died_before_it_was(
    channels: SignalChannels, file: Path, tmp_path: Path
) -> None:
    real = tmp_path / "elsewhere.txt"
    real.write_text(lines("a"))
    file.symlink_to(real)
    assert ids(channels, forget=False) == ["a"]
    real.unlink()
    assert ids(channels) == ["a"]
    with real.open("a") as appending:
        appending.write(lines("b"))
    assert (ids(channels), ids(channels), file.is_symlink()) == (["b"], [], True)


def test_what_is_written_while_a_file_is_followed_comes_after_it(channels: SignalChannels, file: Path) -> None:
    file.write_text(lines("a"))
    with file.open("a") as opened_before:
        found = channels.read(PROGRESS)
        file.write_text(lines("over it"))
        opened_before.write(lines("behind it"))
    channels.forget(found)
    assert ids(channels) == ["behind it"]
    assert ids(channels) == ["over it"]
    assert ids(channels) == []


def test_a_line_that_is_being_written_is_waited_for_and_a_last_one_without_an_end_is_one(
    channels: SignalChannels, file: Path
) -> None:
    file.write_text(lines("a") + '{"id": "b", ')
    assert ids(channels) == []
    with file.open("a") as appending:
        appending.write('"type": "log"}')
    assert ids(channels) == []
    os.utime(file, (time.time() - 60, time.time() - 60))
    assert ids(channels) == ["a", "b"]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"\xef\xbb\xbf" + lines("a").encode(), ["a"]),
        (lines("a\u2028b", "c\u0085").encode(), ["a\u2028b", "c\u0085"]),
        (lines("a").replace("\n", "\r\n\r\n").encode(), ["a"]),
        (b"[" * 100_000 + b"\n" + b"9" * 5000 + b"\n", ["line 1", "line 2"]),
    ],
)
def test_a_line_ends_at_a_line_feed_and_nothing_in_it_stops_capture(
    content: bytes, expected: list[str], channels: SignalChannels, file: Path
) -> None:
    file.write_bytes(content)
    assert ids(channels) == expected


@pytest.mark.parametrize("nothing", ["\n", " \r\n\n", "\ufeff"])
def test_blank_lines_hold_up_no_signal_that_comes_after_them(
    nothing: str, channels: SignalChannels, file: Path
) -> None:
    """As ``echo > file`` leaves one: nobody follows it, so nobody says that it need not be read again."""
    file.write_text(nothing)
    os.utime(file, (1, 1))
    assert ids(channels, forget=False) == []
    file.write_text(lines("a"))
    assert ids(channels) == ["a"]


def test_no_line_is_lost_of_one_who_appends_all_the_while(channels: SignalChannels, file: Path) -> None:
    def append() -> None:
        for number in range(3000):
            with file.open("a") as appending:
                appending.write(lines(str(number)))

    writer = threading.Thread(target=append)
    writer.start()
    found: list[str] = []
    rounds_after = 3
    while writer.is_alive() or (rounds_after := rounds_after - 1) >= 0:
        read = channels.read(PROGRESS)
        found += [each.id for each in read.signals]
        time.sleep(0.05)  # it takes longer than this until they are durable, and who had opened the file wrote by then
        channels.forget(read)
    assert sorted(found, key=int) == [str(number) for number in range(3000)]


def test_a_file_that_cannot_be_taken_is_named(
    channels: SignalChannels, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root may write to any folder: the refusal of the operating system is simulated."""
    file.write_text(lines("a"))

    def refused(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.rename", refused)
    with pytest.raises(ConfigurationError, match=r"signals.txt cannot be taken: Permission denied"):
        channels.read(PROGRESS)
    assert file.read_text() == lines("a")


@pytest.mark.slow
def test_a_table_of_signals_that_was_made_again_is_read_from_its_beginning(
    spark: SparkSession, lake: LakeLayout, channels: SignalChannels
) -> None:
    position = NO_SIGNALS

    def given(name: str) -> list[str]:
        nonlocal position
        give_signal(spark, lake, Signal(name, "log", "{}"))
        found = channels.read(replace(PROGRESS, signals=position))
        position = found.position
        return [each.id for each in found.signals]

    assert given("a") == ["a"]
    spark.sql(f"DROP TABLE {lake.ops('signals')}")
    shutil.rmtree(lake.folder(lake.ops("signals")))
    assert given("b") == ["b"], "its versions are those that were read of the other"
    assert given("c") == ["c"]


def test_the_insert_that_operations_gives_asks_for_that_table(
    spark: SparkSession, lake: LakeLayout, channels: SignalChannels
) -> None:
    """Spark takes one of two backslashes out of a text that is not raw, and what is left is no JSON."""
    documented = Path(__file__).parents[3] / "docs" / "OPERATIONS.md"
    [insert] = re.findall(r"`(INSERT INTO ops\.signals .*?)`", documented.read_text("utf-8"))
    ensure_signals(spark, lake)
    spark.sql(insert.replace("ops.signals", str(lake.ops("signals"))))
    [signal] = channels.read(replace(PROGRESS, signals=NO_SIGNALS)).signals
    assert signal.type == "execute-snapshot"
    assert json.loads(signal.data or "") == {"data-collections": [r"shop\.orders"]}
