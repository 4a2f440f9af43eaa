"""One writer at a time on a lake in a local folder.

Invariant: every write to a local lake happens while this lock is held. Two processes can commit the same Delta version
over each other on a local file system; object stores and catalogs decide such races themselves and need no lock here.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from walhouse.errors import LakeLockedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from walhouse.lakehouse.layout import LakeLayout

LOCK_FILE = ".walhouse.lock"


@contextmanager
def write_lock(layout: LakeLayout) -> Iterator[None]:
    """Hold the lake's lock; the kernel lets go of it when the process dies, however it dies. Raises LakeLockedError."""
    if layout.path is None:
        yield
        return
    layout.path.mkdir(parents=True, exist_ok=True)
    path = layout.path / LOCK_FILE
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            pid = file.read().strip() or None
            raise LakeLockedError(
                f"Process {pid or 'unknown'} is writing to the lake in {layout.path}.", path=str(layout.path), pid=pid
            ) from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield
