"""A configured house on a test's own database and an empty lake."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
import yaml

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.fixtures_server import Database
    from walhouse.api import Walhouse
    from walhouse.config.connection import ConnectionSettings
    from walhouse.lakehouse.layout import LakeLayout
    from walhouse.lsn import Lsn

MakeHouse = Callable[..., "Walhouse"]


def write_configuration(folder: Path, database: Database, layout: LakeLayout, **overrides: Any) -> Path:
    """A configuration file for a database and a lake; overrides by Debezium's names with ``_`` for ``.``, or lake_*."""
    settings = database.settings
    (folder / "password").write_text("" if settings.password is None else settings.password.reveal())
    connector = {
        "topic.prefix": "test",
        "database.hostname": settings.host,
        "database.port": settings.port,
        "database.user": settings.user,
        "database.password": "${file:password}",
        "database.dbname": settings.database,
        "slot.name": f"s_{settings.database}"[:60],
        "publication.name": "walhouse_test",
        "publication.autocreate.mode": "filtered",
    }
    lake: dict[str, Any] = {
        "path": str(layout.path),
        "bronze": layout.bronze_schema,
        "silver": layout.silver_schema,
        "gold": layout.gold_schema,
        "ops": layout.ops_schema,
    }
    for name, value in overrides.items():
        if name.startswith("lake_"):
            lake[name.removeprefix("lake_")] = value
        else:
            connector[name.replace("_", ".")] = value
    file = folder / "walhouse.yml"
    file.write_text(yaml.safe_dump({"connector": connector, "lake": lake}))
    return file


def logged_in_as(reader: ConnectionSettings) -> dict[str, str]:
    """The settings of a house that connects as this user."""
    assert reader.password is not None
    return {"database_user": reader.user, "database_password": reader.password.reveal()}


class AfterPartOfSnapshot:
    """A reporter that does something once: when the first part of a snapshot is in bronze."""

    def __init__(self, action: Callable[[], object]) -> None:
        self._action: Callable[[], object] | None = action

    def update(
        self, stage: str, *, rows: int = 0, lsn: Lsn | None = None, target: Lsn | None = None, detail: str = ""
    ) -> None:
        del rows, lsn, target, detail
        if stage == "snapshot" and self._action is not None:
            action, self._action = self._action, None
            action()


@pytest.fixture
def make_house(spark: SparkSession, database: Database, lake: LakeLayout, tmp_path: Path) -> Iterator[MakeHouse]:
    """Opens a house, again and again if a test wants a new process's view; closes all of them after the test."""
    with houses(spark, database, lake, tmp_path) as make:
        yield make


@contextmanager
def houses(
    spark: SparkSession, database: Database, lake: LakeLayout, folder: Path, **settings: Any
) -> Iterator[MakeHouse]:
    """``make_house`` for any database, with settings that all of its houses have; the configuration in ``folder``."""
    opened: list[Walhouse] = []

    from walhouse.api import Walhouse

    def make(**overrides: Any) -> Walhouse:
        house = Walhouse.open(write_configuration(folder, database, lake, **{**settings, **overrides}), spark)
        opened.append(house)
        return house

    try:
        yield make
    finally:
        for house in opened:
            house.close()
