"""Carrying our own errors from a Spark task to the driver.

Invariant: an error raised in a task reaches the caller as the same class with the same fields. Spark keeps only the
text of a task's exception, so the error travels in it as one line of JSON; it never holds a row's value or a secret.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from walhouse import errors

if TYPE_CHECKING:
    from collections.abc import Iterator

_MARK: Final = "walhouse-error "


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
        error = carried_error(str(exception))
        if error is None:
            raise
        raise error from None


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
