"""The notebooks run from the first cell to the last on local Spark, show something, and are stored without it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from nbmake.nb_run import NotebookRun

from fixtures.shop.workload import Workload
from tests.e2e.shop import SmallShop, environment, small_shop
from walhouse.api import Walhouse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from tests.fixtures_server import Server

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
PICTURES = {"01_capture": 2, "02_silver_history": 2, "03_gold_and_proof": 1, "04_snapshot": 1}


@pytest.fixture(scope="module")
def shop(server: Server, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallShop]:
    """A shop that was captured once and has gone on since."""
    with small_shop(server, tmp_path_factory.mktemp("notebooks")) as place:
        with Walhouse.open(place.conf, spark) as house:
            house.capture()
        with Workload(place.dsn, transactions=120, seed=7):
            pass
        yield place


@pytest.mark.server
@pytest.mark.spark
@pytest.mark.parametrize(
    "notebook",
    [pytest.param(path, marks=pytest.mark.slow if path != NOTEBOOKS[0] else ()) for path in NOTEBOOKS],
    ids=lambda path: path.stem,
)
def test_a_notebook_runs_to_its_end_and_shows_its_pictures(
    notebook: Path, shop: SmallShop, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, value in environment(tmp_path, WALHOUSE_CONF=str(shop.conf)).items():
        monkeypatch.setenv(name, value)
    result = NotebookRun(notebook, default_timeout=300).execute()
    keep = os.environ.get("WALHOUSE_EXECUTED_NOTEBOOKS")
    if keep:
        (Path(keep) / notebook.name).write_text(json.dumps(result.nb), encoding="utf-8")
    assert result.error is None, result.error
    outputs = [output for cell in result.nb.cells for output in cell.get("outputs", ())]
    assert sum("image/png" in output.get("data", {}) for output in outputs) == PICTURES[notebook.stem]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_without_outputs_and_counts(notebook: Path) -> None:
    for cell in code_cells(notebook):
        assert cell["outputs"] == []
        assert cell["execution_count"] is None


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_thin(notebook: Path) -> None:
    for cell in code_cells(notebook):
        text = "".join(cell["source"])
        assert not any(line.lstrip().startswith(("def ", "class ", "%", "!")) for line in text.splitlines())
        assert "SELECT" not in text


def test_there_are_four_notebooks_and_they_start_from_the_configuration() -> None:
    assert [notebook.stem for notebook in NOTEBOOKS] == list(PICTURES)
    assert all("open_house()" in "".join(code_cells(notebook)[0]["source"]) for notebook in NOTEBOOKS)


def code_cells(notebook: Path) -> list[dict[str, Any]]:
    cells: list[dict[str, Any]] = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]
