"""What DDL changes without a change in the WAL: a proof tells of it, and reading again brings it right (OPERATIONS)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.variants import further
from walhouse.errors import LakeError
from walhouse.names import TableName

if TYPE_CHECKING:
    from tests.fixtures_house import MakeHouse
    from tests.fixtures_server import Database
    from walhouse.api import Walhouse

pytestmark = [pytest.mark.server, pytest.mark.spark]

T = TableName("public", "t")
PLAIN = (
    "CREATE TABLE t (id int PRIMARY KEY, v text)",
    "INSERT INTO t SELECT n, 'row ' || n FROM generate_series(1, 5) n",
)
PARTED = (
    "CREATE TABLE t (id int PRIMARY KEY) PARTITION BY RANGE (id)",
    "CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (10)",
    "CREATE TABLE t2 PARTITION OF t FOR VALUES FROM (10) TO (20)",
    "INSERT INTO t SELECT generate_series(1, 15)",
)
LABELLED = (
    "CREATE TYPE label AS ENUM ('a', 'b', 'c')",
    "CREATE TYPE pair AS (x int)",
    "CREATE TABLE t (id int PRIMARY KEY, v label, p pair)",
    "INSERT INTO t VALUES (1, 'a', ROW(1)), (2, 'b', ROW(2)), (3, 'c', NULL)",
)
KEYED_BY_LABEL = (
    "CREATE TYPE label AS ENUM ('a', 'b', 'c')",
    "CREATE TABLE t (id int UNIQUE, v label PRIMARY KEY DEFAULT 'c')",
    "INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')",
)
ATTACHED = (
    "CREATE TABLE t3 (id int PRIMARY KEY)",
    "INSERT INTO t3 SELECT generate_series(20, 25)",
    "ALTER TABLE t ATTACH PARTITION t3 FOR VALUES FROM (20) TO (30)",
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("made", "ddl", "whole"),
    [
        further(PLAIN, ["ALTER TABLE t ADD COLUMN n int DEFAULT 5"], False),
        (PLAIN, ["ALTER TABLE t DROP COLUMN v", "ALTER TABLE t ADD COLUMN v text"], False),
        further(PLAIN, ["ALTER TABLE t ALTER v TYPE text USING upper(v)"], False),
        further(PLAIN, ["ALTER TABLE t RENAME COLUMN v TO w"], False),
        further(LABELLED, ["ALTER TYPE label RENAME VALUE 'a' TO 'z'"], False),
        further(LABELLED, ["ALTER TYPE pair ADD ATTRIBUTE y int", "ALTER TYPE pair DROP ATTRIBUTE x"], False),
        (KEYED_BY_LABEL, ["ALTER TYPE label RENAME VALUE 'a' TO 'z'", "UPDATE t SET id = 4 WHERE v = 'z'"], True),
        further(PARTED, ["TRUNCATE t1"], True),
        further(PARTED, ["DROP TABLE t1"], True),
        further(PARTED, ["ALTER TABLE t DETACH PARTITION t1"], True),
        (PARTED, ATTACHED, True),
    ],
)
def test_a_table_that_ddl_changed_is_told_by_its_proof_and_right_after_it_was_read_again(
    made: tuple[str, ...], ddl: tuple[str, ...], whole: bool, database: Database, make_house: MakeHouse
) -> None:
    database.execute(*made)
    house = make_house(publish_via_partition_root=made is PARTED, table_include_list="public.t")
    house.run()
    there = 12 if made is PARTED else 3
    database.execute(*ddl, f"INSERT INTO t (id) VALUES ({there}) ON CONFLICT (id) DO UPDATE SET id = {there}")
    house.run()
    _told_and_right_after_it_was_read(house, whole=whole)


def _told_and_right_after_it_was_read(house: Walhouse, *, whole: bool = False) -> None:
    assert [proof.equal for proof in house.verify([T])] == [False]
    if whole:
        house.signal("execute-snapshot", {"data-collections": [r"public\.t"], "type": "blocking"})
    else:
        house.snapshot([T])
    house.run()
    assert [proof.equal for proof in house.verify([T])] == [True]


@pytest.mark.slow
def test_a_new_table_that_was_filled_unlogged_is_told_by_its_proof_and_right_after_it_was_read(
    database: Database, make_house: MakeHouse
) -> None:
    house = make_house(publication_autocreate_mode="all_tables")
    database.execute("CREATE TABLE other (id int PRIMARY KEY)")
    house.run()
    database.execute("CREATE UNLOGGED TABLE t (id int PRIMARY KEY)", "INSERT INTO t SELECT generate_series(1, 5)")
    database.execute("ALTER TABLE t SET LOGGED", "INSERT INTO t VALUES (6)")
    house.run()
    _told_and_right_after_it_was_read(house)


LEFT_OUT, MASKED = ({name: r"public\.t\.v"} for name in ("column_exclude_list", "column_mask_with_6_chars"))


@pytest.mark.slow
@pytest.mark.parametrize(("before", "then"), [(LEFT_OUT, {}), further({}, MASKED), further(MASKED, {})])
def test_a_column_of_which_other_values_were_kept_is_told_by_the_proof_and_right_after_its_table_was_read(
    before: dict[str, str], then: dict[str, str], database: Database, make_house: MakeHouse
) -> None:
    database.execute(*PLAIN)
    make_house(**before).run()
    database.execute("UPDATE t SET v = 'new' WHERE id = 1")
    house = make_house(**then)
    house.run()
    _told_and_right_after_it_was_read(house)


@pytest.mark.slow
def test_a_lake_whose_tables_get_other_names_is_right_after_both_layers_were_rebuilt(
    database: Database, make_house: MakeHouse
) -> None:
    database.execute(*PLAIN)
    make_house().run()
    database.execute("UPDATE t SET v = 'new' WHERE id = 1")
    house = make_house(lake_table_name="new_{schema}_{table}")
    with pytest.raises(LakeError, match=r"is not there, and ops\.epochs has it"):
        house.run()
    house.rebuild("gold", [T])
    house.rebuild("silver", [T])
    assert [proof.equal for proof in house.verify([T])] == [True]
    assert house.spark.table(str(house.layout.silver(T))).count() == 6
