"""One writer at a time on a local lake."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from walhouse.errors import LakeLockedError
from walhouse.lakehouse.layout import LakeLayout
from walhouse.lakehouse.lock import WriteLock

if TYPE_CHECKING:
    from pathlib import Path

HOLD = """
import sys, time
from pathlib import Path
from walhouse.lakehouse.layout import LakeLayout
from walhouse.lakehouse.lock import WriteLock
with WriteLock(LakeLayout(path=Path(sys.argv[1]))).hold():
    print("held", flush=True)
    time.sleep(60)
"""


def holder(folder: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(folder)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_a_second_process_is_refused_with_the_first_ones_pid_and_gets_the_lock_when_that_is_killed(
    tmp_path: Path,
) -> None:
    layout = LakeLayout(path=tmp_path / "lake")
    first = holder(tmp_path / "lake")
    with pytest.raises(LakeLockedError) as refused, WriteLock(layout).hold():
        pass
    assert refused.value.fields["pid"] == str(first.pid)
    os.kill(first.pid, signal.SIGKILL)
    first.communicate()
    with WriteLock(layout).hold():
        assert (tmp_path / "lake" / ".walhouse.lock").read_text().split()[0] == str(os.getpid())


def test_the_holder_is_told_whether_somebody_else_held_the_lock_since(tmp_path: Path) -> None:
    mine, other = WriteLock(LakeLayout(path=tmp_path)), WriteLock(LakeLayout(path=tmp_path))

    def undisturbed(lock: WriteLock) -> bool:
        with lock.hold() as nobody_since:
            return nobody_since

    assert [undisturbed(lock) for lock in (mine, mine, other, mine, mine)] == [False, True, False, False, True]


def test_a_lake_in_a_catalog_needs_no_lock() -> None:
    with WriteLock(LakeLayout(path=None)).hold() as first, WriteLock(LakeLayout(path=None)).hold() as second:
        assert not first  # so what is remembered is read anew each time
        assert not second
