"""Expressions over any number of columns.

Invariant: no expression is deeper than the logarithm of what it is made of: Spark goes down by recursion, and the stack
of a JVM's thread ends after some five hundred operators that stand in each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import Column


def joined(operator: Callable[[Column, Column], Column], parts: Sequence[Column]) -> Column:
    """The parts, of which there is one at least, with an associative operator between them, in their order."""
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    return operator(joined(operator, parts[:half]), joined(operator, parts[half:]))
