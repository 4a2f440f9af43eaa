"""Single histories that have gone wrong elsewhere, each a key of its own, all in two epochs of one table."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from tests.gold.changelog import change, column, epoch_of, numeric, relation
from walhouse.gold.apply import apply_gold
from walhouse.gold.imperfect import imperfect_values
from walhouse.lakehouse.layout import LakeLayout

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import Row, SparkSession

    from tests.gold.changelog import Row as Texts

pytestmark = pytest.mark.spark

COLUMNS = [column("name", "text"), numeric("no", 5, 1), column("body", "text"), column("at", "timestamp")]
DESCRIBED = relation(COLUMNS, key=("name", "no"))
LATER = relation([*COLUMNS, column("added", "int4")], key=("name", "no"))

BASE: list[Texts] = [
    ("untouched", "1.0", "Tuntouched", None),
    ("unchanged", "1.0", "Tunchanged", None),
    ("moved", "1.0", "Tmoved", None),
    ("moved rescued", "1.0", "Tin", None),
    ("chain", "1.0", "Tchain", None),
    ("swap", "1.0", "Tone", None),
    ("swap", "2.0", "Ttwo", None),
    ("reused", "1.0", "Tfirst", None),
    ("deleted", "1.0", "Tdeleted", None),
    ("born again", "1.0", "Told", None),
    ("not a number", "NaN", "Tnan", None),
    ("there and back", "1.0", "Tthere", None),
    ("infinite", "1.0", "Tinfinite", "infinity"),
    ("deleted then moved to", "1.0", "Tgone", None),
    ("deleted then moved to", "2.0", "Tcame", None),
]


def key(name: str, no: str = "1.0") -> Texts:
    return (name, no, None, None)


def second_epoch() -> list[tuple[object, ...]]:
    lsn = 5000
    changes: list[tuple[object, ...]] = []

    def update(name: str, no: str, *, old: str | None = None, body: str | None = None, at: str | None = None) -> None:
        nonlocal lsn
        lsn += 10
        before = None if old is None else key(name, old)
        unchanged = () if body else ("body",)
        changes.append(
            change("u", lsn, 0, DESCRIBED, before=before, before_kind=None if old is None else "K",
                   after=(name, no, body, at), unchanged=unchanged)
        )  # fmt: skip

    def insert(name: str, no: str, body: str | None, unchanged: tuple[str, ...] = ()) -> None:
        nonlocal lsn
        lsn += 10
        changes.append(change("c", lsn, 0, DESCRIBED, after=(name, no, body, None), unchanged=unchanged))

    def delete(name: str, no: str) -> None:
        nonlocal lsn
        lsn += 10
        changes.append(change("d", lsn, 0, DESCRIBED, before=key(name, no), before_kind="K"))

    update("unchanged", "1.0", at="2024-01-01 00:00:00")
    update("moved", "9.0", old="1.0")
    update("moved rescued", "NaN", old="1.0")
    update("chain", "2.0", old="1.0")
    update("chain", "3.0", old="2.0")
    update("chain", "4.0", old="3.0")
    update("chain", "4.0", at="2024-01-01 00:00:00")
    update("swap", "3.0", old="1.0")
    update("swap", "1.0", old="2.0")
    update("swap", "2.0", old="3.0")
    update("reused", "2.0", old="1.0")
    insert("reused", "1.0", "Tsecond")
    update("reused", "1.0", at="2024-01-01 00:00:00")
    delete("deleted", "1.0")
    delete("born again", "1.0")
    insert("born again", "1.0", "short")
    update("born again", "1.0", at="2024-01-01 00:00:00", body="Tnew")
    update("born again", "1.0")
    update("not a number", "NaN", at="2024-01-01 00:00:00")
    update("there and back", "2.0", old="1.0")
    update("there and back", "1.0", old="2.0")
    update("infinite", "2.0", old="1.0", at="infinity")
    delete("deleted then moved to", "1.0")
    update("deleted then moved to", "1.0", old="2.0")
    insert("out of the filter", "1.0", None, unchanged=("body",))
    update("never seen", "1.0")
    update("never seen", "3.0", old="2.0")
    insert("born and dead", "1.0", "Tshort")
    delete("born and dead", "1.0")
    # a snapshot row that its snapshot read before the update below, which it lacks
    update("superseded", "1.0", at="2024-01-01 00:00:00")
    changes.append(change("r", lsn, -(2**62), DESCRIBED, after=("superseded", "1.0", "Tbase", None), superseded=True))
    lsn += 10
    changes.append(change("u", lsn, 0, LATER, after=("untouched", "1.0", None, None, "7"), unchanged=("body",)))
    return changes


@pytest.fixture(scope="module")
def lake_of_cases(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LakeLayout]:
    path: Path = tmp_path_factory.mktemp("cases")
    layout = LakeLayout(path=path / "lake", gold_schema="gold_of_cases")
    yield layout
    spark.sql("DROP SCHEMA IF EXISTS gold_of_cases CASCADE")
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="module")
def gold(spark: SparkSession, lake_of_cases: LakeLayout) -> dict[tuple[str, str], Row]:
    """Rows by name and number after both epochs, the second one applied twice."""
    snapshot = [change("r", 100, i - 2**62, DESCRIBED, after=row) for i, row in enumerate(BASE)]
    first = apply_gold(spark, lake_of_cases, epoch_of(spark, snapshot, [DESCRIBED]))
    epoch = epoch_of(spark, second_epoch(), [DESCRIBED, LATER], number=2, base_version=first.version)
    apply_gold(spark, lake_of_cases, epoch)
    again = apply_gold(spark, lake_of_cases, epoch)
    assert (again.counts["upserted"], again.counts["deleted"]) == (0, 0)
    counted = imperfect_values(spark, lake_of_cases, [DESCRIBED.name])[DESCRIBED.name]
    # "NaN" as a key twice, "infinity" once
    assert counted == {"rescued": 3, "unavailable": 3}
    table = spark.table(str(lake_of_cases.gold(DESCRIBED.name)))
    assert table.columns == ["name", "no", "body", "at", "added", "_commit_lsn", "_seq", "_rescued", "_unavailable"]
    rows = table.collect()
    found = {(row["name"], (row["_rescued"] or {}).get("no") or str(row["no"])): row for row in rows}
    assert len(found) == len(rows)
    return found


def bodies(gold: dict[tuple[str, str], Row], name: str) -> dict[str, str | None]:
    return {no: row["body"] for (owner, no), row in gold.items() if owner == name}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("unchanged", {"1.0": "Tunchanged"}),
        ("moved", {"9.0": "Tmoved"}),
        ("moved rescued", {"NaN": "Tin"}),
        ("chain", {"4.0": "Tchain"}),
        ("swap", {"1.0": "Ttwo", "2.0": "Tone"}),
        ("reused", {"1.0": "Tsecond", "2.0": "Tfirst"}),
        ("deleted", {}),
        ("born again", {"1.0": "Tnew"}),
        ("born and dead", {}),
        ("not a number", {"NaN": "Tnan"}),
        ("there and back", {"1.0": "Tthere"}),
        ("deleted then moved to", {"1.0": "Tcame"}),
        ("superseded", {"1.0": "Tbase"}),
        ("untouched", {"1.0": "Tuntouched"}),
    ],
)
def test_an_unchanged_value_follows_its_row_through_every_change_of_its_key(
    gold: dict[tuple[str, str], Row], name: str, expected: dict[str, str]
) -> None:
    assert bodies(gold, name) == expected


@pytest.mark.parametrize("case", [("out of the filter", "1.0"), ("never seen", "1.0"), ("never seen", "3.0")])
def test_a_value_that_nobody_has_is_null_and_said_to_be_unavailable(
    gold: dict[tuple[str, str], Row], case: tuple[str, str]
) -> None:
    assert gold[case]["body"] is None
    assert gold[case]["_unavailable"] == ["body"]


def test_only_the_rows_with_an_unavailable_value_say_so(gold: dict[tuple[str, str], Row]) -> None:
    assert sorted(name for (name, _), row in gold.items() if row["_unavailable"]) == [
        "never seen", "never seen", "out of the filter",
    ]  # fmt: skip


def test_a_column_added_between_two_changes_is_null_in_older_rows_and_filled_in_newer_ones(
    gold: dict[tuple[str, str], Row],
) -> None:
    assert gold["untouched", "1.0"]["added"] == 7
    assert gold["unchanged", "1.0"]["added"] is None


def test_a_key_that_no_type_holds_still_identifies_its_row(gold: dict[tuple[str, str], Row]) -> None:
    row = gold["not a number", "NaN"]
    assert (row["no"], row["_rescued"], str(row["at"])) == (None, {"no": "NaN"}, "2024-01-01 00:00:00")


def test_a_rescued_value_moves_with_its_row(gold: dict[tuple[str, str], Row]) -> None:
    row = gold["infinite", "2.0"]
    assert (row["body"], row["at"], row["_rescued"]) == ("Tinfinite", None, {"at": "infinity"})
