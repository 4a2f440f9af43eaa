"""Gold's tables at one position: what a transaction wrote is in all of them, or in none."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.changes.killing import Killed, killed_in_gold_of
from walhouse.changes.epochs import Cut
from walhouse.errors import NothingAppliedError, QueryError
from walhouse.gold.cut import sql_at
from walhouse.lsn import Lsn
from walhouse.names import TableName

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.fixtures_house import MakeHouse
    from tests.fixtures_server import Database
    from walhouse.api import Walhouse
    from walhouse.lakehouse.layout import LakeLayout

pytestmark = [pytest.mark.server, pytest.mark.spark]

PAYMENTS = TableName("public", "payments")
BALANCE = "SELECT (SELECT sum(amount) FROM {public_payments}), (SELECT sum(amount) FROM {public_accounts})"


@pytest.fixture
def accounts(database: Database) -> Database:
    """What is paid is on an account: the two sums are equal after every transaction."""
    database.execute(
        "CREATE TABLE accounts (id int PRIMARY KEY, amount int)",
        "CREATE TABLE payments (id int PRIMARY KEY, amount int)",
        "CREATE TABLE notes (id int PRIMARY KEY)",
        "INSERT INTO accounts VALUES (1, 0)",
        "INSERT INTO notes VALUES (1)",
    )
    pay(database, 1, 10)
    return database


def pay(database: Database, payment: int, amount: int) -> None:
    database.execute(
        f"WITH paid AS (INSERT INTO payments VALUES ({payment}, {amount}) RETURNING amount)"
        " UPDATE accounts SET amount = accounts.amount + paid.amount FROM paid"
    )


def balance(house: Walhouse, cut: Cut | None = None) -> list[int]:
    """The two sums: at the cut, or as the tables are now."""
    names = {f"public_{table}": f"{house.layout.gold_schema}.public_{table}" for table in ("payments", "accounts")}
    row = house.sql(BALANCE.format(**names) if cut is None else BALANCE, cut=cut).first()
    assert row is not None
    return list(row)


@pytest.mark.slow
def test_a_cut_shows_a_transaction_in_all_tables_or_in_none_while_they_are_merged_one_by_one(
    accounts: Database, make_house: MakeHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = make_house()
    with pytest.raises(NothingAppliedError):
        house.cut()
    house.run()
    first = house.cut()
    pay(accounts, 2, 5)
    with killed_in_gold_of(PAYMENTS, monkeypatch), pytest.raises(Killed):
        make_house().run()
    assert balance(house) == [10, 15]
    assert house.cut() == first
    assert balance(house, house.cut()) == [10, 10]

    make_house().run()
    last = house.cut()
    assert last.lsn > first.lsn
    assert last.versions.keys() == first.versions.keys()  # a table that did not change has its version from before
    assert balance(house, last) == balance(house) == [15, 15]
    assert house.cut(first.lsn) == first
    assert balance(house, first) == [10, 10]
    with pytest.raises(NothingAppliedError):
        house.cut(Lsn(first.lsn - 1))
    with pytest.raises(NothingAppliedError, match="public_nobody"):
        house.sql("SELECT * FROM {public_nobody}", cut=last)


@pytest.mark.slow
def test_a_table_made_anew_stands_in_the_cut_of_its_epoch(accounts: Database, make_house: MakeHouse) -> None:
    house = make_house()
    house.run()
    pay(accounts, 2, 5)
    house.run()
    house.sql(f"DELETE FROM {house.layout.gold(PAYMENTS)}")
    assert balance(house, house.cut()) == [15, 15]
    house.rebuild("gold", [PAYMENTS])
    assert balance(house, house.cut()) == balance(house) == [15, 15]


def test_a_query_at_a_cut_names_any_table_and_has_its_own_braces_written_twice(
    spark: SparkSession, lake: LakeLayout
) -> None:
    layout = replace(lake, table_name="{table}")
    spark.sql(f"CREATE SCHEMA {layout.gold_schema}")
    versions = {}
    for number, name in enumerate(("args", "self", "table_0")):
        table = TableName("public", name)
        spark.sql(f"CREATE TABLE {layout.gold(table)} USING delta AS SELECT {number} AS id")
        versions[table] = 0
        spark.sql(f"INSERT INTO {layout.gold(table)} VALUES (9)")
    cut = Cut(Lsn(1), versions)

    def answer(query: str) -> list[object]:
        return [row[0] for row in sql_at(spark, layout, query, cut).collect()]

    every = "SELECT id FROM {self} UNION ALL SELECT id FROM {args} UNION ALL SELECT id FROM {self} ORDER BY id"
    assert answer(every) == [0, 1, 1]
    assert answer("SELECT concat('{{', id, '}}') FROM {table_0}") == ["{2}"]
    assert answer("SELECT '{{}}'") == ["{}"]
    for query in ("SELECT * FROM {args:x}", "SELECT * FROM {args!r}", "SELECT * FROM {args"):
        with pytest.raises(QueryError):
            answer(query)
    with pytest.raises(NothingAppliedError, match="payments"):
        answer("SELECT * FROM {payments}")
