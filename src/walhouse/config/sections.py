"""The two sections of the file: which keys they may hold, and what becomes of each.

Invariant: every key of the file is used, or named in a problem or a warning.
"""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import TYPE_CHECKING, Final

from walhouse.config.lake import Lake, is_url
from walhouse.config.properties import Property, State, find, known_names
from walhouse.config.secrets import has_reference
from walhouse.config.yaml_lines import Entry, FlatYaml, Problem

if TYPE_CHECKING:
    from collections.abc import Iterable

SECTIONS: Final = ("connector", "lake")
TO_BE_FILLED_IN: Final = "CHANGE_ME"
"""What `walhouse init` writes in place of what it cannot know."""


def section_entries(flat: FlatYaml, name: str) -> dict[str, Entry]:
    """The values below one section, by the rest of their path."""
    prefix = f"{name}."
    return {path.removeprefix(prefix): entry for path, entry in flat.entries.items() if path.startswith(prefix)}


def unknown_sections(flat: FlatYaml) -> Iterable[Problem]:
    """What stands outside of the two sections, said once for each first part of a path."""
    said: set[str] = set()
    for path, line in flat.lines.items():
        section = path.split(".")[0]
        if section in SECTIONS:
            if path == section and path in flat.entries:
                yield Problem(path, line, "must be a mapping")
        elif section not in said:
            said.add(section)
            moved = any(find(other) for other in flat.entries if other.split(".")[0] == section)
            hint = "; a property of the connector belongs below connector:" if moved else nearest(section, SECTIONS)
            yield Problem(path, line, f"unknown section{hint}")


def unfinished_values(flat: FlatYaml) -> Iterable[Problem]:
    """Values that are no values yet: not filled in, or a reference where nothing resolves one."""
    for path, entry in flat.entries.items():
        texts = entry.value if isinstance(entry.value, list) else [entry.value]
        record = find(path.removeprefix("connector."))
        if TO_BE_FILLED_IN in texts:
            yield Problem(path, entry.line, "is to be filled in")
        elif any(map(has_reference, texts)) and (record is None or record.kind != "secret"):
            yield Problem(path, entry.line, "a reference is taken for database.password and database.sslpassword only")


def connector_entries(flat: FlatYaml, problems: list[Problem]) -> tuple[dict[str, Entry], list[str]]:
    """The properties for the model, and a warning for each that has no effect; adds to ``problems``."""
    used: dict[str, Entry] = {}
    warnings: list[str] = []
    for name, entry in section_entries(flat, "connector").items():
        record = find(name)
        path = f"connector.{name}"
        if record is None:
            problems.append(Problem(path, entry.line, f"unknown property{nearest(name, known_names())}"))
        elif record.state is State.USED:
            used[name] = entry
        elif record.state is State.WARNED:
            warnings.append(f"{path} has no effect: {record.note}.")
        elif record.state is State.REFUSED:
            problems.append(Problem(path, entry.line, record.note))
        elif not _is_default(record, entry):
            default = "nothing" if record.default is None else record.default
            problems.append(Problem(path, entry.line, f"only its default is taken ({default}): {record.note}"))
    return used, warnings


def _is_default(record: Property, entry: Entry) -> bool:
    given = ",".join(entry.value) if isinstance(entry.value, list) else entry.value
    return given.strip().lower() == (record.default or "").lower()


def lake_entries(flat: FlatYaml, problems: list[Problem], base: Path) -> dict[str, Entry]:
    """The keys for the model, ``path`` made absolute from ``base``; adds to ``problems``."""
    entries = section_entries(flat, "lake")
    for name, entry in list(entries.items()):
        if name not in Lake.model_fields:
            problems.append(Problem(f"lake.{name}", entry.line, f"unknown key{nearest(name, Lake.model_fields)}"))
            del entries[name]
    path = entries.get("path")
    if path is not None and isinstance(path.value, str) and not is_url(path.value) and path.value.strip():
        try:
            entries["path"] = Entry(str((base / Path(path.value).expanduser()).resolve()), path.line)
        except (RuntimeError, ValueError, OSError) as error:  # no such user, U+0000, a loop of links
            problems.append(Problem("lake.path", path.line, f"is no folder: {error}"))
    return entries


def nearest(name: str, known: Iterable[str]) -> str:
    """A question that names the most similar known name, empty if none is similar."""
    found = difflib.get_close_matches(name.lower(), list(known), n=1, cutoff=0.6)
    return f"; did you mean {found[0]}?" if found else ""
