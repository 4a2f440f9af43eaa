"""The demo: a first run from nothing, a second one that goes on, and a cleaning that leaves nothing."""

from __future__ import annotations

import re
import shlex
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from demo.place import Place
from fixtures.shop.rows import TABLES
from tests.e2e.shop import environment

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]

JAVA_ITSELF = {"WARNING: Using incubator modules: jdk.incubator.vector"}
"""What Java tells of the modules that Spark starts it with, before any code of Spark runs."""


@pytest.fixture
def conf(tmp_path: Path) -> Iterator[Path]:
    """The demo's own configuration, but for the port and the folder."""
    file = tmp_path / "conf" / "demo.yml"
    file.parent.mkdir()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    file.write_text((ROOT / "conf" / "demo.yml").read_text().replace("54329", port))
    yield file
    Place.of(file).clean()


def demo(conf: Path, target: str, *arguments: str) -> str:
    """What a newcomer types, with options of its own."""
    command = ["make", target, "DEMO_OPTIONS=" + shlex.join(["--conf", str(conf), *arguments])]
    # this test may itself have been started by make, whose variables would be this one's, too
    env = {name: value for name, value in environment().items() if not name.startswith(("MAKE", "TESTS", "LANES"))}
    result = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert set(result.stderr.splitlines()) <= JAVA_ITSELF, "Spark's start and its log are not the reader's concern"
    return result.stdout


@pytest.mark.slow
@pytest.mark.server
@pytest.mark.spark
def test_the_demo_proves_every_table_goes_on_where_it_stopped_and_leaves_nothing(conf: Path, tmp_path: Path) -> None:
    small = ("--customers", "150", "--transactions", "80", "--rate", "40")
    first = demo(conf, "demo", *small)
    assert "Every gold table equals its source." in first
    proven = first[first.index("Proof: gold is the source") :]
    assert all(f"shop.{table}" in proven for table in TABLES)
    with psycopg.connect(Place.of(conf).dsn) as shop:
        products = shop.execute("SELECT count(*) FROM shop.products").fetchone()
    assert products is not None
    counts = next(line for line in proven.splitlines() if "shop.products" in line)
    assert re.findall(r"\b[0-9]+\b(?!/)", counts)[-2:] == [str(products[0])] * 2, (
        "products are renamed, never more or less"
    )

    second = demo(conf, "demo", *small)
    assert "Every gold table equals its source." in second
    assert "Initial snapshot" not in second
    assert not re.search(r"\bloaded\b", second)

    demo(conf, "demo-clean")
    assert [path.name for path in tmp_path.rglob("*")] == ["conf", "demo.yml"]


def test_cleaning_removes_only_what_the_demo_made(conf: Path) -> None:
    place = Place.of(conf)
    place.folder.mkdir(parents=True)
    (place.folder / "mine").touch()
    command = [sys.executable, "-m", "demo", "--conf", str(conf), "--clean"]
    result = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert "was not made by the demo" in result.stdout
    (place.folder / "mine").unlink()
    place.folder.rmdir()


def test_a_port_that_another_program_has_is_named(conf: Path) -> None:
    with socket.socket() as other:
        port = Place.of(conf).configuration.connector.database_port
        other.bind(("127.0.0.1", port))
        other.listen()
        command = [sys.executable, "-m", "demo", "--conf", str(conf)]
        result = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert f"Port {port} is taken by another program" in result.stdout
    assert "Traceback" not in result.stdout
