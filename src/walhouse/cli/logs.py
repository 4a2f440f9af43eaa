"""Log lines on standard error, as text or as JSON.

Invariant: a line is an event with named fields (identifiers, counts, positions); no value of a row and no secret.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

LOGGER: Final = logging.getLogger("walhouse")

_OF_PYSPARK: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""PySpark writes each error of a query to standard error by itself, before anybody can catch it; its message may quote
a row's value."""

_OF_PY4J: Final = ("Exception while sending command.", "KeyboardInterrupt while sending command.")
"""py4j logs these with a traceback, as of the root, when Ctrl-C comes while Spark works; the error itself is raised."""


class LogFormat(StrEnum):
    """How a log line is written."""

    TEXT = "text"
    JSON = "json"


class _TextFormatter(logging.Formatter):
    """``12:00:00 walhouse: message (field value, field value)``."""

    def format(self, record: logging.LogRecord) -> str:
        shown = ", ".join(f"{name} {value}" for name, value in _fields(record).items())
        level = f"{record.levelname.lower()}: " if record.levelno >= logging.WARNING else ""
        moment = datetime.fromtimestamp(record.created, UTC).astimezone()
        return f"{moment:%H:%M:%S} {level}{record.getMessage()}{f' ({shown})' if shown else ''}"


class _JsonFormatter(logging.Formatter):
    """One object a line: ``ts`` (UTC), ``level``, ``message``, and the fields."""

    def format(self, record: logging.LogRecord) -> str:
        facts = head(record.levelname.lower(), record.getMessage(), record.created)
        return json.dumps(facts | _fields(record), default=str, ensure_ascii=False)


def head(level: str, message: str, created: float | None = None) -> dict[str, object]:
    """What every line of JSON begins with; ``created``: seconds since 1970, by default now."""
    moment = datetime.fromtimestamp(time.time() if created is None else created, UTC)
    return {"ts": moment.isoformat(timespec="milliseconds"), "level": level, "message": message}


def _fields(record: logging.LogRecord) -> dict[str, object]:
    found = getattr(record, "fields", {})
    return found if isinstance(found, dict) else {}


def set_up(form: LogFormat) -> None:
    """Send walhouse's log lines to standard error in this format; called once by a command."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonFormatter() if form is LogFormat.JSON else _TextFormatter())
    LOGGER.handlers[:] = [handler]
    LOGGER.setLevel(logging.INFO)
    LOGGER.propagate = False
    for name in _OF_PYSPARK:
        logging.getLogger(name).disabled = True
    logging.getLogger().addFilter(_is_not_of_py4j)


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    return record.msg not in _OF_PY4J


def log(message: str, *, level: int = logging.INFO, fields: Mapping[str, object] | None = None) -> None:
    """Write one line."""
    LOGGER.log(level, message, extra={"fields": dict(fields or {})})
