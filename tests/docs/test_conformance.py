"""docs/CONFORMANCE.md tells the truth about names: what it points at exists, and nothing is done without a test."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import NamedTuple

from oracle.compare import NORMALISED, OF_A_SNAPSHOT

ROOT = Path(__file__).parents[2]
STATES = {"done", "open", "n/a"}


class Line(NamedTuple):
    section: str
    behaviour: str
    code: str
    guard: str
    test: str
    state: str


def table() -> list[Line]:
    lines = (ROOT / "docs" / "CONFORMANCE.md").read_text().splitlines()
    cells = [[cell.strip().strip("`") for cell in line.strip("|").split(" | ")] for line in lines if line[:2] == "| "]
    return [Line(*row) for row in cells if row[0] not in {"§", "---"}]


def names_in(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}.{method.name}" for method in node.body if isinstance(method, ast.FunctionDef)}
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return names


def test_every_section_of_debeziums_behaviour_has_rows() -> None:
    sections = {line.section.split(".")[0] for line in table()}
    assert sections >= {str(number) for number in range(1, 8)}
    assert {f"Q{number}" for number in range(1, 36)} <= {line.section for line in table()}


def test_a_row_is_done_only_with_code_or_a_guard_and_a_test() -> None:
    assert {line.state for line in table()} <= STATES
    assert [
        line.behaviour for line in table() if line.state == "done" and not (line.test and (line.code or line.guard))
    ] == []


def test_every_code_reference_exists() -> None:
    missing = []
    for code in {line.code for line in table() if line.code}:
        module, name = code.split(":")
        path = ROOT / "src" / "walhouse" / (module.replace(".", "/") + ".py")
        if not path.is_file() or name not in names_in(path):
            missing.append(code)
    assert missing == []


def test_every_named_test_exists() -> None:
    missing = []
    for test in {line.test for line in table() if line.test}:
        file, name = test.split("::")
        if not (ROOT / "tests" / file).is_file() or name not in names_in(ROOT / "tests" / file):
            missing.append(test)
    assert missing == []


def test_what_is_not_compared_with_debezium_is_said_with_its_reason() -> None:
    text = (ROOT / "docs" / "CONFORMANCE.md").read_text()
    said = text[text.index("Not compared") : text.index("Rows: ")]
    paths = [*NORMALISED, *OF_A_SNAPSHOT]
    assert [path for path in paths if path[-1] not in said] == []


def test_every_scenario_that_is_named_exists() -> None:
    named = {
        name.strip()
        for line in table()
        for found in re.findall(r"scenarios? ([a-z_]+(?:, [a-z_]+)*)", line.guard)
        for name in found.split(",")
    }
    recorded = {path.stem for path in (ROOT / "fixtures" / "scenarios").glob("*.sql")}
    assert named
    assert named <= recorded


def test_the_count_at_the_top_is_the_tables() -> None:
    counts = [sum(line.state == state for line in table()) for state in ("done", "open", "n/a")]
    stated = f"Rows: {counts[0]} done, {counts[1]} open, {counts[2]} without meaning here."
    assert stated in (ROOT / "docs" / "CONFORMANCE.md").read_text()
