"""What a notebook asks where it runs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from walhouse import notebook
from walhouse.api import Walhouse
from walhouse.errors import QueryError
from walhouse.names import TableName

if TYPE_CHECKING:
    from tests.fixtures_house import MakeHouse
    from tests.fixtures_server import Database


class Widgets:
    """Those of a notebook on Databricks, of which some were given a value."""

    def __init__(self, **given: str) -> None:
        self._values = given

    def text(self, name: str, default: str) -> None:
        self._values.setdefault(name, default)

    def get(self, name: str) -> str:
        return self._values[name]


@pytest.mark.parametrize(
    ("given", "opened"),
    [({}, "../conf/development.yml"), ({"conf": "../conf/deployment.yml"}, "../conf/deployment.yml")],
)
def test_a_notebook_on_databricks_leaves_production_alone_unless_its_widget_names_it(
    given: dict[str, str], opened: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A development's folder holds both configurations, and whoever runs all cells has not looked at the widget."""
    dbutils = SimpleNamespace(widgets=Widgets(**given))
    monkeypatch.setattr(notebook, "on_databricks", lambda: True)
    monkeypatch.setattr(notebook, "_dbutils", lambda: dbutils)
    monkeypatch.setattr(Walhouse, "open", lambda conf: conf)
    house: object = notebook.open_house()
    assert house == opened


@pytest.mark.server
@pytest.mark.spark
def test_a_table_that_silver_does_not_have_yet_is_said_in_words(database: Database, make_house: MakeHouse) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    house = make_house()
    house.capture()
    tables = notebook.captured_tables(house)
    assert tables == [TableName("public", "t")]
    with pytest.raises(QueryError, match=r"Silver has no table of public\.t yet"):
        notebook.operations(house, tables)
    house.silver()
    assert [tuple(row) for row in notebook.operations(house, tables).toLocalIterator()] == [("public.t", "r", 1)]
