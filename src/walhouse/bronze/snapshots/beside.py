"""Passes of chunks beside the stream: written in a thread, while passes over the WAL that come after them are written.

Invariant: a pass of chunks has its number before it is read, and bronze is open from there on, so that no layer uses
what the stream brings meanwhile without it. Who goes on with a lake first makes sure that no such pass of another
process can come any more, then takes over the one that came.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from walhouse.bronze.progress import Progress

    Written = tuple[Progress, int]
    """A pass of chunks that is in bronze: what it came to, and how many rows it has."""

STREAM_SECONDS: Final = 1.0
"""Pause before the stream is looked at, again and again, while chunks are read."""


class Following:
    """Follows the stream while chunks are read."""

    def __init__(self, follow: Callable[[], bool]) -> None:
        """``follow``: what the source wrote since, in one pass; False if that has to wait for the chunks."""
        self._follow = follow
        self.failure: Exception | None = None
        """Why the stream was not followed further. The chunks have no part in it, so it is raised after them."""

    def beside(self, work: Callable[[], Written]) -> Written:
        """What the work returns or raises, which writes a pass of chunks."""
        with ThreadPoolExecutor(1) as pool:
            writing = pool.submit(work)
            while self.failure is None and not wait([writing], timeout=STREAM_SECONDS).done:
                try:
                    if not self._follow():
                        break
                except Exception as failure:  # noqa: BLE001  (raised by who reads it)
                    self.failure = failure
        return writing.result()


def taken_over(
    progress: Progress, save: Callable[[Progress, bool], Progress], read: Callable[[int], Progress | None]
) -> Progress:
    """From where this process goes on, another one having left ``progress`` as the last in bronze.

    It may have been about to write one pass of chunks and one of the stream. ``save`` writes the following pass,
    counted among those of chunks or not: then Delta takes none any more that has a smaller number. ``read``: the
    progress of a pass that is in bronze.
    """
    upcoming = (progress.pass_number + 1, progress.pass_number + 2)
    awaited = (*progress.awaited, *upcoming)
    state = replace(
        progress, pass_number=upcoming[-1], awaited=awaited, open_since=progress.open_since or min(upcoming)
    )
    for as_chunks in (True, False):
        state = save(state, as_chunks)
    came = [each for number in awaited if (each := read(number)) is not None]
    chunks = max((each for each in came if each.is_of_chunks), key=_number, default=None)
    stream = max((each for each in came if not each.is_of_chunks), key=_number, default=None)
    if stream is None:
        return replace(state, awaited=()) if chunks is None else state.taking(chunks)
    state = replace(stream, pass_number=state.pass_number, source=state.source)
    if chunks is not None and chunks.pass_number in stream.awaited:
        state = state.taking(chunks)
    return save(replace(state, awaited=()), False)  # noqa: FBT003  (not as chunks)


def _number(progress: Progress) -> int:
    return progress.pass_number
