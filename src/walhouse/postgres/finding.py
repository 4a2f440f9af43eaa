"""What a check says of one thing that it looked at.

Invariant: ``error`` means that capture would fail or that changes would be missing, ``warning`` that it works now and
may not tomorrow, or does other things than one may think; both say what to do.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

_SHOWN: Final = 5
"""How many names of one kind a finding lists."""


class Severity(StrEnum):
    """How bad a finding is."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    severity: Severity
    subject: str
    problem: str
    """What was found; also said where all is well."""
    todo: str = ""


def ok(subject: str, found: str) -> Finding:
    """All is well."""
    return Finding(Severity.OK, subject, found)


def warning(subject: str, problem: str, todo: str) -> Finding:
    """It works now, and may not tomorrow, or does other things than one may think."""
    return Finding(Severity.WARNING, subject, problem, todo)


def error(subject: str, problem: str, todo: str) -> Finding:
    """It would not work, or changes would be missing."""
    return Finding(Severity.ERROR, subject, problem, todo)


def some(names: Iterable[str]) -> str:
    """The first of many names, and how many more there are."""
    listed = list(names)
    more = len(listed) - _SHOWN
    return ", ".join(listed[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
