"""A guarantee that is held more than once, with other values: which of them each run of the tests has to see.

Invariant: of each guarantee `make test` runs at least one variant, and `make test-all` runs all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from _pytest.mark import ParameterSet


def further(*values: object, **options: str) -> ParameterSet:
    """Values for ``parametrize`` that go the way of those beside them; ``id`` as ``pytest.param`` takes it."""
    return pytest.param(*values, marks=pytest.mark.further, **options)
