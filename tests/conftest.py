"""What all tests share: one tuned local Spark session, one real PostgreSQL server, an empty lake for each test."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from walhouse.cli.logs import LOGGER
from walhouse.lakehouse.layout import LakeLayout
from walhouse.lakehouse.session import SMALL_TABLES, TINY_TABLES, java_options, local_session

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

# what an example takes says how busy the machine is, and the first one of a test loads what it needs
settings.register_profile("walhouse", deadline=None)
settings.load_profile("walhouse")

LONGEST = "tests/silver/test_oracle.py"
"""A file's tests are all of one process: the file that takes longest comes first, so that no process ends alone."""

INLINED_LESS = ("-XX:InlineSmallCode=800", "-XX:MaxInlineLevel=6", "-XX:FreqInlineSize=120")
"""Java's second compiler takes half its time so: a fifth of the first minutes' CPU. Large tables, warm, pay for it."""

pytest_plugins = ["tests.fixtures_server", "tests.fixtures_house", "tests.fixtures_standby"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.nodeid.partition("::")[0] != LONGEST)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    # Thousands of small queries: compiling each costs more than running it. The commands, the demo and the notebooks
    # are tested in processes of their own, with the settings that users have.
    options = " ".join([*java_options(quick=False), *INLINED_LESS])
    session = local_session(
        memory=4 * 2**30, quick=False, settings={**SMALL_TABLES, "spark.driver.extraJavaOptions": options}
    )
    for name, value in TINY_TABLES.items():  # of this session alone: those beside it begin with what all have
        session.conf.set(name, value)
    yield session
    session.stop()


@pytest.fixture
def deletion_vectors(spark: SparkSession) -> Iterator[None]:
    """A MERGE marks rows, as in all but tiny tables: else this session writes their files anew."""
    name = "spark.databricks.delta.merge.deletionVectors.persistent"
    spark.conf.set(name, "true")
    yield
    spark.conf.set(name, TINY_TABLES[name])


@pytest.fixture(autouse=True)
def _commands_leave_no_handler() -> Iterator[None]:
    """A command that a test runs in this process tells its log to an output that is closed after the test."""
    handlers, level, propagate = list(LOGGER.handlers), LOGGER.level, LOGGER.propagate
    yield
    LOGGER.handlers[:] = handlers
    LOGGER.setLevel(level)
    LOGGER.propagate = propagate


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Iterator[LakeLayout]:
    """An empty local lake with schema names of its own, so that tests do not see each other's tables."""
    folder = tmp_path / "this lake's é %"  # a folder as people have them: quoted and escaped by whoever handles it
    suffix = tmp_path.name.lower().replace("-", "_")
    layout = LakeLayout(
        path=folder,
        bronze_schema=f"bronze_{suffix}",
        silver_schema=f"silver_{suffix}",
        gold_schema=f"gold_{suffix}",
        ops_schema=f"ops_{suffix}",
    )
    yield layout
    for schema in layout.schemas:
        spark.sql(f"DROP SCHEMA IF EXISTS `{schema}` CASCADE")
    shutil.rmtree(folder, ignore_errors=True)
