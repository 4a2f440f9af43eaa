"""A relation's description: what the message says, and what of the catalog's facts holds for it."""

from __future__ import annotations

from dataclasses import replace

from tests.silver.bronze_rows import column, relation
from walhouse.names import TableName
from walhouse.pgoutput.column import ColumnDescription
from walhouse.pgoutput.relation import RelationDescription, describe, retold, with_catalog
from walhouse.pgoutput.type_facts import TypeFacts

NAME = TableName("s", "t")


def message(*columns: tuple[str, int]) -> tuple[ColumnDescription, ...]:
    """Columns as a Relation message describes them: name and type's OID."""
    return tuple(ColumnDescription(name, oid, -1, identity=False) for name, oid in columns)


def test_the_catalogs_facts_of_a_type_count_where_the_type_and_its_modifier_are_the_same() -> None:
    known = [("a", "int4", 23, -1), ("b", "int8", 20, -1), ("d", "varchar", 1043, 14)]
    columns = [replace(column(name, kind, typmod=typmod), type_oid=oid) for name, kind, oid, typmod in known]
    catalog = replace(relation(NAME, columns), oid=7)
    told = replace(catalog, columns=message(("a", 23), ("b", 23), ("c", 25), ("d", 1043)))
    described = with_catalog(told, catalog, {}).columns
    assert [(each.base_type, each.modifier) for each in described] == [("int4", -1), *[(None, -1)] * 3]


def test_whether_a_column_may_be_null_and_its_default_count_by_name_as_debezium_takes_them() -> None:
    altered = column("a", "int8", nullable=False, default="7")
    catalog = replace(relation(NAME, [replace(altered, type_oid=20)]), oid=7)
    (described,) = with_catalog(replace(catalog, columns=message(("a", 23))), catalog, {}).columns
    assert (described.type_oid, described.nullable, described.default) == (23, False, "7")


def test_a_column_that_is_no_longer_so_is_known_by_its_type() -> None:
    moods = TypeFacts("s.mood", "mood", "mood", -1, "e", None, ("sad", "ok"))
    code = TypeFacts("s.code", "code", "varchar", 16, "b", None, None)
    catalog = replace(relation(NAME, []), oid=7)
    told = replace(catalog, columns=message(("a", 70001), ("b", 70002), ("c", 70003)))
    for now in (catalog, None):  # the table may be gone, too
        a, b, c = with_catalog(told, now, {70001: moods, 70002: code}).columns
        assert (a.base_type, a.kind, a.enum_labels, a.type_name) == ("mood", "e", ("sad", "ok"), "s.mood")
        assert (b.declared_type, b.base_type, b.base_typmod) == ("code", "varchar", 16)
        assert (c.base_type, c.nullable) == (None, None)


def test_the_default_of_a_column_that_was_retyped_counts_if_defaults_of_its_new_type_are_read() -> None:
    """As Debezium asks; the expression is read by the type of the message all the same."""
    told = replace(relation(NAME, []), oid=7, columns=message(("a", 25)))

    def default_by(oid: int, base_type: str, declared_type: str, kind: str) -> str | None:
        now = column("a", base_type, kind=kind, declared_type=declared_type, default="'x'::text")
        return with_catalog(told, replace(told, columns=(replace(now, type_oid=oid),)), {}).columns[0].default

    read, not_read = "'x'::text", None
    assert default_by(1043, "varchar", "varchar", "b") == read
    assert default_by(70001, "mood", "mood", "e") == read
    assert default_by(628, "line", "line", "b") == not_read
    assert default_by(70002, "text", "words", "b") == not_read
    assert default_by(70003, "mood", "moods", "e") == not_read


def test_a_table_that_has_another_name_by_now_is_known_by_its_oid() -> None:
    """Debezium asks for the name, and so for no table, or for another one."""
    now = relation(NAME, [replace(column("a", "int4", nullable=False, default="7"), type_oid=23)], primary_key=("a",))
    told = replace(now, oid=7, table="before", columns=message(("a", 23)), primary_key=None)
    described = with_catalog(told, replace(now, oid=7), {})
    assert (described.table, described.own_key) == ("before", ("a",))
    assert (described.columns[0].nullable, described.columns[0].default) == (False, "7")
    assert with_catalog(told, replace(now, oid=8), {}).primary_key is None


def test_the_primary_key_counts_only_where_the_message_has_all_of_its_columns() -> None:
    catalog = replace(relation(NAME, [column("a", "int4"), column("b", "int4")], primary_key=("b", "a")), oid=7)
    told = replace(catalog, columns=message(("a", 23), ("b", 23)), primary_key=None)
    assert with_catalog(told, catalog, {}).primary_key == ("b", "a")
    assert with_catalog(replace(told, columns=message(("a", 23), ("c", 23))), catalog, {}).primary_key is None


def test_the_first_unique_key_counts_with_those_of_its_columns_that_the_message_has() -> None:
    """As Debezium takes it: the next one does not stand in."""
    catalog = replace(relation(NAME, [column("b", "int4")], primary_key=(), unique_keys=(("x", "b"), ("b",))), oid=7)
    told = replace(catalog, columns=message(("b", 23), ("c", 23)))
    assert with_catalog(told, catalog, {}).own_key == ("b",)
    renamed = replace(catalog, unique_keys=(("x",), ("b",)))
    assert with_catalog(told, renamed, {}).own_key == ()


def test_other_facts_of_one_message_are_a_version_of_their_own_which_bronze_gives_back() -> None:
    def told(default: str | None) -> RelationDescription:
        columns = [replace(column("a", "int4", default=default), type_oid=23)]
        return replace(describe(7, NAME, "d", columns), primary_key=("a",))

    first, other = told("1"), retold(told("2"))
    assert other.version not in {first.version, retold(told("3")).version}
    assert other.of_message == first.of_message == first.version
    assert RelationDescription.from_json(other.to_json()) == other
    described = with_catalog(describe(7, NAME, "d", message(("a", 23))), other, {})
    assert (described.version, described.columns[0].default) == (other.version, "2")
    older = with_catalog(describe(7, NAME, "d", message(("b", 23))), other, {})
    assert (older.version, older.message_version) == (describe(7, NAME, "d", message(("b", 23))).version, None)
