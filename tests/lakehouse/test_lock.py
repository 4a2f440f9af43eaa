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
from walhouse.lakehouse.lock import write_lock

if TYPE_CHECKING:
    from pathlib import Path

HOLD = """
import sys, time
from pathlib import Path
from walhouse.lakehouse.layout import LakeLayout
from walhouse.lakehouse.lock import write_lock
with write_lock(LakeLayout(path=Path(sys.argv[1]))):
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
    with pytest.raises(LakeLockedError) as refused, write_lock(layout):
        pass
    assert refused.value.fields["pid"] == str(first.pid)
    os.kill(first.pid, signal.SIGKILL)
    first.communicate()
    with write_lock(layout):
        assert (tmp_path / "lake" / ".walhouse.lock").read_text() == str(os.getpid())


def test_a_lake_in_a_catalog_needs_no_lock() -> None:
    with write_lock(LakeLayout(path=None)), write_lock(LakeLayout(path=None)):
        pass
