"""``python -m demo``: the whole path on a real PostgreSQL, with a proof at the end.

Exit code 0: every gold table is proven equal to its source. 1: one is not, or something went wrong.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from rich.console import Console

from demo.place import DemoError, Place
from demo.screen import Screen
from demo.story import Story
from fixtures.shop.rows import Scale
from walhouse.errors import WalhouseError

if TYPE_CHECKING:
    from collections.abc import Sequence

_ROOT = Path(__file__).resolve().parent.parent


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo, or remove it."""
    options = _options().parse_args(arguments)
    terminal: TextIO = sys.stdout
    try:
        place = Place.of(options.conf)
        if options.clean:
            place.clean()
            print(f"Nothing is left of the demo in {place.folder}.")
            return 0
        terminal = _terminal_of_its_own(place.log)
        console = Console(file=terminal, width=None if terminal.isatty() else 110)
        story = Story(place, Screen(console), Scale(customers=options.customers, orders=2 * options.customers))
        return 0 if story.tell(options.transactions, options.rate) else 1
    except (DemoError, WalhouseError) as error:
        print(f"\n{error}", file=terminal, flush=True)
        return 1
    except KeyboardInterrupt:
        print("\nStopped. Run it again: it goes on from here.", file=terminal, flush=True)
        return 1
    except Exception:  # noqa: BLE001  (standard error is the log now; the person at the terminal is told here)
        Console(file=terminal).print_exception()
        return 1


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m demo", description="A shop on PostgreSQL into a proven lakehouse.")
    parser.add_argument("--conf", type=Path, default=_ROOT / "conf" / "demo.yml", help="configuration of the demo")
    parser.add_argument("--clean", action="store_true", help="stop the server and remove everything the demo made")
    parser.add_argument("--customers", type=int, default=2_000, help="size of a new shop")
    parser.add_argument("--transactions", type=int, default=1_500, help="what happens in the shop during this run")
    parser.add_argument("--rate", type=float, default=60, help="transactions a second")
    return parser


def _terminal_of_its_own(log: Path) -> TextIO:
    """Standard output for the demo alone; what Spark's JVM writes to the process's outputs goes to the log."""
    log.parent.mkdir(parents=True, exist_ok=True)
    sys.stdout.flush()
    terminal = os.fdopen(os.dup(1), "w", encoding="utf-8")
    with log.open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    return terminal


if __name__ == "__main__":
    sys.exit(main())
