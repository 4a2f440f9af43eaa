"""A table of which rows came while nobody captured it is read when it is captured, whatever kept it out before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from tests.fixtures_house import logged_in_as
from tests.fixtures_server import login_role
from tests.variants import further
from walhouse.errors import PublicationChangedError
from walhouse.names import TableName

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyspark.sql import SparkSession

    from tests.fixtures_house import MakeHouse
    from tests.fixtures_server import Database
    from walhouse.api import Walhouse
    from walhouse.lakehouse.layout import LakeLayout

pytestmark = [pytest.mark.server, pytest.mark.spark]

ALL = {"publication_autocreate_mode": "all_tables"}
FILTERED = {"publication_autocreate_mode": "filtered"}
ONE, BOTH = {"table_include_list": "public.one"}, {"table_include_list": "public.*"}
TABLE = "CREATE TABLE {} (id int PRIMARY KEY, v text)"
ROWS = "INSERT INTO {} SELECT n, 'row ' || n FROM generate_series(1, 9) AS n"
CHANGES = ("DELETE FROM {} WHERE id < 4", "UPDATE {} SET v = 'new' WHERE id = 5", "INSERT INTO {} VALUES (20, 'late')")


def made(table: str) -> list[str]:
    return [TABLE.format(table), ROWS.format(table)]


def changed(table: str) -> list[str]:
    return [statement.format(table) for statement in CHANGES]


STORIES: dict[str, tuple[list[str], list[str]]] = {
    "swapped": (
        ["BEGIN", *made("fresh"), "ALTER TABLE swapped RENAME TO old", "ALTER TABLE fresh RENAME TO swapped", "COMMIT"],
        changed("swapped"),
    ),
    "renamed": (["ALTER TABLE renamed RENAME TO hidden", *changed("hidden")], ["ALTER TABLE hidden RENAME TO renamed"]),
    "moved": (
        ["CREATE SCHEMA away", "ALTER TABLE moved SET SCHEMA away", *changed("away.moved")],
        ["ALTER TABLE away.moved SET SCHEMA public"],
    ),
    "made_again": (
        ["DROP TABLE made_again", TABLE.format("made_again"), "INSERT INTO made_again VALUES (2, 'new'), (30, 'more')"],
        ["INSERT INTO made_again VALUES (40, 'then')"],
    ),
    "narrowed": ([], changed("narrowed")),
    "widened": (changed("widened"), []),
    "created": (made("created"), []),
}
"""What befalls a table of this name, first and then; the lists leave out some of them for a while."""

BEFORE = ("swapped", "renamed", "moved", "made_again", "narrowed")
MEANWHILE = BEFORE[:-1]


@pytest.fixture
def one(database: Database) -> Database:
    database.execute(*made("one"))
    return database


def _proven(house: Walhouse) -> dict[str, bool]:
    return {proof.table.table: proof.equal for proof in house.verify()}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "between"), [(FILTERED, True), further(FILTERED, False), further(ALL, False), further(ALL, True)]
)
def test_a_table_is_whole_whatever_kept_its_rows_out(
    mode: dict[str, Any], between: bool, database: Database, make_house: MakeHouse
) -> None:
    """``between``: whether a run looks at the source in the middle of each story."""

    def capturing(tables: Iterable[str]) -> Walhouse:
        return make_house(**mode, table_include_list=",".join(f"public.{table}" for table in tables))

    for table in STORIES.keys() - {"created"}:
        database.execute(*made(table))
    capturing(BEFORE).run()
    for first, _ in STORIES.values():
        database.execute(*first)
    if between:
        capturing(MEANWHILE).run()
    for _, then in STORIES.values():
        database.execute(*then)
    if between:
        capturing(MEANWHILE).run()
    house = capturing(STORIES)
    house.run()
    assert _proven(house) == dict.fromkeys(sorted(STORIES), True)


@pytest.mark.slow
@pytest.mark.parametrize("mode", [further(ALL), FILTERED])
def test_a_captured_table_that_gets_another_name_is_whole_under_that(
    mode: dict[str, Any], one: Database, make_house: MakeHouse
) -> None:
    house = make_house(**mode, **BOTH)
    house.run()
    one.execute("ALTER TABLE one RENAME TO two", *changed("two"))
    house.run()
    assert _proven(house) == {"two": True}
    one.execute("UPDATE two SET v = 'then' WHERE id = 6", "ALTER TABLE two RENAME TO one")
    house.run()
    assert _proven(house) == {"one": True}


@pytest.mark.slow
def test_a_table_that_was_unlogged_for_a_while_is_read_again(one: Database, make_house: MakeHouse) -> None:
    house = make_house(**ALL)
    house.run()
    one.execute("ALTER TABLE one SET UNLOGGED", *changed("one"))
    house.run()
    one.execute("ALTER TABLE one SET LOGGED")
    house.run()
    assert _proven(house) == {"one": True}


@pytest.mark.slow
def test_a_table_that_is_made_while_all_are_captured_comes_by_the_stream_alone(
    spark: SparkSession, one: Database, lake: LakeLayout, make_house: MakeHouse
) -> None:
    house = make_house(**ALL)
    house.run()
    one.execute(*made("late"))
    house.run()
    assert _proven(house) == {"one": True, "late": True}
    ops = spark.table(str(lake.silver(TableName("public", "late")))).select("op").distinct()
    assert [row["op"] for row in ops.collect()] == ["c"]


def test_a_table_that_is_made_while_capture_begins_is_read(
    one: Database, make_house: MakeHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the tables to be read were chosen, and before the slot: its rows are in no snapshot and no stream."""
    from walhouse.bronze.beginning import Beginning

    slot: Callable[[Beginning], object] = Beginning._slot

    def after_the_choice(beginning: Beginning) -> object:
        one.execute(*made("meanwhile"))
        return slot(beginning)

    monkeypatch.setattr(Beginning, "_slot", after_the_choice)
    house = make_house(**ALL)
    house.run()
    one.execute("INSERT INTO one VALUES (10, 'x')")
    house.run()
    assert _proven(house) == {"one": True, "meanwhile": True}


@pytest.mark.slow
@pytest.mark.parametrize("where", [further(None), "id > 3"])
def test_a_signal_for_a_table_that_was_just_added_does_not_keep_the_rest_of_it_from_being_read(
    where: str | None, one: Database, make_house: MakeHouse
) -> None:
    """A transaction that runs when the table is added wrote a row that nobody sends."""
    house = make_house(**FILTERED, table_include_list="public.*")
    house.run()
    one.execute(*made("late"))
    with one.connect(autocommit=False) as running:
        running.execute("INSERT INTO late VALUES (50, 'unsent')")
        one.execute("ALTER PUBLICATION walhouse_test ADD TABLE late")
        house.snapshot([TableName("public", "late")], where)
        with house._writing():
            capture = house._capture()
            capture.begin()
            capture.requests.take_signals()
            capture.requests.read(lambda _: None)
    house.run()
    assert _proven(house) == {"one": True, "late": True}


@pytest.mark.slow
@pytest.mark.parametrize("key", [further("PRIMARY KEY"), ""])
def test_a_table_that_may_not_be_read_yet_is_read_once_it_may_and_holds_no_other_up_until_then(
    key: str, spark: SparkSession, one: Database, lake: LakeLayout, make_house: MakeHouse
) -> None:
    with login_role(one, "REPLICATION") as reader:
        assert reader.user
        one.execute("CREATE PUBLICATION own FOR TABLE one", f"GRANT SELECT ON one TO {reader.user}")
        house = make_house(
            publication_name="own", publication_autocreate_mode="disabled", **BOTH, **logged_in_as(reader)
        )
        house.run()
        one.execute(f"CREATE TABLE late (id int {key})", "ALTER TABLE late REPLICA IDENTITY FULL")
        one.execute("INSERT INTO late SELECT generate_series(1, 9)", "ALTER PUBLICATION own ADD TABLE late")
        house.run()
        told = spark.table(str(lake.ops("notifications"))).where(F.col("id").startswith("added-"))
        assert told.where(F.col("additional_data")["status"] == "SQL_EXCEPTION").count() == 1
        one.execute("INSERT INTO one VALUES (10, 'goes on')", "DELETE FROM late WHERE id > 5")
        one.execute("INSERT INTO late VALUES (20), (21)", "UPDATE late SET id = id + 100 WHERE id > 3")
        house.run()
        assert spark.table(str(lake.gold(TableName("public", "one")))).where("id = 10").count() == 1
        one.execute(f"GRANT SELECT ON late TO {reader.user}", "INSERT INTO late VALUES (10)")
        house.run()
        assert _proven(house) == {"one": True, "late": True}


@pytest.mark.slow
def test_a_table_that_was_taken_from_the_publication_is_an_error_until_it_is_back_and_then_read_anew(
    one: Database, make_house: MakeHouse
) -> None:
    """``filtered`` adds it itself; left out of the configuration, it is nobody's concern."""
    one.execute("CREATE TABLE two (id int PRIMARY KEY)", "CREATE PUBLICATION own FOR TABLE one, two")
    own = {"publication_name": "own", "publication_autocreate_mode": "disabled"}
    house = make_house(**own, **BOTH)
    house.run()
    one.execute("ALTER PUBLICATION own DROP TABLE one", *changed("one"))
    with pytest.raises(PublicationChangedError, match="one was removed from it"):
        house.run()
    make_house(**own, table_include_list="public.two").run()
    one.execute("ALTER PUBLICATION own ADD TABLE one")
    house = make_house(**own, **BOTH)
    house.run()
    assert _proven(house) == {"one": True, "two": True}
    one.execute("ALTER PUBLICATION own DROP TABLE one", *changed("one")[:2])
    house = make_house(**{**own, **FILTERED}, **BOTH)
    house.run()
    assert _proven(house) == {"one": True, "two": True}
