"""What goes on beside a measurement.

Invariant: what fails there fails the measurement, which would otherwise be of something else.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psycopg

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def repeated(dsn: str, action: Callable[[psycopg.Connection[Any]], None], *, pause_seconds: float) -> Iterator[None]:
    """Do something again and again while the context lasts, on a connection of its own. Raises what it raised."""
    stop = threading.Event()

    def repeat() -> None:
        with psycopg.connect(dsn, autocommit=True) as connection:
            while not stop.wait(pause_seconds):
                action(connection)

    with ThreadPoolExecutor(1) as pool:
        repeating = pool.submit(repeat)
        try:
            yield
        finally:
            stop.set()
        repeating.result()
