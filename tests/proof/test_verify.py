"""The proof on a source that is not told to hold still."""

from __future__ import annotations

import shutil
import threading
import time
from typing import TYPE_CHECKING, Any, NoReturn

import pytest
from pyspark.errors import AnalysisException

from walhouse.errors import NothingAppliedError, NotProvenError
from walhouse.names import TableName
from walhouse.postgres.snapshot import locked_tables
from walhouse.proof import verify
from walhouse.proof.verify import Verification

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.fixtures_house import MakeHouse
    from tests.fixtures_server import Database
    from walhouse.api import Walhouse
    from walhouse.lakehouse.layout import LakeLayout

pytestmark = [pytest.mark.server, pytest.mark.spark]


def keeps_nothing(spark: SparkSession) -> bool:
    """Whether Spark has no query's rows on its disks."""
    return bool(spark._jsparkSession.sharedState().cacheManager().isEmpty())


def house_with_rows(database: Database, make_house: MakeHouse) -> Walhouse:
    """A house that has the hundred rows of the table ``t``."""
    database.execute("CREATE TABLE t (id int PRIMARY KEY, v text)", "INSERT INTO t SELECT generate_series(1, 100)")
    house = make_house()
    house.run()
    return house


def test_a_lake_that_was_not_begun_is_not_begun_by_its_proof(database: Database, make_house: MakeHouse) -> None:
    house = make_house()
    with pytest.raises(NothingAppliedError, match="walhouse run"):
        house.verify()
    assert database.execute("SELECT slot_name FROM pg_replication_slots WHERE database = current_database()") == []
    assert database.execute("SELECT pubname FROM pg_publication") == []


@pytest.mark.parametrize("comes", ["before its pages are looked at", "before its rows are read"])
def test_a_truncate_while_the_source_is_read_is_soon_let_through_and_the_proof_made_again(
    comes: str, database: Database, make_house: MakeHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The TRUNCATE waits for the proof's lock, every new reader for the TRUNCATE; it need not wait the usual 10 s."""
    house = house_with_rows(database, make_house)
    waited: list[float] = []

    def truncate() -> None:
        begin = time.monotonic()
        database.execute("TRUNCATE t")
        waited.append(time.monotonic() - begin)

    truncating = threading.Thread(target=truncate)
    plan = Verification._plan

    def truncate_meanwhile() -> None:
        if truncating.ident is None:
            truncating.start()
            while not database.execute("SELECT 1 FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND NOT granted"):
                time.sleep(0.05)

    def plan_meanwhile(verification: Verification, *arguments: Any) -> Any:
        if comes == "before its pages are looked at":
            truncate_meanwhile()
        planned = plan(verification, *arguments)
        truncate_meanwhile()
        return planned

    monkeypatch.setattr(Verification, "_plan", plan_meanwhile)
    (proof,) = house.verify()
    truncating.join()
    assert proof.equal
    assert (proof.source_rows, proof.gold_rows) == (0, 0)
    assert waited[0] < 6


@pytest.mark.parametrize(
    ("statement", "known", "locks"),
    [
        ("ALTER TABLE t ADD COLUMN more int", ["id", "v", "more"], 2),
        ("ALTER TABLE t DROP COLUMN v", ["id"], 2),
        ("UPDATE t SET v = 1", ["id", "v"], 1),
    ],
)
def test_a_table_that_is_altered_before_the_proof_has_locked_it_is_compared_as_it_is_then(
    statement: str,
    known: list[str],
    locks: int,
    database: Database,
    make_house: MakeHouse,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A column that the proof does not know of would not be compared at all."""
    house = house_with_rows(database, make_house)
    done: list[bool] = []
    columns: list[list[str]] = []

    def altered_before(*arguments: Any) -> Any:
        if not done:
            database.execute(statement, "UPDATE t SET id = -id")
        done.append(True)
        return locked_tables(*arguments)

    read = Verification._read

    def seen(verification: Verification, relation: Any, *arguments: Any, **keywords: Any) -> Any:
        columns.append([column.name for column in relation.columns])
        return read(verification, relation, *arguments, **keywords)

    monkeypatch.setattr(verify, "locked_tables", altered_before)
    monkeypatch.setattr(Verification, "_read", seen)
    (proof,) = house.verify()
    assert proof.equal
    assert (proof.source_rows, proof.gold_rows) == (100, 100)
    assert (columns, len(done)) == ([known], locks)


@pytest.mark.parametrize(
    "statement",
    ["TRUNCATE t", "ALTER TABLE t ADD COLUMN more int DEFAULT 5", "ALTER TABLE t DROP COLUMN v", "DROP TABLE t"],
)
def test_nobody_waits_for_the_proof_once_the_source_is_read(
    statement: str, database: Database, make_house: MakeHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = house_with_rows(database, make_house)
    database.execute("INSERT INTO t SELECT generate_series(101, 300)")
    bring_to = Verification._bring_to

    def changed_before(verification: Verification, *arguments: Any) -> Any:
        database.execute(f"SET lock_timeout = '5s'; {statement}")
        return bring_to(verification, *arguments)

    monkeypatch.setattr(Verification, "_bring_to", changed_before)
    (proof,) = house.verify()
    assert proof.equal
    assert (proof.source_rows, proof.gold_rows) == (300, 300)
    assert keeps_nothing(house.spark)


def test_a_table_that_is_not_captured_is_named_and_no_other_is_taken_for_it(
    database: Database, make_house: MakeHouse
) -> None:
    house = house_with_rows(database, make_house)
    with pytest.raises(NotProvenError, match=r"public\.typo"):
        house.verify([TableName("public", "t"), TableName("public", "typo")])


@pytest.mark.slow
def test_tables_may_be_written_out_and_one_needs_no_list(database: Database, make_house: MakeHouse) -> None:
    house = house_with_rows(database, make_house)
    for named in ("public.t", ["public.t"], TableName("public", "t")):
        assert [str(proof.table) for proof in house.verify(named) if proof.equal] == ["public.t"]
    told = house.follow(house.snapshot("public.t"), poll_seconds=0.1)
    assert "public.t" in [each.data.get("scanned_collection") for each in told]
    house.run()
    assert house.rebuild("gold", "public.t") > 0
    assert len(list(house.events("public.t"))) > 0


@pytest.mark.slow
def test_a_table_that_was_made_again_and_is_not_published_yet_is_named_until_a_run_has_read_it(
    database: Database, make_house: MakeHouse
) -> None:
    """Gold has the rows of the one that was dropped."""
    house = house_with_rows(database, make_house)
    database.execute("CREATE TABLE other (id int PRIMARY KEY)")
    house.run()
    database.execute("DROP TABLE t", "CREATE TABLE t (id int PRIMARY KEY, v text)", "INSERT INTO t VALUES (7, 'new')")
    with pytest.raises(NotProvenError, match=r"does not have public\.t any more") as refused:
        house.verify()
    assert refused.value.fields["tables"] == ["public.t"]
    assert [proof.equal for proof in house.verify([TableName("public", "other")])] == [True]
    house.run()
    assert [(str(proof.table), proof.equal, proof.gold_rows) for proof in house.verify()] == [
        ("public.other", True, 0),
        ("public.t", True, 1),
    ]
    database.execute("DROP TABLE t")
    house.run()
    assert [str(proof.table) for proof in house.verify()] == ["public.other"]


def test_a_gold_table_that_was_dropped_is_named_by_the_proof_and_right_once_it_is_made_anew(
    database: Database, lake: LakeLayout, make_house: MakeHouse
) -> None:
    house = house_with_rows(database, make_house)
    table = TableName("public", "t")
    house.spark.sql(f"DROP TABLE {lake.gold(table)}")
    shutil.rmtree(str(lake.location(lake.gold(table))))
    with pytest.raises(NotProvenError, match="walhouse rebuild gold TABLE") as refused:
        house.verify()
    assert refused.value.fields["tables"] == ["public.t"]
    house.rebuild("gold", [table])
    assert [proof.equal for proof in house.verify()] == [True]


def test_rows_that_a_failed_proof_read_are_not_kept(
    database: Database, make_house: MakeHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = house_with_rows(database, make_house)

    def failing(*_: Any) -> Any:
        raise ConnectionAbortedError

    monkeypatch.setattr(Verification, "_bring_to", failing)
    with pytest.raises(ConnectionAbortedError):
        house.verify()
    assert keeps_nothing(house.spark)


def test_compute_that_keeps_no_rows_is_named_and_everything_let_go(
    database: Database, make_house: MakeHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = house_with_rows(database, make_house)

    def refuse(*_: object) -> NoReturn:
        raise AnalysisException("[NOT_SUPPORTED_WITH_SERVERLESS] PERSIST TABLE is not supported on serverless compute.")

    monkeypatch.setattr(type(house.spark.range(1)), "persist", refuse)
    with pytest.raises(NotProvenError, match="Serverless"):
        house.verify()
    database.execute("SET lock_timeout = '5s'; TRUNCATE t")
