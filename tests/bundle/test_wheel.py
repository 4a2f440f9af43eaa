"""The wheel that the bundle deploys: what is in it, and what it asks for."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from email import message_from_bytes
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from packaging.requirements import Requirement

from tests.bundle.bundle import ROOT
from tests.fixtures_house import write_configuration
from walhouse.cli.app import main
from walhouse.lakehouse.layout import LakeLayout

if TYPE_CHECKING:
    from email.message import Message

    from tests.fixtures_server import Database

OLDEST_RUNTIME = {
    "databricks-sdk": "0.49.0",
    "numpy": "2.1.3",
    "prometheus-client": "0.21.0",
    "pyarrow": "19.0.1",
    "pydantic": "2.10.6",
    "pyyaml": "6.0.2",
    "rich": "13.9.4",
}
"""What Databricks Runtime 17.3 LTS brings of what walhouse needs. Source: constraints of databricks/environments."""

USED_AS_A_LIBRARY = """
import sys
from walhouse.api import Walhouse
with Walhouse.open(sys.argv[1]) as house:
    house.run()
    print([proof.equal for proof in house.verify()])
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.Path:
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)], cwd=ROOT, check=True)
    (file,) = folder.glob("walhouse-*-py3-none-any.whl")
    return zipfile.Path(file)


def about(wheel: zipfile.Path, name: str) -> bytes:
    (folder,) = (each for each in wheel.iterdir() if each.name.endswith(".dist-info"))
    return (folder / name).read_bytes()


def metadata(wheel: zipfile.Path) -> Message:
    return message_from_bytes(about(wheel, "METADATA"))


def test_the_wheel_is_typed(wheel: zipfile.Path) -> None:
    assert (wheel / "walhouse" / "py.typed").exists()


def test_the_wheel_holds_every_module_and_nothing_else(wheel: zipfile.Path) -> None:
    expected = {str(file.relative_to(ROOT / "src")) for file in (ROOT / "src").rglob("*.py")}
    found = {name for name in wheel.root.namelist() if name.endswith(".py")}
    assert found == expected
    assert {Path(name).parts[0].partition("-")[0] for name in wheel.root.namelist()} == {"walhouse"}


def test_the_wheel_brings_the_command_line(wheel: zipfile.Path) -> None:
    assert "walhouse = walhouse.cli.app:main" in about(wheel, "entry_points.txt").decode()


def test_spark_and_delta_come_with_the_extra_local_only(wheel: zipfile.Path) -> None:
    needs = metadata(wheel).get_all("Requires-Dist", [])
    spark = [need for need in needs if need.startswith(("pyspark", "delta-spark"))]
    assert len(spark) == 2
    assert all(need.endswith("; extra == 'local'") for need in spark)
    assert metadata(wheel).get_all("Provides-Extra") == ["local"]


def test_what_the_oldest_runtime_brings_is_new_enough_and_is_not_replaced(wheel: zipfile.Path) -> None:
    needs = [Requirement(need) for need in metadata(wheel).get_all("Requires-Dist", [])]
    ranges = {need.name.lower(): need.specifier for need in needs if need.marker is None}
    assert set(ranges) - set(OLDEST_RUNTIME) == {"psycopg", "typer"}, "these alone are installed"
    assert [name for name, version in OLDEST_RUNTIME.items() if version not in ranges[name]] == []


def test_the_wheel_carries_its_licence(wheel: zipfile.Path) -> None:
    assert metadata(wheel)["License-Expression"] == "Apache-2.0"
    assert b"Apache License" in about(wheel, "licenses/LICENSE")


def test_a_task_that_went_well_returns(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["walhouse", "--version"])
    main()  # Databricks takes a SystemExit for a failure, whatever its code
    assert capsys.readouterr().out.startswith("walhouse ")


def test_a_task_that_failed_says_so_by_its_exit_code(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "argv", ["walhouse", "capture", "--conf", str(tmp_path / "missing.yml")])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2


@pytest.mark.slow
@pytest.mark.server
def test_the_wheel_with_its_extra_is_all_that_a_local_lake_needs(
    wheel: zipfile.Path, database: Database, tmp_path: Path
) -> None:
    """In an environment that has nothing else, with the locked versions: all that Spark itself asks for, too."""
    database.execute("CREATE TABLE items AS SELECT id, 'an item' AS name FROM generate_series(1, 3) id")
    database.execute("ALTER TABLE items ADD PRIMARY KEY (id)")
    conf = write_configuration(tmp_path, database, LakeLayout(path=tmp_path / "lake"))
    locked = tmp_path / "locked.txt"
    lock = (ROOT / "requirements" / "dev.lock").read_text()
    locked.write_text("\n".join(line.removesuffix(" \\") for line in lock.splitlines() if re.match("[a-z]", line)))
    python, uv = tmp_path / "venv" / "bin" / "python", Path(sys.executable).with_name("uv")
    alone = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}

    def run(*command: Path | str) -> str:
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=alone, cwd=tmp_path).stdout

    run(uv, "venv", "--quiet", "--python", sys.executable, tmp_path / "venv")
    run(uv, "pip", "install", "--quiet", "--python", python, "--constraint", locked, f"{wheel.root.filename}[local]")
    assert run(python.with_name("walhouse"), "--version").startswith("walhouse ")
    assert run(python, "-c", USED_AS_A_LIBRARY, conf).splitlines()[-1] == "[True]"
