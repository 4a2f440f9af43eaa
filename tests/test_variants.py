"""What `make test` leaves out is another variant of what it runs."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

TESTS = Path(__file__).parent


def is_further(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and ast.unparse(value.func) == "further"


def variants(source: str) -> Iterator[list[ast.expr]]:
    """The values of each parametrized test of which some are further ones."""
    for call in ast.walk(ast.parse(source)):
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "pytest.mark.parametrize":
            assert isinstance(call.args[1], ast.List) or "further" not in ast.unparse(call), "as a list: this reads it"
            if isinstance(call.args[1], ast.List) and any(map(is_further, call.args[1].elts)):
                yield call.args[1].elts


def test_a_variant_is_left_out_only_where_another_one_is_run() -> None:
    found = [values for file in TESTS.rglob("test_*.py") for values in variants(file.read_text(encoding="utf-8"))]
    assert len(found) > 10
    assert [ast.unparse(values[0]) for values in found if all(map(is_further, values))] == []


def test_no_test_is_left_out_otherwise() -> None:
    marked = [file.name for file in TESTS.rglob("*.py") if "mark.further" in file.read_text(encoding="utf-8")]
    assert sorted(marked) == ["test_variants.py", "variants.py"]
