"""The README's commands exist and are those that CI runs; its links lead somewhere; its configuration is a real one."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from walhouse.config.configuration import load, parse

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def commands(block: str) -> list[str]:
    return [line.partition("#")[0].strip() for line in block.splitlines()]


def test_the_two_commands_of_a_newcomer_are_make_demo_and_make_test() -> None:
    assert commands(blocks("sh")[0]) == ["make demo", "make test"]


def test_ci_runs_the_tests_as_the_readme_says_and_one_of_them_the_demo() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert re.search(r"^make test\b", script, re.MULTILINE)
    assert "tests/e2e/test_demo.py" in script
    assert '["make", ' in (ROOT / "tests" / "e2e" / "test_demo.py").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("target", "left_out"),
    [("test-all", None), ("test", "not further"), ("test-quick", "not slow and not further")],
)
def test_no_tests_are_left_out_but_where_that_is_said(target: str, left_out: str | None) -> None:
    # this test may itself have been started by make, with variables of its own
    around = {name: value for name, value in os.environ.items() if name not in {"TESTS", "MAKEFLAGS"}}
    told = subprocess.run(["make", "-n", target], cwd=ROOT, env=around, capture_output=True, text=True, check=True)
    (run,) = [line for line in told.stdout.splitlines() if "-m pytest" in line]
    chosen = re.findall(r'-m "([^"]+)"', run)
    assert chosen == ([] if left_out is None else [left_out])


def test_the_pythons_that_the_readme_names_are_those_that_the_package_and_its_set_up_take() -> None:
    ((first, last),) = re.findall(r"with Python 3\.(\d+) to 3\.(\d+)", README)
    package = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert package["requires-python"] == f">=3.{first},<3.{int(last) + 1}"
    set_up = (ROOT / "scripts" / "setup").read_text(encoding="utf-8")
    assert f"(3, {first}) <= sys.version_info[:2] <= (3, {last})" in set_up
    assert " ".join(f"python3.{minor}" for minor in range(int(last), int(first) - 1, -1)) in set_up


def test_every_make_target_that_is_named_exists() -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", MAKEFILE, re.MULTILINE))
    named = set(re.findall(r"`make ([a-z0-9-]+)`", README)) | {
        command.split()[1] for block in blocks("sh") for command in commands(block) if command.startswith("make ")
    }
    assert named <= targets
    assert {"help", "setup", "demo", "demo-clean", "test", "lint", "format", "bench"} <= targets


def test_bare_make_explains_every_target() -> None:
    shown = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    phony = re.search(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)
    assert phony is not None
    assert re.findall(r"^  make ([a-z0-9-]+)", shown, re.MULTILINE) == phony[1].split()


def test_every_command_of_walhouse_that_is_named_exists() -> None:
    from walhouse.cli.app import app

    known = {command.name or command.callback.__name__ for command in app.registered_commands if command.callback}
    named = {match for block in blocks("sh") for match in re.findall(r"walhouse ([a-z]+)", block)}
    assert named
    assert named <= known


def test_every_link_leads_to_a_file_of_the_project() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", README)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_configuration_shown_is_one_that_loads() -> None:
    (example,) = blocks("yaml")
    configuration = parse(example, ROOT / "walhouse.yml")
    assert configuration.warnings == ()


@pytest.mark.parametrize("name", sorted(path.name for path in (ROOT / "conf").glob("*.yml")))
def test_every_configuration_that_is_shipped_loads_without_a_warning(name: str) -> None:
    assert load(ROOT / "conf" / name).warnings == ()
