"""``make bench``: measure, print, write ``results/bench.json``; ``--readme`` puts its table into README.md."""

from __future__ import annotations

import argparse
import json
import re
import shutil
from pathlib import Path
from typing import Final

from benchmarks.measure import Bench, Measurement
from benchmarks.report import RESULT, report, table, write
from fixtures.server import EmbeddedServer

_ROOT: Final = Path(__file__).resolve().parent.parent
_FOLDER: Final = _ROOT / ".walhouse" / "bench"
_README_TABLE: Final = re.compile(r"(<!-- benchmark -->\n).*?(\n<!-- /benchmark -->)", re.DOTALL)


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--changes", type=int, default=1_000_000, help="changes to stream, a multiple of 1,000")
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of the initial snapshot, at least 20,000")
    parser.add_argument("--warm-up", type=int, default=300_000, help="rows and changes of a round that is not counted")
    parser.add_argument("--rounds", type=int, default=4, help="how many such rounds, at least 1")
    parser.add_argument("--writer", choices=("arrow", "spark"), default="arrow", help="lake.writer of walhouse's lake")
    parser.add_argument("--out", type=Path, default=RESULT, help="where the figures go")
    parser.add_argument("--readme", action="store_true", help="only put the table of the last run into README.md")
    options = parser.parse_args()
    if options.readme:
        _fill_readme()
        return
    if options.changes % 1_000 or options.warm_up % 1_000 or min(options.rows, options.warm_up) < 20_000:
        parser.error("changes and warm-up are multiples of 1,000; rows and warm-up are at least 20,000")
    if options.rounds < 1:
        parser.error("at least one round of warm-up")
    sizes = (options.rows, options.changes, options.warm_up, options.rounds)
    result = report(_measure(Measurement(*sizes, writer=options.writer)))
    write(result, options.out)
    print(f"\n{table(result)}\n\nFigures: {options.out}")


def _measure(measurement: Measurement) -> Measurement:
    """Measure on a server and a lake of their own, which are removed again; unpacked jars stay for the next time."""
    _FOLDER.mkdir(parents=True, exist_ok=True)
    _clean()
    try:
        with EmbeddedServer.start(_FOLDER / "postgres", settings={"max_wal_size": "16GB"}) as server:
            Bench(_FOLDER, server, measurement, lambda text: print(text, flush=True)).run()
    finally:
        _clean()
    return measurement


def _clean() -> None:
    for part in (_FOLDER / "postgres", *_FOLDER.glob("lake-*")):
        shutil.rmtree(part, ignore_errors=True)


def _fill_readme() -> None:
    readme = _ROOT / "README.md"
    text = readme.read_text(encoding="utf-8")
    figures = table(json.loads(RESULT.read_text(encoding="utf-8")))
    readme.write_text(_README_TABLE.sub(lambda match: f"{match[1]}{figures}{match[2]}", text), encoding="utf-8")


if __name__ == "__main__":
    main()
