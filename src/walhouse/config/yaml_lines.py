"""YAML, flattened to dotted paths with their lines.

Invariant: every scalar is the text that stands in the file (a password ``0123`` stays ``0123``, ``on`` stays ``on``):
types are the models' matter. No message quotes a value, or the salt that the name of a mask holds.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

import yaml

from walhouse.config.masks import without_salt

_QUOTED: str = r"'(?!<)[^']{2,}'"


class Entry(NamedTuple):
    """One value: a text or a list of texts, and the line (from 1) where its key stands."""

    value: str | list[str]
    line: int


class Problem(NamedTuple):
    """What is wrong at one place. ``path`` is dotted, empty for the whole file; ``line`` is None if there is none."""

    path: str
    line: int | None
    text: str

    @property
    def place(self) -> str:
        """The path as it may be shown."""
        return without_salt(self.path)

    def __str__(self) -> str:
        place = self.place or "the file"
        return f"{place}{'' if self.line is None else f' (line {self.line})'}: {self.text}"


@dataclass
class FlatYaml:
    """What was read. Keys without a value (``key:`` or ``key: null``) are left out, as if they were not there."""

    entries: dict[str, Entry] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    """Also of keys that hold a mapping, or nothing."""
    problems: list[Problem] = field(default_factory=list)


def flatten(text: str) -> FlatYaml:
    """Read one document. ``a: {b.c: x}`` and ``a.b: {c: x}`` both give the path ``a.b.c``."""
    flat = FlatYaml()
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        flat.problems.append(_syntax_problem(error))
        return flat
    if root is None:
        return flat
    if not isinstance(root, yaml.MappingNode):
        flat.problems.append(Problem("", None, "must be a mapping with the sections connector and lake"))
        return flat
    _add_mapping(flat, root, "", frozenset())
    return flat


def _syntax_problem(error: yaml.YAMLError) -> Problem:
    mark = getattr(error, "problem_mark", None)
    reason = re.sub(_QUOTED, "'…'", getattr(error, "problem", None) or "not readable")
    return Problem("", None if mark is None else mark.line + 1, f"is not valid YAML: {reason}")


def _add_mapping(flat: FlatYaml, mapping: yaml.MappingNode, prefix: str, above: frozenset[int]) -> None:
    for key, value in mapping.value:
        line = key.start_mark.line + 1
        if not isinstance(key, yaml.ScalarNode):
            flat.problems.append(Problem(prefix.rstrip("."), line, "a key must be a plain name"))
            continue
        _add(flat, f"{prefix}{key.value}", line, value, above | {id(mapping)})


def _add(flat: FlatYaml, path: str, line: int, value: yaml.Node, above: frozenset[int]) -> None:
    if path in flat.lines and not (isinstance(value, yaml.MappingNode) and path not in flat.entries):
        flat.problems.append(Problem(path, line, f"given twice, first in line {flat.lines[path]}"))
        return
    flat.lines.setdefault(path, line)
    match value:
        case yaml.MappingNode() if id(value) in above:
            flat.problems.append(Problem(path, line, "an alias must not contain itself"))
        case yaml.MappingNode():
            _add_mapping(flat, value, f"{path}.", above)
        case yaml.SequenceNode() if all(isinstance(item, yaml.ScalarNode) for item in value.value):
            flat.entries[path] = Entry([item.value for item in value.value], line)
        case yaml.ScalarNode() if value.tag == "tag:yaml.org,2002:null":
            pass
        case yaml.ScalarNode() if value.tag.startswith("!"):
            flat.problems.append(Problem(path, line, "a text that begins with ! is to be quoted"))
        case yaml.ScalarNode():
            flat.entries[path] = Entry(value.value, line)
        case _:
            flat.problems.append(Problem(path, line, "a list may hold plain values only"))
