"""Gold after any history is what PostgreSQL holds: an independent model of the source against real Delta tables."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.gold.changelog import Row, SourceTable, change, column, epoch_of, numeric, relation
from walhouse.gold.apply import apply_gold

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from walhouse.changes.epoch import AppliedTable
    from walhouse.lakehouse.layout import LakeLayout

pytestmark = pytest.mark.spark

SEED = 20_240_611
HISTORIES = 200
COLUMNS = [
    column("History", "int4"),
    column("id", "text"),
    numeric("amount", 10, 2),
    column("body, long", "text"),
    column("doc", "json"),
    column("_seq", "int8"),
]
TOASTED = frozenset({"body, long", "doc"})


class Workload:
    """Random statements on many independent histories (key spaces) of one table."""

    def __init__(self, source: SourceTable, seed: int) -> None:
        self.source = source
        self.random = random.Random(seed)
        self.live: dict[int, list[Row]] = {history: [] for history in range(HISTORIES)}

    def run(self, statements: int, *, truncates: int = 0) -> None:
        at = set(self.random.sample(range(statements // 4, statements), truncates))
        for number in range(statements):
            if number in at:
                self.source.truncate()
                self.live = {history: [] for history in range(HISTORIES)}
            self.statement(self.random.randrange(HISTORIES))
            if self.random.random() < 0.3:
                self.source.commit()
        self.source.commit()

    def statement(self, history: int) -> None:
        rows = self.live[history]
        choice = self.random.random()
        if not rows or choice < 0.2:
            self.insert(history)
        elif choice < 0.5:
            self.update(rows, self.random.randrange(len(rows)))
        elif choice < 0.7:
            self.move(rows, self.random.randrange(len(rows)), self.free_key(history))
        elif choice < 0.8 and len(rows) > 1:
            self.swap(rows)
        else:
            self.source.delete(rows.pop(self.random.randrange(len(rows))))

    def insert(self, history: int) -> None:
        copies = self.live[history] if not self.source.key else []
        if copies and self.random.random() < 0.5:
            self.source.insert(copies[0])
            copies.append(copies[0])
            return
        key = self.free_key(history)
        if key is not None:
            row = (str(history), key, self.amount(), self.long(), self.long(), self.number())
            self.source.insert(row)
            self.live[history].append(row)

    def update(self, rows: list[Row], at: int) -> None:
        old = rows[at]
        body = old[3] if self.random.random() < 0.7 else self.long()
        doc = old[4] if self.random.random() < 0.7 else self.long()
        rows[at] = (old[0], old[1], self.amount(), body, doc, self.number())
        self.source.update(old, rows[at])

    def move(self, rows: list[Row], at: int, key: str | None) -> None:
        if key is not None:
            old = rows[at]
            rows[at] = (old[0], key, *old[2:])
            self.source.update(old, rows[at])

    def swap(self, rows: list[Row]) -> None:
        """Two rows change keys by way of a third key, as one has to where keys are checked at once."""
        one, other = self.random.sample(range(len(rows)), 2)
        key_one, key_other = rows[one][1], rows[other][1]
        self.move(rows, one, "by the way")
        self.move(rows, other, key_one)
        self.move(rows, one, key_other)

    def free_key(self, history: int) -> str | None:
        """Few keys, so that they are used again and again."""
        used = {row[1] for row in self.live[history]} if self.source.key else set()
        free = [key for key in ("a", "b", "c", "d", "é ") if key not in used]
        return self.random.choice(free) if free else None

    def amount(self) -> str | None:
        if not self.source.key:  # rows of a bag are meant to be equal now and then
            return self.random.choice([None, "NaN", "1.50"])
        return self.random.choice([None, "NaN", f"{self.random.randint(-999, 999)}.{self.random.randint(0, 99):02}"])

    def long(self) -> str | None:
        kinds = [None, "short", f"T{self.random.randrange(10**6)}", f"T{self.random.randrange(10**6)}"]
        return self.random.choice(kinds if self.source.key else [None, "short", "Tall"])

    def number(self) -> str:
        return str(self.random.randrange(10**12))


def gold_rows(spark: SparkSession, lake: LakeLayout, source: SourceTable) -> Counter[Row]:
    """The gold table as PostgreSQL's texts, by rules of this test alone."""
    rows = spark.table(str(lake.gold(source.relation.name))).collect()
    found: Counter[Row] = Counter()
    for row in rows:
        assert row["_unavailable"] is None
        rescued = row["_rescued"] or {}
        assert set(rescued) <= {"amount"}
        texts = [None if value is None else str(value) for value in row[:6]]
        found[tuple(rescued.get(name, text) for name, text in zip(row.__fields__, texts, strict=False))] += 1
    return found


def check_histories(spark: SparkSession, lake: LakeLayout, source: SourceTable, truncates: tuple[int, ...]) -> None:
    workload = Workload(source, SEED)
    base: AppliedTable | None = None
    for number, count in enumerate(truncates, start=1):
        workload.run(HISTORIES * 6, truncates=count)
        epoch = source.epoch(spark, number, None if base is None else base.version)
        apply_gold(spark, lake, epoch)
        expected = Counter(source.rows.values()) if source.key else source.bag
        assert gold_rows(spark, lake, source) == expected, f"seed {SEED}, epoch {number}"
        again = apply_gold(spark, lake, epoch)
        assert (again.counts["upserted"], again.counts["deleted"]) == (0, 0), f"seed {SEED}, epoch {number}"
        assert gold_rows(spark, lake, source) == expected, f"seed {SEED}, epoch {number}, applied again"
        base = again


def test_gold_holds_the_rows_of_the_source_after_any_history_and_an_epoch_applied_again_changes_nothing(
    spark: SparkSession, lake: LakeLayout
) -> None:
    source = SourceTable(relation(COLUMNS, key=("id", "History")), ("id", "History"), toasted=TOASTED)
    check_histories(spark, lake, source, truncates=(0, 1, 0))


@pytest.mark.slow
def test_with_full_identity_and_a_primary_key_gold_holds_the_rows_of_the_source(
    spark: SparkSession, lake: LakeLayout
) -> None:
    source = SourceTable(relation(COLUMNS, key=("id", "History"), identity="f"), ("id", "History"), toasted=TOASTED)
    check_histories(spark, lake, source, truncates=(0, 1))


@pytest.mark.slow
def test_where_new_rows_have_changed_columns_alone_gold_holds_the_rows_of_the_source(
    spark: SparkSession, lake: LakeLayout
) -> None:
    source = SourceTable(relation(COLUMNS, key=("id", "History"), identity="c"), ("id", "History"))
    check_histories(spark, lake, source, truncates=(0, 1))


def test_a_table_without_a_key_has_each_row_as_often_as_the_source(spark: SparkSession, lake: LakeLayout) -> None:
    source = SourceTable(relation(COLUMNS, identity="f"), (), toasted=TOASTED)
    check_histories(spark, lake, source, truncates=(0, 1, 0))
    assert max(source.bag.values()) > 1


def test_a_long_value_that_a_whole_old_row_does_not_have_stays_as_it_is(spark: SparkSession, lake: LakeLayout) -> None:
    """Published as a root with identity full whose partitions send keys alone."""
    root = replace(relation([column("id"), column("body")], key=("id",), identity="f"), partitioned=True)
    base = apply_gold(spark, lake, epoch_of(spark, [change("c", 100, 0, root, after=("1", "long"))], [root]))
    moved = change("u", 200, 0, root, before=("1", None), before_kind="O", after=("2", None), unchanged=["body"])
    apply_gold(spark, lake, epoch_of(spark, [moved], [root], number=2, base_version=base.version))
    rows = spark.table(str(lake.gold(root.name))).select("id", "body", "_unavailable").collect()
    assert [tuple(row) for row in rows] == [("2", "long", None)]
