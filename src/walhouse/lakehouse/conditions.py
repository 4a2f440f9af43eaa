"""What Spark names its errors.

Invariant: a condition's name is all that is taken of an error's text, which may quote a row's value.
"""

from __future__ import annotations

import re
from typing import Final

_CONDITION: Final = re.compile(r"Exception: \[([A-Z][A-Z0-9_.]*)\] ")

_GONE: Final = frozenset(
    {
        "DELTA_CANNOT_FIND_VERSION",
        "DELTA_FILE_NOT_FOUND",
        "DELTA_FILE_NOT_FOUND_DETAILED",
        "DELTA_LOG_FILE_NOT_FOUND",
        "DELTA_TRUNCATED_TRANSACTION_LOG",
        "DELTA_VERSION_NOT_FOUND",
        "FAILED_READ_FILE.FILE_NOT_EXIST",
    }
)


def spark_condition(error: BaseException) -> str | None:
    """The name of Spark's error condition (``CAST_INVALID_INPUT``), if it has one.

    An error of a task that reads or writes reaches Python as py4j's, whose text has the name behind the Java class.
    """
    condition = getattr(error, "getCondition", None)
    if callable(condition):
        name = condition()
        return name if isinstance(name, str) else None
    if hasattr(error, "java_exception") and (found := _CONDITION.search(str(error))):
        return found[1]
    return None


def is_of_what_is_gone(error: BaseException) -> bool:
    """Whether a version of a table could not be read because a VACUUM, or Delta's own clean-up, removed it."""
    return spark_condition(error) in _GONE
