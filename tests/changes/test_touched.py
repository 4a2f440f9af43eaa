"""What a range of bronze contains, table by table."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from walhouse.bronze.table import COLUMNS
from walhouse.changes.facts import ChunkFacts, Facts, facts_of
from walhouse.changes.touched import Touched, touched_in
from walhouse.names import MESSAGES, TableName
from walhouse.pgoutput.row import CHUNK_ID

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from walhouse.changes.facts import Place

pytestmark = pytest.mark.spark

Row = dict[str, Any]
TABLE, OTHER = TableName("public", "a"), TableName("public", "b")


def row(place: Place, op: str | None = "c", *, table: TableName = TABLE, version: int = 1, **facts: Any) -> Row:
    """A row of bronze; of a snapshot where it is read."""
    kind = "snapshot" if op == "r" else "base" if op == "b" else "change"
    where = {"schema_name": table.schema, "table_name": table.table, "commit_lsn": place[0], "seq": place[1]}
    nothing = dict.fromkeys(COLUMNS.fieldNames())
    return {**nothing, "kind": kind, "op": op, "relation_version": version, **where, **facts}


def description(place: Place, *, table: TableName = TABLE, version: int = 1) -> Row:
    return row(place, table=table, version=version, kind="relation", op=None, seq=None)


def bronze(spark: SparkSession, rows: Sequence[Row]) -> DataFrame:
    return spark.createDataFrame([tuple(each[name] for name in COLUMNS.fieldNames()) for each in rows], COLUMNS)


def of(touched: Sequence[Touched], table: TableName = TABLE) -> Touched:
    [found] = [each for each in touched if each.table == table]
    return found


def test_a_version_that_comes_back_is_the_current_one_again(spark: SparkSession) -> None:
    rows = [row((10, 0), version=7), row((20, 0), version=3), row((30, 0), version=7), row((40, 0), version=5)]
    assert of(touched_in(bronze(spark, rows[:3]))).versions == (3, 7)
    assert of(touched_in(bronze(spark, rows))).versions == (3, 7, 5)


def test_versions_of_one_commit_are_in_the_order_of_its_changes(spark: SparkSession) -> None:
    rows = [row((10, seq), version=version) for seq, version in enumerate([5, 9, 9, 5, 2, 9])]
    assert of(touched_in(bronze(spark, rows))).versions == (5, 2, 9)
    # a description stands at the beginning of its commit
    assert of(touched_in(bronze(spark, [description((10, 0), version=4), *rows]))).versions == (4, 5, 2, 9)


def test_a_table_of_which_only_a_description_came_is_touched_and_has_no_changes(spark: SparkSession) -> None:
    message = row((10, 0), "m", kind="message", schema_name=None, table_name=None, relation_version=None)
    found = touched_in(bronze(spark, [description((10, 0)), row((10, 0), table=OTHER), message]))
    assert of(found) == Touched(TABLE, (1,), Facts())
    assert of(found, OTHER) == Touched(OTHER, (1,), Facts(rows=1, span=(10, 10)))
    assert of(found, MESSAGES).facts.rows == 1


def test_where_a_table_was_emptied_last_is_its_own(spark: SparkSession) -> None:
    """Later changes of the table, and truncates of others, are not taken for it."""
    rows = [
        row((10, 4), "t"),
        row((20, 1), "t", version=2),
        row((20, 3)),
        row((20, 0), "t"),
        row((20, 9), version=2),
        row((15, 0), "t", table=OTHER),
        row((30, 0), "u", table=OTHER),
    ]
    found = touched_in(bronze(spark, rows))
    assert of(found).facts.truncated_at == (20, 1)
    assert of(found).versions == (1, 2)
    assert of(found, OTHER).facts.truncated_at == (15, 0)


def test_what_was_left_out_is_told_apart_by_whether_the_old_row_has_it(spark: SparkSession) -> None:
    rows = [
        row((10, 0), "u", before_kind="O", unchanged=["a", "b"]),
        row((20, 0), "u", before_kind="K", unchanged=["b", "c"]),
        row((30, 0), "u", unchanged=["d"]),
        row((40, 0), "d", before_kind="O"),
    ]
    facts = of(touched_in(bronze(spark, rows))).facts
    assert facts.left_out == {"b", "c", "d"}
    assert facts.in_old_row == {"a", "b"}
    assert (facts.updates_with_old, facts.removals, facts.incomplete_removals) == (2, 4, 2)


def test_a_reading_of_the_whole_table_empties_it_where_it_begins(spark: SparkSession) -> None:
    read = [row((50, seq), "r") for seq in (-8, -7)]
    [found] = touched_in(bronze(spark, [row((10, 0), "t"), row((50, -9), "b"), *read]))
    assert found.facts.truncated_at == (50, -9)
    assert (found.facts.base_seq, found.facts.snapshot_seqs) == (-9, (-8, -7))


def a_row(source: random.Random) -> Row:
    """Any that can be, and some that cannot."""
    op = source.choice("cudddurt" if source.random() < 0.2 else "cud")
    snapshot = None
    if op == "r":
        visibility = source.choice([f"{source.randrange(50, 60)}:70:", f"lsn:{source.randrange(900)}"])
        snapshot = (source.choice([f"{CHUNK_ID}x", "whole"]), 0, visibility)
    return row(
        (source.randrange(1000, 1010), source.randrange(-5, 5)),
        op,
        table=source.choice([TABLE, OTHER]),
        version=source.randrange(3),
        before_kind=source.choice([None, "K", "O"]) if op in "ud" else None,
        unchanged=source.choice([None, [], ["x"], ["x", "y"], ["z"]]) if op == "u" else None,
        snapshot=snapshot,
    )


def facts_one_by_one(rows: Sequence[Row]) -> Facts:
    """The same by going through the rows."""
    whole = [each for each in rows if each["before_kind"] == "O"]
    in_part = [each for each in rows if each["before_kind"] != "O"]
    read = [each for each in rows if each["op"] == "r"]
    of_chunks = [each for each in read if each["snapshot"][0].startswith(CHUNK_ID)]
    seqs = [each["seq"] for each in read if each not in of_chunks]
    told = [each["snapshot"][2].split(":") for each in of_chunks]
    chunks = ChunkFacts(
        min((int(xmin) for xmin, *_ in told if xmin != "lsn"), default=None),
        max((each["commit_lsn"] for each in of_chunks), default=0),
        min((int(lsn) for kind, lsn, *_ in told if kind == "lsn"), default=None),
    )
    lsns = [each["commit_lsn"] for each in rows]
    return Facts(
        rows=len(rows),
        span=(min(lsns), max(lsns)),
        truncated_at=max(((each["commit_lsn"], each["seq"]) for each in rows if each["op"] == "t"), default=None),
        updates_with_old=sum(each["op"] == "u" and each["before_kind"] is not None for each in rows),
        left_out=frozenset(name for each in in_part for name in each["unchanged"] or ()),
        in_old_row=frozenset(name for each in whole for name in each["unchanged"] or ()),
        removals=sum(each["op"] in "ud" for each in rows),
        incomplete_removals=sum(each["op"] in "ud" for each in in_part),
        chunks=chunks if of_chunks else None,
        snapshot_seqs=(min(seqs), max(seqs)) if seqs else None,
    )


@pytest.mark.parametrize("seed", range(4))
def test_the_facts_are_those_of_going_through_the_rows_one_by_one(spark: SparkSession, seed: int) -> None:
    source = random.Random(seed)
    rows = [a_row(source) for _ in range([3, 12, 60, 300][seed])]
    found = touched_in(bronze(spark, rows))
    assert {each.table for each in found} == {TableName(each["schema_name"], each["table_name"]) for each in rows}
    for each in found:
        mine = [r for r in rows if TableName(r["schema_name"], r["table_name"]) == each.table]
        expected = facts_one_by_one(mine)
        assert facts_of(bronze(spark, mine)) == expected
        edges = each.facts.begins_snapshot, each.facts.ends_snapshot
        assert each.facts == expected | Facts(begins_snapshot=edges[0], ends_snapshot=edges[1])
        in_order = sorted(mine, key=lambda r: (r["commit_lsn"], r["seq"]), reverse=True)
        ends = dict.fromkeys((r["commit_lsn"], r["seq"]) for r in in_order)
        versions = dict.fromkeys(r["relation_version"] for r in in_order)
        if len(ends) == len(mine):  # else several versions may end at one place
            assert each.versions == tuple(reversed(versions))
