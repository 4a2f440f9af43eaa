"""Commits that the proof's snapshot does not see are made up for, exactly, and hide no difference."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.gold.changelog import CHANGE_SCHEMA, Row, SourceTable, change, column, relation
from tests.gold.test_apply import HISTORIES, Workload
from walhouse.lsn import Lsn
from walhouse.postgres.visibility import Visibility
from walhouse.proof.compare import compare
from walhouse.proof.invisible import expected_overrides, invisible_changes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

SEED = 5
COLUMNS = [
    column("History", "int4"), column("id", "text"), column("amount", "text"), column("body", "text"),
    column("doc", "json"), column("ratio", "float8"),
]  # fmt: skip


class Cut(Workload):
    """A workload in which each history is seen only up to a point of its own, as commits of other keys come late."""

    def __init__(self, source: SourceTable, statements: int) -> None:
        super().__init__(source, SEED)
        self.cuts = [self.random.randrange(statements * 2) for _ in range(HISTORIES)]
        self.seen: list[list[Row] | None] = [None] * HISTORIES
        self.unseen: set[int] = set()
        self.number_of_statement = 0

    def statement(self, history: int) -> None:
        self.number_of_statement += 1
        if self.number_of_statement > self.cuts[history]:
            if self.seen[history] is None:
                self.seen[history] = list(self.live[history])
            self.unseen.add(self.source.lsn)
        super().statement(history)
        self.source.commit()

    def number(self) -> str:
        return self.random.choice(["0.1", "-0", "NaN", "1e+20"])

    def visible_rows(self) -> list[Row]:
        return [row for h, rows in enumerate(self.seen) for row in (self.live[h] if rows is None else rows)]


def printed(rows: list[Row]) -> list[tuple[list[str | None]]]:
    """Rows as the source prints them for the proof: the float's bits."""
    bits = {"0.1": "3fb999999999999a", "-0": "8000000000000000", "NaN": "7ff8000000000000", "1e+20": "4415af1d78b58c40"}
    return [([*row[:5], bits[row[5]]],) for row in rows if row[5] is not None]


def gold_of(spark: SparkSession, rows: list[Row]) -> DataFrame:
    schema = (
        "History INT, id STRING, amount STRING, body STRING, doc STRING, ratio DOUBLE, _rescued MAP<STRING, STRING>"
    )
    return spark.createDataFrame([(int(r[0] or 0), *r[1:5], float(r[5] or 0), None) for r in rows], schema).coalesce(1)


@pytest.mark.parametrize(("key", "identity"), [(("History", "id"), "d"), ((), "f")], ids=["key", "bag"])
def test_rows_seen_before_a_late_commit_are_brought_to_what_gold_must_hold(
    spark: SparkSession, key: tuple[str, ...], identity: str
) -> None:
    described = relation(COLUMNS, key=key, identity=identity)
    workload = Cut(SourceTable(described, key, toasted=frozenset({"body", "doc"})), HISTORIES * 6)
    workload.run(HISTORIES * 6)
    h = Lsn(workload.source.lsn)
    # what starts at H or later is in no epoch yet, and what began after the snapshot is seen by nobody
    late = change("c", int(h), 0, described, after=("1", "later", None, None, None, "0.1"), xid=int(h))
    visibility = Visibility(1, int(h), frozenset(workload.unseen))
    source = spark.createDataFrame(printed(workload.visible_rows()), "values ARRAY<STRING>").coalesce(1)
    changes = spark.createDataFrame([*workload.source.sent, late], CHANGE_SCHEMA).coalesce(1)
    held = [row for rows in workload.live.values() for row in rows]
    assert Counter(held) != Counter(workload.visible_rows())

    overrides = expected_overrides(source, changes, (described,), visibility, h)
    gold = gold_of(spark, held)
    assert not compare(source, gold, described, key).equal
    assert compare(source, gold, described, key, expected_overrides=overrides).sample == (), f"seed {SEED}"
    # wrong rows are found whether their keys were touched by a late commit or not
    touched = next(h for h in range(HISTORIES) if workload.seen[h] is not None and workload.live[h])
    untouched = next(h for h in range(HISTORIES) if workload.seen[h] is None and workload.live[h])
    wrong = list(held)
    for history in (touched, untouched):
        wrong.remove(workload.live[history][0])
    found = compare(source, gold_of(spark, wrong), described, key, expected_overrides=overrides)
    assert [found.differing, found.source_rows - found.gold_rows] == [2, 2]


@pytest.mark.parametrize(("key", "identity"), [(("id",), "d"), ((), "f")], ids=["key", "bag"])
def test_a_truncate_that_the_snapshot_does_not_see_empties_what_it_shows(
    spark: SparkSession, key: tuple[str, ...], identity: str
) -> None:
    described = relation([column("id", "text")], key=key, identity=identity)
    changes = [
        change("c", 1, 0, described, after=("old",), xid=5),
        change("t", 2, 0, described, xid=6),
        change("c", 2, 1, described, after=("new",), xid=6),
    ]
    source = spark.createDataFrame([(["old"],), (["older"],)], "values ARRAY<STRING>")
    frame = spark.createDataFrame(changes, CHANGE_SCHEMA)
    gold = spark.createDataFrame([("new", None)], "id STRING, _rescued MAP<STRING, STRING>")
    overrides = expected_overrides(source, frame, (described,), Visibility(6, 7, frozenset({6})), Lsn(3))
    assert compare(source, gold, described, key, expected_overrides=overrides).equal


def test_a_snapshot_that_sees_every_change_needs_nothing_made_up_for(spark: SparkSession) -> None:
    described = relation([column("id", "text")], key=("id",))
    changes = spark.createDataFrame([change("c", 1, 0, described, after=("a",), xid=5)], CHANGE_SCHEMA)
    source = spark.createDataFrame([(["a"],)], "values ARRAY<STRING>")
    assert expected_overrides(source, changes, (described,), Visibility(6, 6, frozenset()), Lsn(3)) is None


@pytest.mark.parametrize(
    ("xid", "commit_lsn", "op", "invisible"),
    [
        (9, 99, "c", False),
        (10, 99, "c", False),
        (12, 99, "u", True),
        (15, 99, "d", False),
        (20, 99, "c", True),
        (20, 100, "c", False),
        (12, 99, "r", False),
    ],
)
def test_a_change_is_invisible_by_postgres_own_rule_and_only_before_h(
    spark: SparkSession, xid: int, commit_lsn: int, op: str, invisible: bool
) -> None:
    described = relation([column("id", "text")], key=("id",))
    changes = spark.createDataFrame([change(op, commit_lsn, 0, described, after=("a",), xid=xid)], CHANGE_SCHEMA)
    visibility = Visibility(10, 20, frozenset({12, 14}))
    assert (invisible_changes(changes, visibility, Lsn(100)).count() == 1) is invisible
