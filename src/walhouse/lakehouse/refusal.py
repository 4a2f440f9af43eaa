"""That the lake takes no more: a file system, whoever says so (Python, Arrow, delta-rs, Hadoop), or a table to which
somebody else wrote at the same moment.

Invariant: what a source or a task's own error says of the server's disks is left as it is.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from errno import EACCES, EDQUOT, ENOSPC, EROFS
from typing import TYPE_CHECKING, Final

from walhouse.errors import ForeignCommitError, ForeignWriteError, LakeError, LakeNotWritableError, WalhouseError
from walhouse.lakehouse.conditions import spark_condition

if TYPE_CHECKING:
    from collections.abc import Iterator

_REASONS: Final = tuple(map(os.strerror, (ENOSPC, EDQUOT, EROFS, EACCES)))
"""In the system's words, which all of them repeat."""

_CONFLICT: Final = "DELTA_CONCURRENT_"
"""What Spark's names for it begin with."""


@contextmanager
def on_lake() -> Iterator[None]:
    """Wrap what writes to the lake. Raises LakeNotWritableError or ForeignWriteError for an error that says so."""
    try:
        yield
    except Exception as error:
        refused = refusal_in(error)
        if refused is None:
            raise
        raise refused from error


def refusal_in(error: Exception) -> LakeError | None:
    """What the error says of the lake; None if nothing, or it is one of ours that says it already."""
    return None if _is_another(error) else _refused(error)


def _is_another(error: Exception) -> bool:
    return isinstance(error, WalhouseError) and not isinstance(error, ForeignCommitError)


def _refused(error: Exception) -> LakeError | None:
    condition = spark_condition(error) or ""
    if condition.startswith(_CONFLICT):
        return ForeignWriteError(
            "Somebody else wrote to a table of the lake while this command did, and Delta refused this command's"
            f" commit ({condition}).",
            safe="What was committed is whole, and what was not is done again; nothing is lost.",
            condition=condition,
        )
    text = str(error)
    reason = next((reason for reason in _REASONS if reason in text), None)
    if reason is None:
        return None
    path = error.filename if isinstance(error, OSError) else None
    return LakeNotWritableError(
        f"A disk of the lake, or that of Spark's temporary files, takes no more: {reason}.", reason=reason, path=path
    )
