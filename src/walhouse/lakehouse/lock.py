"""One writer at a time on a lake.

Invariant: every write to a lake happens while this lock is held. In a local folder it is a file: two processes can
commit the same Delta version over each other there. Elsewhere whoever opens the lake says what the lock is.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Protocol
from uuid import uuid4

from walhouse.errors import LakeLockedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path
    from typing import TextIO

    from walhouse.lakehouse.layout import LakeLayout

LOCK_FILE = ".walhouse.lock"


class Elsewhere(Protocol):
    """A lock that can be lost while it is held, other than a file's."""

    def require_held(self) -> None:
        """Raises an error if it was lost."""

    def regain(self) -> None:
        """Take it again if it was lost. Raises LakeLockedError."""


class WriteLock:
    """The lock of one lake, for one who writes to it again and again. ``elsewhere``: where there is no folder."""

    def __init__(
        self, layout: LakeLayout, elsewhere: Callable[[], AbstractContextManager[Elsewhere | None]] = nullcontext
    ) -> None:
        self._folder = layout.path
        self._elsewhere = elsewhere
        self._held: Elsewhere | None = None
        self._holder = f"{os.getpid()} {uuid4().hex}"

    @contextmanager
    def hold(self) -> Iterator[bool]:
        """Hold the lock; the kernel lets go of it when the process dies, however it dies. Raises LakeLockedError.

        Gives True if nobody else held it since this one did: what this one remembers of the lake is still so.
        """
        if self._folder is None:
            with self._elsewhere() as held:
                self._held = held
                try:
                    yield False
                finally:
                    self._held = None
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / LOCK_FILE).open("a+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise _locked(self._folder, _read(file)) from None
            last_holder = _read(file)
            file.truncate(0)
            file.write(self._holder)
            file.flush()
            yield last_holder == self._holder

    def require_held(self) -> None:
        """Raises an error if the lock, which was held, was lost: somebody else may write."""
        if self._held is not None:
            self._held.require_held()

    def regain(self) -> None:
        """Take the lock again if it was lost. Raises LakeLockedError: what was remembered of the lake may be untrue."""
        if self._held is not None:
            self._held.regain()


def _read(file: TextIO) -> str:
    file.seek(0)
    return file.read().strip()


def _locked(folder: Path, holder: str) -> LakeLockedError:
    pid = holder.split(" ", maxsplit=1)[0] or None
    return LakeLockedError(f"Process {pid or 'unknown'} is writing to the lake in {folder}.", path=str(folder), pid=pid)
