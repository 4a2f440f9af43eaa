"""``python -m benchmarks.lake_process``: walhouse in a process of its own, so that its cost can be told from others'.

Each line of standard input asks for one step: a configuration's path, a blank, and the step's name. Each
answers with one line of JSON: the seconds from the call to its return, and when each pass of bronze was durable, up to
which position. Spark and the houses stay open in between.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import TYPE_CHECKING, Final, TextIO

from benchmarks.table import TABLE
from walhouse.api import Walhouse
from walhouse.lakehouse.session import local_session
from walhouse.names import TableName

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from walhouse.lsn import Lsn


class Passes:
    """Notes when passes of bronze were durable, and up to which position; a ``Reporter``."""

    def __init__(self) -> None:
        self.seen: list[tuple[float, int]] = []

    def update(
        self, stage: str, *, rows: int = 0, lsn: Lsn | None = None, target: Lsn | None = None, detail: str = ""
    ) -> None:
        """Called after each pass of each layer."""
        del rows, target, detail
        if stage == "capture" and lsn is not None:
            self.seen.append((time.time(), int(lsn)))


def _incremental(house: Walhouse, passes: Passes) -> None:
    house.snapshot([TableName(*TABLE.split("."))])
    house.capture(passes)


_STEPS: Final[Mapping[str, Callable[[Walhouse, Passes], object]]] = {
    "capture": Walhouse.capture,
    "silver": Walhouse.silver,
    "gold": Walhouse.gold,
    "run": lambda house, passes: house.run(progress=passes),
    "incremental": _incremental,
}


def main() -> None:
    """Answer until standard input ends."""
    answers = _answers_of_its_own()
    spark = local_session(quick=False)
    houses: dict[str, Walhouse] = {}
    for request in sys.stdin:
        conf, step = request.rsplit(maxsplit=1)
        if conf not in houses:
            houses[conf] = Walhouse.open(conf, spark)
        begin, passes = time.monotonic(), Passes()
        _STEPS[step](houses[conf], passes)
        answer = {"seconds": time.monotonic() - begin, "passes": passes.seen}
        print(json.dumps(answer), file=answers, flush=True)


def _answers_of_its_own() -> TextIO:
    """Standard output for the answers alone; what the JVM writes there goes to standard error."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return answers


if __name__ == "__main__":
    main()
