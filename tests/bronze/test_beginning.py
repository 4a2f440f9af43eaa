"""How a lake begins: each step finds what the one before it has made."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.fixtures_house import AfterPartOfSnapshot, logged_in_as
from tests.fixtures_server import login_role
from walhouse.errors import PrivilegeError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.fixtures_house import MakeHouse
    from tests.fixtures_server import Database
    from walhouse.lakehouse.layout import LakeLayout

pytestmark = [pytest.mark.server, pytest.mark.spark]


def test_identities_are_set_before_the_publication_is_made_then_the_slot_then_the_snapshot_and_the_stream(
    spark: SparkSession, make_house: MakeHouse, database: Database, lake: LakeLayout
) -> None:
    database.execute("CREATE TABLE t (id int)", "INSERT INTO t VALUES (1)")

    def written_meanwhile() -> None:
        database.execute("INSERT INTO t VALUES (2)")

    make_house(replica_identity_autoset_values="public.t:FULL").capture(AfterPartOfSnapshot(written_meanwhile))

    [(identity_set, published)] = database.execute(
        "SELECT c.xmin::text::int8, p.xmin::text::int8 FROM pg_class c, pg_publication p WHERE c.relname = 't'"
    )
    landed = spark.table(str(lake.bronze)).where("kind IN ('change', 'snapshot')").orderBy("after").collect()
    assert [(row["kind"], row["after"]) for row in landed] == [("snapshot", "1"), ("change", "2")]
    of_snapshot, of_stream = landed
    # the slot's creation exported this snapshot: what it sees as done was done before there was a slot
    oldest_unseen = int(of_snapshot["snapshot"]["visibility"].split(":")[0])
    assert identity_set < published < oldest_unseen
    assert of_snapshot["lsn"] <= of_stream["commit_lsn"]


def test_nothing_is_made_on_a_source_that_does_not_pass_the_first_checks(
    make_house: MakeHouse, database: Database
) -> None:
    database.execute("CREATE TABLE t (id int)", "INSERT INTO t VALUES (1)")
    with login_role(database, "NOREPLICATION") as role:
        database.execute(
            f"ALTER TABLE t OWNER TO {role.user}", f"GRANT CREATE ON DATABASE {database.name} TO {role.user}"
        )
        house = make_house(
            replica_identity_autoset_values="public.t:FULL",
            publication_autocreate_mode="filtered",
            **logged_in_as(role),
        )
        with pytest.raises(PrivilegeError):
            house.capture()
        made = "SELECT relreplident, (SELECT count(*) FROM pg_publication) FROM pg_class WHERE relname = 't'"
        assert database.execute(made) == [("d", 0)]
        database.execute("ALTER TABLE t OWNER TO CURRENT_USER")
