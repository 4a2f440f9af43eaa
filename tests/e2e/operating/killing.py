"""The end of a command at any moment: at a call of some function of walhouse's, in whatever thread."""

from __future__ import annotations

import math
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from tests.changes.killing import Killed

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator
    from types import FrameType

MODULES: Final = (
    "bronze/append", "bronze/beginning", "bronze/capture", "bronze/durable", "bronze/progress", "bronze/stream",
    "bronze/coverage", "bronze/requests/serve", "bronze/requests/teller", "bronze/requests/channels",
    "bronze/snapshots/whole", "bronze/snapshots/incremental", "bronze/snapshots/beside", "changes/epochs",
    "changes/layer", "changes/layers", "changes/relations", "gold/apply", "gold/merge", "gold/table", "silver/apply",
    "silver/table", "lakehouse/commits", "lakehouse/appends", "lakehouse/tables", "postgres/slot",
    "postgres/publication", "rounds",
)  # fmt: skip


@contextmanager
def killed_somewhere(chance: random.Random) -> Iterator[list[str]]:
    """What is done here ends at a call that is chosen by chance, if it comes so far. Yields where it did.

    Unlike after kill -9 (``test_killed``), what tidies up behind an exception runs.
    """
    module = chance.choice(MODULES)
    left = int(math.exp(chance.uniform(0, math.log(40))))
    where: list[str] = []

    def look(frame: FrameType, event: str, _: Any) -> None:
        nonlocal left
        if event == "call" and frame.f_code.co_filename.endswith(f"/walhouse/{module}.py"):
            left -= 1
            if left == 0:
                where.append(f"{module}:{frame.f_code.co_name}")
                raise Killed

    threading.setprofile(look)
    sys.setprofile(look)
    try:
        yield where
    except Killed:
        pass
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
