"""Configurations as files, for tests of what is made of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from walhouse.config.configuration import Configuration, load
from walhouse.errors import ConfigurationError

if TYPE_CHECKING:
    from pathlib import Path

PASSWORD = "0123-hunter2: x"
MINIMAL = """
connector:
  topic.prefix: shop
  database.hostname: localhost
  database.user: walhouse
  database.dbname: shop
lake:
  path: lake
"""


def with_connector(lines: str) -> str:
    return MINIMAL.replace("connector:\n", "connector:\n" + "".join(f"  {line}\n" for line in lines.split("\n")))


def read(text: str, tmp_path: Path) -> Configuration:
    file = tmp_path / "walhouse.yml"
    file.write_text(text)
    return load(file)


def refused(text: str, tmp_path: Path) -> str:
    with pytest.raises(ConfigurationError) as caught:
        read(text, tmp_path)
    assert caught.value.exit_code == 2
    assert caught.value.fields["file"] == str(tmp_path / "walhouse.yml")
    assert str(tmp_path / "walhouse.yml") in caught.value.problem
    return caught.value.problem
