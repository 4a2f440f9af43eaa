"""The gold table mirrors its source's columns, whatever their names, and never changes a type behind anyone's back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.gold.changelog import change, column, epoch_of, numeric, relation
from walhouse.errors import BagMismatchError, GoldKeyError, TypeConflictError
from walhouse.gold.apply import apply_gold
from walhouse.gold.columns import gold_names
from walhouse.gold.key import require_one_key
from walhouse.gold.table import ensure_gold_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from walhouse.lakehouse.layout import LakeLayout

WORDS = [column("id", "int4"), column("code", "text"), column("word", "text")]


@pytest.mark.parametrize(
    ("identity", "primary_key", "index", "expected"),
    [
        ("d", ("code", "id"), (), ("code", "id")),
        ("i", ("id",), ("code",), ("code",)),
        ("f", ("code", "id"), (), ("code", "id")),
        ("f", (), (), ()),
        ("n", ("id",), (), ("id",)),
        ("n", (), (), ()),
    ],
)
def test_the_key_lies_within_the_replica_identity(
    identity: str, primary_key: Sequence[str], index: Sequence[str], expected: tuple[str, ...]
) -> None:
    from dataclasses import replace

    described = relation(WORDS, key=index or primary_key, identity=identity)
    assert replace(described, primary_key=tuple(primary_key)).row_key == expected


@pytest.mark.parametrize("identity", ["f", "n"])
def test_a_deferrable_primary_key_tells_no_rows_apart(identity: str) -> None:
    from dataclasses import replace

    described = replace(relation(WORDS, key=("id",), identity=identity), primary_key=("id",), key_is_deferrable=True)
    assert described.row_key == ()


def test_changes_from_before_the_identity_became_another_one_are_refused_if_they_lack_the_key() -> None:
    by_id = relation(WORDS, key=("id",))
    by_code = relation(WORDS, key=("code",), identity="i")
    full = relation(WORDS, key=("id",), identity="f")
    bag = relation(WORDS, identity="f")
    assert require_one_key([by_id, full]) == require_one_key([full, by_id]) == ("id",)
    for older, newer in [(by_id, by_code), (by_id, bag)]:
        with pytest.raises(GoldKeyError):
            require_one_key([older, newer])


@pytest.mark.parametrize(
    ("columns", "existing", "names"),
    [
        (["a", "A", "_seq"], [], ["a", "A_1", "_seq_1"]),
        (["A", "a", "A_1"], [], ["A", "a_1", "A_1_1"]),
        (["_DIGEST", "_commit_LSN"], [], ["_DIGEST_1", "_commit_LSN_1"]),
        (["A"], ["a", "_seq"], ["A_1"]),
        (["a", "A"], ["A", "a_1"], ["a_1", "A"]),
        (["adı", "adi", "ς", "σ", "İ", "ı", "s", "ſ"], [], ["adı", "adi_1", "ς", "σ_1", "İ", "ı_1", "s", "ſ_1"]),
        (["ß", "ss", "ﬁ", "fi", "é", "e"], [], ["ß", "ss", "ﬁ", "fi", "é", "e"]),
        (["x y", "x,y", "{}`"], [], ["x y", "x,y", "{}`"]),
    ],
)
def test_columns_that_delta_cannot_tell_apart_get_a_suffix_and_keep_it(
    columns: list[str], existing: list[str], names: list[str]
) -> None:
    assert list(gold_names(columns, existing).values()) == names


@pytest.mark.spark
def test_any_column_name_goes_and_the_key_has_statistics_and_clusters(spark: SparkSession, lake: LakeLayout) -> None:
    odd = [
        "a",
        "A",
        "adi",
        "adı",
        "_seq",
        "x y;{}",
        "b`c",
        "d.e",
        "Ü\n=",
        "(k)",
        "'q\\",
        "{src}",
        "😀",
        "${x}",
        "${user.name}",
    ]
    columns = [
        *(column(name, comment="it's \\ a {comment}") for name in odd),
        *(column(f"filler {i}", "int4") for i in range(30)),
        column("kéy 😀, ", "text"),
        column("flag", "bool"),
    ]
    described = relation(columns, key=("kéy 😀, ", "flag"), identity="f")
    row = (*(f"{name}!" for name in odd), *(str(i) for i in range(30)), "k", "t")
    changed = (*(f"{name}?" for name in odd), *(str(i) for i in range(30)), "k", "t")
    changes = [
        change("c", 1, 0, described, after=row),
        change("u", 2, 0, described, before=row, before_kind="O", after=changed, unchanged=("A", "x y;{}", "{src}")),
        change("u", 3, 0, described, after=changed, unchanged=odd),
    ]
    apply_gold(spark, lake, epoch_of(spark, changes, [described]))

    found = spark.table(str(lake.gold(described.name))).collect()[0]
    expected = {name: f"{name}!" if name in {"A", "x y;{}", "{src}"} else f"{name}?" for name in odd}
    expected = {{"A": "A_1", "adı": "adı_1", "_seq": "_seq_1"}.get(name, name): text for name, text in expected.items()}
    assert {name: found[name] for name in expected} == expected
    detail = spark.sql(f"DESCRIBE DETAIL {lake.gold(described.name)}").collect()[0]
    assert list(detail["clusteringColumns"]) in (["`kéy 😀, `"], ["kéy 😀, "])
    assert detail["properties"]["walhouse.source.table"] == "public.things"
    assert json.loads(detail["properties"]["walhouse.key"]) == ["kéy 😀, ", "flag"]


@pytest.mark.spark
def test_a_new_column_stands_where_the_source_has_it_and_another_type_or_key_is_refused(
    spark: SparkSession, lake: LakeLayout
) -> None:
    described = relation([column("id", "int4"), numeric("n", 5, 2)], key=("id",))
    ensure_gold_table(spark, lake, [described], ("id",))
    wider = relation([*described.columns, column("seen", "timestamp"), column("N", "bytea")], key=("id",))
    ensure_gold_table(spark, lake, [described, wider], ("id",))
    ensure_gold_table(spark, lake, [described, wider], ("id",))
    fields = spark.table(str(lake.gold(described.name))).dtypes
    assert fields[:5] == [
        ("id", "int"), ("n", "decimal(5,2)"), ("seen", "timestamp_ntz"), ("N_1", "binary"), ("_commit_lsn", "bigint"),
    ]  # fmt: skip

    with pytest.raises(TypeConflictError) as conflict:
        ensure_gold_table(spark, lake, [relation([column("id", "int4"), numeric("n", 6, 2)], key=("id",))], ("id",))
    assert conflict.value.fields["column"] == "n"
    with pytest.raises(GoldKeyError):
        ensure_gold_table(spark, lake, [described], ())


@pytest.mark.spark
def test_a_key_in_another_order_is_the_same_key_and_a_table_that_says_none_is_refused(
    spark: SparkSession, lake: LakeLayout
) -> None:
    """Without the catalog, of a table that was dropped meanwhile, a key's columns are known in the table's order."""
    described = relation(WORDS, key=("word", "id"))
    ensure_gold_table(spark, lake, [described], ("word", "id"))
    ensure_gold_table(spark, lake, [described], ("id", "word"))
    spark.sql(f"ALTER TABLE {lake.gold(described.name)} UNSET TBLPROPERTIES ('walhouse.key')")
    with pytest.raises(GoldKeyError):
        ensure_gold_table(spark, lake, [described], ("word", "id"))


@pytest.mark.spark
def test_taking_away_a_row_that_a_bag_never_had_changes_nothing_and_is_an_error(
    spark: SparkSession, lake: LakeLayout
) -> None:
    described = relation([column("word", "text")], identity="f")
    never = change("d", 1, 0, described, before=("never",), before_kind="O")
    with pytest.raises(BagMismatchError):
        apply_gold(spark, lake, epoch_of(spark, [never], [described]))
    first = apply_gold(
        spark, lake, epoch_of(spark, [change("c", 1, i, described, after=("twice",)) for i in range(2)], [described])
    )
    changes = [
        change("d", 2, 0, described, before=("twice",), before_kind="O"),
        change("d", 2, 1, described, before=("never",), before_kind="O"),
        change("u", 2, 2, described, before=("thrice",), before_kind="O", after=("new",)),
    ]
    with pytest.raises(BagMismatchError) as mismatch:
        apply_gold(spark, lake, epoch_of(spark, changes, [described], number=2, base_version=first.version))
    assert mismatch.value.fields["count"] == 2
    assert "never" not in str(mismatch.value)
    assert [row["word"] for row in spark.table(str(lake.gold(described.name))).collect()] == ["twice", "twice"]
    keyed = [change("d", 3, 0, described, before=("twice",), before_kind="K")]
    with pytest.raises(BagMismatchError):
        apply_gold(spark, lake, epoch_of(spark, keyed, [described], number=2, base_version=first.version))
