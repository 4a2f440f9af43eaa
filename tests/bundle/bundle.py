"""The bundle's files as the Databricks command line puts them together for a target, as far as one can without it.

Invariant: a key that appears twice, a reference to nothing, and a variable without a value are errors.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT: Final = Path(__file__).resolve().parents[2]
REFERENCE: Final = re.compile(r"\$\{([A-Za-z0-9_.\[\]-]+)\}")

Tree = dict[str, Any]


class _UniqueKeys(yaml.SafeLoader):
    """YAML in which a key given twice is an error, and not the last one silently."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        if twice := {key for key in keys if keys.count(key) > 1}:
            raise ValueError(f"{node.start_mark.name}: {sorted(twice)} given twice")
        return super().construct_mapping(node, deep=deep)


def read(file: Path) -> Tree:
    """One YAML file."""
    tree = yaml.load(file.read_text(encoding="utf-8"), Loader=_UniqueKeys)
    assert isinstance(tree, dict), f"{file} is not a mapping"
    return tree


@dataclass(frozen=True)
class Resource:
    """One resource, and the file that defines it."""

    kind: str
    key: str
    body: Tree
    file: Path


def root() -> Tree:
    """databricks.yml."""
    return read(ROOT / "databricks.yml")


def included() -> dict[str, list[Path]]:
    """The files that each include pattern matches."""
    return {pattern: sorted(ROOT.glob(pattern)) for pattern in root()["include"]}


def resources() -> list[Resource]:
    """All resources of all files."""
    found = []
    for file in (ROOT / "databricks.yml", *(file for files in included().values() for file in files)):
        for kind, entries in read(file).get("resources", {}).items():
            found += [Resource(kind, key, body, file) for key, body in entries.items()]
    return found


def targets() -> list[str]:
    """The targets' names."""
    return list(root()["targets"])


def for_target(target: str) -> tuple[Tree, list[Resource]]:
    """The target's settings and all resources, with ``${var.*}`` resolved."""
    known = values(target)
    settings = resolve(root()["targets"][target], known)
    assert isinstance(settings, dict)
    return settings, [Resource(each.kind, each.key, resolve(each.body, known), each.file) for each in resources()]


def values(target: str) -> dict[str, Any]:
    """What every variable is in a target. A variable that is set but not declared is an error."""
    declared = root()["variables"]
    given = root()["targets"][target].get("variables", {})
    assert set(given) <= set(declared), f"{target} sets undeclared variables: {set(given) - set(declared)}"
    found = {f"var.{name}": given.get(name, body.get("default")) for name, body in declared.items()}
    return {name: resolve(value, found) for name, value in found.items()}


def resolve(tree: Any, known: Mapping[str, Any]) -> Any:
    """The tree with known references replaced; references to the workspace and to resources stay."""
    if isinstance(tree, dict):
        return {key: resolve(value, known) for key, value in tree.items()}
    if isinstance(tree, list):
        return [resolve(value, known) for value in tree]
    if not isinstance(tree, str):
        return tree
    whole = REFERENCE.fullmatch(tree)
    if whole and whole[1] in known:
        return known[whole[1]]
    return REFERENCE.sub(lambda match: str(known.get(match[1], match[0])), tree)


def texts(tree: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Every text in a tree, with its dotted path."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from texts(value, f"{path}.{key}".lstrip("."))
    elif isinstance(tree, list):
        for number, value in enumerate(tree):
            yield from texts(value, f"{path}[{number}]")
    elif isinstance(tree, str):
        yield path, tree


def references(tree: Any) -> set[str]:
    """What all ``${...}`` of a tree name."""
    return {match for _, text in texts(tree) for match in REFERENCE.findall(text)}
