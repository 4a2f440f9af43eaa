"""What the tests of snapshots by chunks share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from walhouse.names import TableName

if TYPE_CHECKING:
    from tests.fixtures_house import MakeHouse
    from tests.fixtures_server import Database
    from walhouse.api import Walhouse

T = TableName("public", "t")


@pytest.fixture
def long_rows(database: Database, make_house: MakeHouse) -> Walhouse:
    """Captures a table of 500 rows with long values that are out of line, to be read by chunks of 100."""
    database.execute(
        "CREATE TABLE t (id int PRIMARY KEY, v text)",
        "ALTER TABLE t ALTER v SET STORAGE EXTERNAL",
        "INSERT INTO t SELECT n, repeat('x', 9000) FROM generate_series(1, 500) AS n",
    )
    unread = {"snapshot_include_collection_list": "none.none"}
    house = make_house(**unread, incremental_snapshot_chunk_size=100, lake_snapshot_pass_rows=100)
    house.run()
    return house


@pytest.fixture
def house(table: Database, make_house: MakeHouse) -> Walhouse:
    """Captures a table of 500 rows from now on, without an initial snapshot, in chunks of 100 rows."""
    table.execute("INSERT INTO t SELECT n, 'row ' || n FROM generate_series(1, 500) AS n")
    house = make_house(snapshot_mode="no_data", incremental_snapshot_chunk_size=100, lake_snapshot_pass_rows=200)
    house.run()
    return house
