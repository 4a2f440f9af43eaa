"""A scenario: one behaviour as a small SQL file, with the connector's properties under which it is looked at.

    -- numeric without a precision keeps its own scale.
    -- reference: 4.2
    -- needs: postgis
    -- with: tombstones.on.delete = false
    -- variants: decimal.handling.mode = precise | double | string
    CREATE TABLE t (id int PRIMARY KEY, n numeric);
    -- changes
    INSERT INTO t VALUES (1, 1.50);

The first comment lines say what the behaviour is. Statements before ``-- changes`` come before the slots, the others
are what is captured; each is a transaction of its own unless it stands between BEGIN and COMMIT. With a line
``-- snapshot`` in its place what is captured is the initial snapshot of what was set up. A line ``-- pass`` ends what
is captured at once, where a scenario is followed live (``oracle.live``). ``-- needs`` names
what a server may lack, an extension or xml: the scenario is left out there. ``-- with`` holds for all variants; the
variants of several lines are combined one line at a time, not crosswise.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

FOLDER: Final = Path(__file__).resolve().parent.parent / "fixtures" / "scenarios"

LIVE: Final = FOLDER / "live"
"""Scenarios that mean nothing unless they are followed."""

PUBLICATION: Final = "FOR ALL TABLES"

_DIRECTIVE: Final = re.compile(r"-- (reference|needs|with|variants|publication): *(.*)")
_STATEMENT: Final = re.compile(r".+?;[ \t]*(?:--[^\n]*)?$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Scenario:
    """One file. ``variants``: the connector's properties beyond the fixed ones, by a name for people."""

    name: str
    title: str
    references: tuple[str, ...]
    setup: tuple[str, ...]
    changes: tuple[str, ...]
    variants: Mapping[str, Mapping[str, str]]
    publication: str = PUBLICATION
    needs: tuple[str, ...] = ()
    passes: tuple[tuple[str, ...], ...] = ()
    """The changes in parts, each of which is captured before the next is made."""
    may_be_refused: bool = False
    """Whether the server may refuse changes (a key that is there already): then they, or their transaction, are not."""

    @property
    def is_snapshot(self) -> bool:
        """Whether the initial snapshot is what is compared."""
        return not self.changes


def scenarios(folder: Path = FOLDER) -> list[Scenario]:
    """All scenarios, by name."""
    return [read_scenario(path) for path in sorted(folder.glob("*.sql"))]


def read_scenario(path: Path) -> Scenario:
    """Read one file. Raises ValueError if it lacks a title, a reference or changes."""
    return parse_scenario(path.stem, path.read_text(encoding="utf-8"))


def parse_scenario(name: str, text: str) -> Scenario:
    """Read a scenario's text."""
    head, separator, changes = text.partition("\n-- changes\n")
    passes = tuple(_statements(part) for part in changes.split("\n-- pass\n"))
    head, snapshot, _ = head.partition("\n-- snapshot\n")
    comments = [line for line in head.splitlines() if line.startswith("--")]
    directives = [(found[1], found[2]) for line in comments if (found := _DIRECTIVE.fullmatch(line))]
    title = " ".join(line.removeprefix("--").strip() for line in comments if not _DIRECTIVE.fullmatch(line))
    references = _names("reference", directives)
    if not (title and references and (snapshot or (separator and changes.strip()))):
        raise ValueError(
            f"{name}: a scenario has a title, a reference and a line '-- changes' with statements after it, or a line "
            "'-- snapshot'."
        )
    common = dict(_property(value) for kind, value in directives if kind == "with")
    return Scenario(
        name=name,
        title=title,
        references=references,
        setup=_statements(head),
        changes=tuple(chain.from_iterable(passes)),
        passes=passes,
        variants=_variants(common, [value for kind, value in directives if kind == "variants"]),
        publication=next((value for kind, value in directives if kind == "publication"), PUBLICATION),
        needs=_names("needs", directives),
    )


def _names(directive: str, directives: list[tuple[str, str]]) -> tuple[str, ...]:
    return tuple(each.strip() for kind, value in directives if kind == directive for each in value.split(","))


def _variants(common: Mapping[str, str], lines: list[str]) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for line in lines:
        name, values = _property(line)
        for value in values.split("|"):
            found[f"{name}={value.strip()}"] = {**common, name: value.strip()}
    return found or {"default": dict(common)}


def _property(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name.strip(), value.strip()


def _statements(text: str) -> tuple[str, ...]:
    bare = "\n".join(line for line in text.splitlines() if line.strip() and not line.startswith("--"))
    return tuple(found[0].strip() for found in _STATEMENT.finditer(bare))
