"""docs/OPERATIONS.md explains what can go wrong, all of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from walhouse import errors
from walhouse.cli.app import app
from walhouse.ops.retry import POLICY

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "OPERATIONS.md").read_text(encoding="utf-8")
ROWS = dict(re.findall(r"^\| `(\w+Error)`( \*\(again\)\*)? \|", TEXT, re.MULTILINE))


def leaves(kind: type[errors.WalhouseError]) -> list[type[errors.WalhouseError]]:
    below = kind.__subclasses__()
    return [leaf for each in below for leaf in leaves(each)] if below else [kind]


@pytest.mark.parametrize("error", leaves(errors.WalhouseError), ids=lambda error: error.__name__)
def test_every_error_is_explained(error: type[errors.WalhouseError]) -> None:
    assert error.__name__ in ROWS


def test_every_error_that_is_explained_exists() -> None:
    assert all(issubclass(getattr(errors, name), errors.WalhouseError) for name in ROWS)


def test_just_those_errors_are_marked_as_tried_again_that_are() -> None:
    assert {name for name, again in ROWS.items() if again} == {error.__name__ for error in POLICY}


@pytest.mark.parametrize("error", leaves(errors.WalhouseError), ids=lambda error: error.__name__)
def test_an_error_stands_under_the_exit_code_that_it_has(error: type[errors.WalhouseError]) -> None:
    before = TEXT[: TEXT.index(f"| `{error.__name__}`")]
    assert re.findall(r"\(exit code (\d)\)", before)[-1] == str(error.exit_code)


def test_every_command_is_explained_and_every_one_that_is_named_exists_with_its_options() -> None:
    commands = get_command(app)
    assert isinstance(commands, TyperGroup)
    known = {
        name: {option for each in command.params for option in each.opts} for name, command in commands.commands.items()
    }
    named = re.findall(r"`walhouse ([a-z][a-z-]*)([^`]*)`", TEXT)
    assert {name for name, _ in named} <= set(known)
    wrong = [
        (name, option) for name, rest in named for option in re.findall(r"--[a-z-]+", rest) if option not in known[name]
    ]
    assert wrong == []
    others = (Path(__file__).resolve().parents[2] / "README.md").read_text(encoding="utf-8")
    assert [name for name in known if f"walhouse {name}" not in TEXT + others] == []


def test_the_bundle_s_job_file_and_configurations_that_are_named_are_there() -> None:
    root = Path(__file__).resolve().parents[2]
    named = set(re.findall(r"`((?:conf|resources|docs)/[a-z.]+)`", TEXT))
    assert named
    assert [name for name in named if not (root / name).is_file()] == []
