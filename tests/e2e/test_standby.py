"""The whole path from a real standby, while writers do everything on its primary."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.e2e.hammer import SCHEMA, Hammer
from tests.e2e.test_snapshots_under_fire import rows_read_that_differ_from_what_came_before
from tests.e2e.witness import gold_rows, source_rows
from tests.fixtures_house import houses
from walhouse.bronze.requests.notifications import Event, notifications_of
from walhouse.names import TableName

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.fixtures_standby import Followed
    from walhouse.lakehouse.layout import LakeLayout

pytestmark = [pytest.mark.server, pytest.mark.spark]

DOCS, SMALL, BAG = (TableName("public", name) for name in ("docs", "small", "bag"))
TABLES = (DOCS, SMALL, BAG)


@pytest.mark.parametrize("source", ["standby", "primary"])
def test_a_user_who_may_only_read_has_gold_equal_to_the_source_whatever_is_written_meanwhile(
    source: str, spark: SparkSession, followed: Followed, lake: LakeLayout, tmp_path: Path
) -> None:
    primary = followed.primary
    reader = f"reader_{primary.name}"
    password = primary.settings.password
    assert password is not None
    primary.execute(
        *SCHEMA,
        "CREATE PUBLICATION walhouse_test FOR TABLES IN SCHEMA public",
        f"CREATE ROLE {reader} LOGIN REPLICATION PASSWORD '{password.reveal()}'",
        f"ALTER ROLE {reader} SET default_transaction_read_only = on",
        f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {reader}",
    )
    with Hammer(primary, 1, 100) as writer:
        writer.join()
    followed.catch_up()
    settings = {
        "database_user": reader,
        "read_only": True,
        "publication_autocreate_mode": "disabled",
        "table_include_list": ",".join(map(str, TABLES)),
        "incremental_snapshot_chunk_size": 2,
        "lake_snapshot_pass_rows": 20,
    }
    with ExitStack() as open_here:
        asked = followed.standby if source == "standby" else primary
        make = open_here.enter_context(houses(spark, asked, lake, tmp_path, **settings))
        open_here.callback(primary.execute, f"DROP OWNED BY {reader}", f"DROP ROLE {reader}")
        house = make()
        with ExitStack() as writers:
            for seed in (2, 3):
                writers.enter_context(Hammer(primary, seed, 1000))
            with followed.telling_what_runs():
                house.run()
            request = house.snapshot([DOCS, SMALL])
            house.run()
            assert notifications_of(spark, lake, request)[-1].type is Event.COMPLETED
        followed.catch_up()
        proofs = house.verify()
        assert {proof.table: proof.equal for proof in proofs} == dict.fromkeys(TABLES, True)
        for table in TABLES:
            assert gold_rows(spark, lake, table) == source_rows(primary, table)
        read = spark.table(str(lake.silver(DOCS))).where("op = 'r' AND source.snapshot = 'incremental'")
        assert read.count() > 0
        assert rows_read_that_differ_from_what_came_before(spark, lake) == 0
        house.close()
