"""Reading the configuration file.

Invariant: a ``Configuration`` that exists is complete and free of contradictions; everything that is wrong with a
file is said at once, in one ConfigurationError, before anything is connected to or written.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from pydantic import BaseModel, ValidationError

from walhouse.config.connector import MASKS, Connector
from walhouse.config.lake import Lake
from walhouse.config.masks import is_mask
from walhouse.config.secrets import Secret
from walhouse.config.sections import connector_entries, lake_entries, unfinished_values, unknown_sections
from walhouse.config.yaml_lines import Entry, Problem, flatten
from walhouse.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from walhouse.config.connection import ConnectionSettings

Model = TypeVar("Model", bound=BaseModel)

ENVIRONMENT_VARIABLE: Final = "WALHOUSE_CONF"


@dataclass(frozen=True, slots=True)
class Configuration:
    """All that walhouse is told. ``warnings`` are sentences about what has no effect or should be changed."""

    connector: Connector
    lake: Lake
    file: Path | None = None
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """The connector's filters learn what the lake says about case, which Debezium has no property for."""
        told = self.connector.matching(case_sensitive=self.lake.case_sensitive_filters)
        object.__setattr__(self, "connector", told)

    @property
    def base(self) -> Path:
        """The folder where relative paths start: that of the file."""
        return Path.cwd() if self.file is None else self.file.parent

    def connection(self) -> ConnectionSettings:
        """How to reach the source, secrets resolved now. Raises SecretError."""
        return self.connector.connection(self.base)


def load(path: Path | None = None) -> Configuration:
    """Read ``path``, or the file that WALHOUSE_CONF names. Raises ConfigurationError."""
    if path is None:
        if not (named := os.environ.get(ENVIRONMENT_VARIABLE)):
            raise ConfigurationError(
                f"No configuration is given: neither --conf nor {ENVIRONMENT_VARIABLE}.",
                todo="Write one with `walhouse init`, and name it with --conf FILE.",
            )
        path = Path(named)
    file = path.expanduser().absolute()
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigurationError(
            f"The configuration {file} cannot be read: {reason}.",
            todo="Write one with `walhouse init`, and name it with --conf FILE.",
            file=str(file),
        ) from None
    return parse(text, file)


def parse(text: str, file: Path) -> Configuration:
    """Make a configuration of the text of a file. Raises ConfigurationError with all problems."""
    flat = flatten(text)
    problems = [*flat.problems, *unknown_sections(flat), *unfinished_values(flat)]
    properties, warnings = connector_entries(flat, problems)
    keys = lake_entries(flat, problems, file.parent)
    if not flat.lines:
        raise _error(file, problems or [Problem("", None, "is empty: the sections connector and lake are needed")])
    connector = _validated(Connector, "connector", properties, problems)
    lake = _validated(Lake, "lake", keys, problems)
    if connector is None or lake is None or problems:
        raise _error(file, problems)
    return Configuration(connector, lake, file, (*warnings, *_literal_secrets(connector), *_idle_queries(connector)))


def _validated(model: type[Model], section: str, entries: Mapping[str, Entry], problems: list[Problem]) -> Model | None:
    try:
        return model.model_validate({name: entry.value for name, entry in entries.items()})
    except ValidationError as error:
        for detail in error.errors(include_url=False, include_context=False, include_input=False):
            name = _key_of(detail["loc"], entries)
            line = entries[name].line if name in entries else None
            text = "required, but missing" if detail["type"] == "missing" else _sentence(detail["msg"])
            problems.append(Problem(f"{section}.{name}".rstrip("."), line, text))
        return None


def _key_of(location: tuple[int | str, ...], entries: Mapping[str, Entry]) -> str:
    """The key that a model's error is about, empty if it is about several. Masks are one field, but many keys."""
    match location:
        case (field, int(place), *_) if field == MASKS:
            return [name for name in entries if is_mask(name)][place]
        case (field, *_):
            return str(field)
        case _:
            return ""


def _sentence(message: str) -> str:
    text = message.removeprefix("Value error, ").removeprefix("Input ")
    return text[:1].lower() + text[1:]


def _literal_secrets(connector: Connector) -> Iterable[str]:
    for name in ("database_password", "database_sslpassword"):
        if isinstance(getattr(connector, name), Secret):
            path = f"connector.{name.replace('_', '.')}"
            yield f"{path} is written out in the file: use ${{env:NAME}}, ${{file:PATH}} or ${{secret:scope/key}}."


def _idle_queries(connector: Connector) -> Iterable[str]:
    if connector.heartbeat_action_query is not None and not connector.heartbeat_interval_ms:
        yield "connector.heartbeat.action.query is never run: heartbeat.interval.ms is 0."


def _error(file: Path, problems: list[Problem]) -> ConfigurationError:
    count = "a problem" if len(problems) == 1 else f"{len(problems)} problems"
    lines = "".join(f"\n  {problem}" for problem in problems)
    return ConfigurationError(
        f"The configuration {file} has {count}:{lines}\n",
        todo="docs/CONFIGURATION.md lists every property.",
        file=str(file),
        path=problems[0].place,
    )
