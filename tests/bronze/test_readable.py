"""Bronze as people read it: images as maps, by the names that columns had when the row was made."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from walhouse.bronze.readable import ensure_readable
from walhouse.lakehouse.tables import table_exists

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.fixtures_house import MakeHouse
    from tests.fixtures_server import Database
    from walhouse.lakehouse.layout import LakeLayout

pytestmark = [pytest.mark.server, pytest.mark.spark]


def test_each_row_shows_the_columns_that_its_table_had_then(
    database: Database, lake: LakeLayout, make_house: MakeHouse
) -> None:
    database.execute(r"CREATE TABLE t (id int PRIMARY KEY, v text, secret text)", r"INSERT INTO t VALUES (1, '\', 's')")
    house = make_house(column_mask_with_2_chars="public.t.secret")
    house.capture()
    database.execute(
        "UPDATE t SET id = 2, v = ''", "ALTER TABLE t RENAME v TO w", "UPDATE t SET w = NULL", "DELETE FROM t"
    )
    house.capture()
    rows = house.sql(f"SELECT * FROM {lake.bronze_readable} WHERE op <> 'b' ORDER BY commit_lsn, seq").collect()
    assert [(row["op"], row["before"], row["after"]) for row in rows] == [
        ("r", None, {"id": "1", "v": "\\", "secret": "**"}),
        ("u", {"id": "1", "v": None, "secret": "**"}, {"id": "2", "v": "", "secret": "**"}),
        ("u", None, {"id": "2", "w": None, "secret": "**"}),
        ("d", {"id": "2", "w": None, "secret": "**"}, None),
    ]
    shown, kept = (house.sql(f"SELECT * FROM {table}") for table in (lake.bronze_readable, lake.bronze))
    assert shown.count() == kept.count()


def test_where_there_is_no_bronze_there_is_no_view(spark: SparkSession, lake: LakeLayout) -> None:
    ensure_readable(spark, lake)
    assert not table_exists(spark, lake, lake.bronze_readable)
