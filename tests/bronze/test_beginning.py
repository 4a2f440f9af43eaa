"""How a lake begins: each step finds what the one before it has made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.fixtures_house import AfterPartOfSnapshot, logged_in_as
from tests.fixtures_server import login_role
from walhouse.errors import PrivilegeError
from walhouse.postgres.probe import SentCommit, last_commit_sent
from walhouse.postgres.slot import advance

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


@pytest.mark.slow
def test_a_slot_that_stands_before_the_end_of_bronze_is_that_of_before_wherever_the_ranges_were_cut(
    database: Database, make_house: MakeHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it sends again is compared with what bronze has: also where that is nothing, or no transaction."""
    database.execute("CREATE TABLE t (id int, v text)", "CREATE TABLE unpublished (id int)")
    writes = (
        "INSERT INTO t SELECT n, repeat('x', 500) FROM generate_series(1, 30) n",
        "INSERT INTO unpublished SELECT generate_series(1, 300)",
        "SELECT pg_logical_emit_message(false, 'lone', repeat('m', 9000))",
        "SELECT pg_logical_emit_message(true, 'of a transaction', 'm')",
    )
    make_house(publication_autocreate_mode="filtered", table_include_list="public.t").capture()
    advances: list[bool] = []
    sent: list[SentCommit | None] = []

    def asked(*arguments: Any) -> SentCommit | None:
        sent.append(last_commit_sent(*arguments))
        return sent[-1]

    monkeypatch.setattr("walhouse.bronze.beginning.last_commit_sent", asked)

    def now_and_then(*arguments: Any) -> None:
        advances.append(len(advances) % 3 == 0)
        if advances[-1]:
            advance(*arguments)

    for number in range(8):
        database.execute(*(writes[(number + shift) % 4] for shift in range(1 + number % 3)))
        house = make_house(lake_max_pass_bytes=8192 * (1 + number % 2), table_include_list="public.t")
        with monkeypatch.context() as patch:
            patch.setattr("walhouse.bronze.capture.advance", now_and_then)
            house.capture()
    assert None in sent
    assert any(sent)


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
