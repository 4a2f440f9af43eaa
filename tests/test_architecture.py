"""The structure holds: arrows of import point one way, files stay short, nothing leaves the DataFrame API."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "walhouse"

BASE = {"errors", "names", "lsn"}
PURE = {"pgoutput"}
ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "names": set(),
    "lsn": set(),
    "config": BASE,
    "lakehouse": BASE,
    "pgoutput": BASE,
    "postgres": BASE | {"config", "pgoutput"},
    "changes": BASE | {"pgoutput", "lakehouse"},
    "bronze": BASE | {"config", "postgres", "pgoutput", "changes", "lakehouse"},
    "silver": BASE | {"pgoutput", "changes", "lakehouse"},
    "gold": BASE | {"pgoutput", "changes", "lakehouse"},
    "ops": BASE | {"postgres", "pgoutput", "changes", "lakehouse", "bronze", "gold"},
    "proof": BASE | {"config", "postgres", "pgoutput", "changes", "lakehouse", "bronze", "gold", "ops"},
}
ABOVE = {"api", "cli", "notebook", "rounds", "wiring"}
FILES = sorted(SOURCE.rglob("*.py"))


def part_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_parts(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    names |= {
        f"walhouse.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "walhouse"
        for alias in node.names
    }
    return {name.split(".")[1] for name in names if name.startswith("walhouse.")} - {"__version__"}


def test_every_package_imports_only_what_lies_below_it() -> None:
    wrong = {
        f"{path.relative_to(SOURCE)} -> {part}"
        for path in FILES
        if part_of(path) not in ABOVE | {"__init__"}
        for part in imported_parts(path)
        if part not in ALLOWED[part_of(path)] | {part_of(path)}
    }
    assert wrong == set()


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_file_is_longer_than_four_hundred_lines(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 400


def test_nothing_leaves_the_dataframe_and_sql_api_or_collects_data() -> None:
    forbidden = re.compile(r"\._jvm|\._jsparkSession|\.rdd\b|sparkContext|\.toPandas\(|\.collect\(\)|USE CATALOG")
    found = {
        f"{path.relative_to(SOURCE)}:{number}"
        for path in FILES
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if forbidden.search(line)
    }
    assert found == set()


def test_spark_is_asked_by_its_public_modules_alone() -> None:
    """Functions of its other modules take other arguments in another version, as in that of a platform's runtime."""
    public = {"pyspark", *(f"pyspark.{each}" for each in ("errors", "sql", "sql.functions", "sql.types"))}
    for path in FILES:
        nodes = list(ast.walk(ast.parse(path.read_text())))
        asked = {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
        asked |= {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
        assert {name for name in asked if name.partition(".")[0] == "pyspark"} <= public, path


def test_no_write_is_counted_by_session_wide_settings_and_no_view_stands_for_a_frame() -> None:
    """Session-wide txnVersion makes later writes do nothing, and a view binds late: neither may be used."""
    forbidden = re.compile(r"delta\.write\.txn|TempView\(")
    assert [path for path in FILES if forbidden.search(path.read_text())] == []
