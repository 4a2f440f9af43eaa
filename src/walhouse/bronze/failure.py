"""Carrying our own errors from a Spark task to the driver.

Invariant: an error raised in a task reaches the caller as the same class with the same fields. Spark keeps only the
text of a task's exception, so the error travels in it as one line of JSON; it never holds a row's value or a secret.
"""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from walhouse import errors

if TYPE_CHECKING:
    from collections.abc import Iterator

_MARK: Final = "walhouse-error "

_DIED: Final = re.compile(
    r"Python worker exited unexpectedly \(crashed\)"
    r"(?:: (?P<fault>Fatal Python error: [^\n]+)(?P<trace>(?:\n[^\n]*){2,12}))?"
)
"""How Spark says that a task's Python process is gone, with what that process wrote while it died."""

_FRAME: Final = re.compile(r'File "[^"\n]*?([^"/\n]+)", line (\d+) in (\S+)')
_FRAMES: Final = 4


class TaskError(Exception):
    """What a task raises in place of a WalhouseError."""

    def __init__(self, error: errors.WalhouseError) -> None:
        fields = {name: value if isinstance(value, int) else str(value) for name, value in error.fields.items()}
        facts = [type(error).__name__, error.problem, error.safe_text, error.todo_text, fields]
        super().__init__(_MARK + json.dumps(facts))


@contextmanager
def in_task() -> Iterator[None]:
    """Wrap what runs in a task."""
    try:
        yield
    except errors.WalhouseError as error:
        raise TaskError(error) from None


@contextmanager
def on_driver() -> Iterator[None]:
    """Wrap the driver's action that runs tasks.

    Spark's own classes stand for few of the JVM's errors: a task that failed while it wrote comes as py4j's.
    """
    try:
        yield
    except (PySparkException, Py4JJavaError) as exception:
        error = carried_error(str(exception)) or lost_worker(str(exception))
        if error is None:
            raise
        raise error from None


def lost_worker(text: str) -> errors.WorkerLostError | None:
    """That a task's Python process died, if that is what the text of Spark's exception says."""
    died = _DIED.search(text)
    if died is None:
        return None
    fault = died["fault"] or "it was killed, or ended by itself"
    frames = _FRAME.findall(died["trace"] or "")[:_FRAMES]
    where = ", ".join(f"{function} ({file} {line})" for file, line, function in frames) or None
    place = f", in {where}" if where else ""
    return errors.WorkerLostError(
        f"A Python process of Spark's died in the midst of a task: {fault}{place}.", fault=fault, where=where
    )


def carried_error(text: str) -> errors.WalhouseError | None:
    """The error that a task's exception text carries, if any."""
    start = text.find(_MARK + "[")
    if start < 0:
        return None
    facts, _ = json.JSONDecoder().raw_decode(text[start + len(_MARK) :])
    name, problem, safe, todo, fields = facts
    leaf = getattr(errors, name)
    assert isinstance(leaf, type)
    assert issubclass(leaf, errors.WalhouseError)
    return leaf(problem, safe=safe, todo=todo, **fields)
