"""What a column's description says of its type."""

from __future__ import annotations

import pytest

from walhouse.pgoutput.column import numeric_modifiers


@pytest.mark.parametrize(
    ("modifier", "modifiers"),
    [(-1, None), (655366, (10, 2)), (((5 << 16) | (-3 & 0x7FF)) + 4, (5, -3)), ((1000 << 16) + 4, (1000, 0))],
)
def test_a_numerics_modifier_holds_precision_and_scale(modifier: int, modifiers: tuple[int, int] | None) -> None:
    assert numeric_modifiers(modifier) == modifiers
