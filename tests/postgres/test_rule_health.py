"""Rules of the configuration that do nothing, or not what they say, are named by their property."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from walhouse.config.columns import ColumnRules, parse_keys
from walhouse.config.filters import NameFilter, TableFilter
from walhouse.config.masks import parse_masks
from walhouse.config.schema_notes import SchemaNotes
from walhouse.names import TableName
from walhouse.pgoutput.column import ColumnDescription
from walhouse.pgoutput.relation import RelationDescription, describe
from walhouse.postgres.finding import Severity
from walhouse.postgres.rule_health import NO_NOTES, ColumnHandling, rule_problems

if TYPE_CHECKING:
    from collections.abc import Mapping

TYPES = {"id": "int4", "code": "text", "name": "varchar", "data": "jsonb", "mail": "bpchar"}


def table(
    name: str, *, identity: str = "d", identified_by: tuple[str, ...] = ("id",), key: tuple[str, ...] | None = None
) -> RelationDescription:
    columns = [
        ColumnDescription(
            column, 0, -1, identity=identity == "f" or column in identified_by, base_type=kind, type_name=kind
        )
        for column, kind in TYPES.items()
    ]
    primary = identified_by if key is None and identity == "d" else key or ()
    described = describe(1, TableName("s", name), identity, columns)
    return replace(described, primary_key=primary, unique_keys=())


T = table("t")


def problems(
    *captured: RelationDescription,
    selection: TableFilter | None = None,
    keys: str = "",
    masks: Mapping[str, str] | None = None,
    notes: SchemaNotes = NO_NOTES,
    others: tuple[str, ...] = (),
) -> list[str]:
    """``severity property: problem`` of each."""
    chosen = selection or TableFilter()
    rules = ColumnHandling(
        chosen, ColumnRules(chosen.columns, parse_keys(keys) if keys else ()), parse_masks(masks or {}), notes
    )
    tables = [relation.name for relation in captured] + [TableName(*other.split(".")) for other in others]
    found = list(rule_problems(rules, tables, captured))
    assert all(finding.todo and finding.severity is not Severity.OK for finding in found)
    return [f"{finding.severity} {finding.subject}: {finding.problem}" for finding in found]


def test_rules_that_hit_what_they_name_are_not_mentioned() -> None:
    selection = TableFilter(
        schemas=NameFilter(include=("s",)),
        tables=NameFilter(exclude=(r"s\.other",)),
        columns=NameFilter(exclude=(r"s\.t\.data",)),
    )
    masks = {"column.mask.with.3.chars": r"s\.t\.name", "column.mask.hash.v2.MD5.with.salt.pepper": r"s\.t\.mail"}
    assert problems(T, selection=selection, keys="s.t:id", masks=masks, others=("s.other",)) == []


def selecting(kind: str, names: NameFilter) -> TableFilter:
    return {
        "schema": TableFilter(schemas=names),
        "table": TableFilter(tables=names),
        "column": TableFilter(columns=names),
    }[kind]


@pytest.mark.parametrize(
    ("kind", "include", "included", "exclude", "excluded"),
    [
        (
            "schema",
            ("s", "S2"),
            "S2 matches no captured table.",
            ("x",),
            "x matches no table of the source.",
        ),
        (
            "table",
            (r"s\.t", r"s\.tt"),
            r"s\.tt matches no captured table.",
            (r"s\.x", "t"),
            r"s\.x, t match no table of the source.",
        ),
        (
            "column",
            (r"s\.t\..*", "nam"),
            "nam matches no column of a captured table.",
            (r"s\.t\.x", "name"),
            r"s\.t\.x, name match no column of a captured table.",
        ),
    ],
)
def test_an_item_of_a_list_that_matches_nothing_is_named(
    kind: str, include: tuple[str, ...], included: str, exclude: tuple[str, ...], excluded: str
) -> None:
    chosen = selecting(kind, NameFilter(include=include))
    assert problems(T, selection=chosen) == [f"warning connector.{kind}.include.list: {included}"]
    left_out = selecting(kind, NameFilter(exclude=exclude))
    assert problems(T, selection=left_out) == [f"warning connector.{kind}.exclude.list: {excluded}"]


def test_a_wish_for_a_type_on_the_source_that_no_column_has_is_named() -> None:
    notes = SchemaNotes(columns=(r"s\.t\.name", "name"), types=(r"s\.t\.jsonb", r"s\.t\.json"))
    assert problems(T, notes=notes) == [
        "warning connector.column.propagate.source.type: name matches no column of a captured table.",
        r"warning connector.datatype.propagate.source.type: s\.t\.json matches no type of a captured table.",
    ]


def test_an_item_that_would_match_without_case_matches_nothing_where_case_is_told() -> None:
    told = TableFilter(tables=NameFilter(exclude=(r"S\.OTHER",), case_sensitive=True), schemas=NameFilter((), (), True))
    assert problems(T, selection=told, others=("s.other",)) == [
        r"warning connector.table.exclude.list: S\.OTHER matches no table of the source."
    ]


def test_a_mask_that_hits_no_captured_column_is_named_without_its_salt() -> None:
    selection = TableFilter(columns=NameFilter(exclude=(r"s\.t\.name",)))
    masks = {"column.mask.hash.v2.SHA-256.with.salt.pepper": r"s\.t\.name"}
    assert problems(T, selection=selection, masks=masks) == [
        r"warning connector.column.mask.hash.v2.SHA-256: s\.t\.name matches no captured column."
    ]


@pytest.mark.parametrize(
    "name", ["column.mask.with.3.chars", "column.truncate.to.3.chars", "column.mask.hash.MD5.with.salt.pepper"]
)
def test_a_mask_over_a_type_that_is_no_text_or_over_a_primary_key_says_what_lands_plain(name: str) -> None:
    keyed = table("t", identified_by=("code",))
    found = problems(keyed, masks={name: r"s\.t\.(id|code|name|data)"})
    subject = f"warning connector.{name.partition('.with.salt')[0]}"
    events = ", though strings and bytes are cut in events" if "truncate" in name else ""
    assert found == [
        f"{subject}: Only texts can be hidden, and s.t.id (int4), s.t.data (jsonb) will land as they are{events}.",
        f"{subject}: Keys are not hidden: s.t.code will land as they are, beside what rows of events show of them.",
    ]


def test_a_mask_over_another_key_says_the_same() -> None:
    found = problems(T, keys="s.t:name,id", masks={"column.mask.with.3.chars": r"s\.t\.name"})
    assert "warning connector.column.mask.with.3.chars: Keys are not hidden: s.t.name will land as they are" in found[1]
    by_index = table("t", identity="i", identified_by=("code",))
    hashed = problems(by_index, keys="s.t:code", masks={"column.mask.hash.MD5.with.salt.pepper": r"s\.t\.code"})
    assert [each.split(": ")[0] for each in hashed] == ["warning connector.column.mask.hash.MD5"]


@pytest.mark.parametrize("name", ["column.mask.with.3.chars", "column.truncate.to.3.chars"])
def test_a_mask_that_would_make_two_rows_one_is_an_error(name: str) -> None:
    by_index = table("t", identity="i", identified_by=("code",))
    (found,) = problems(by_index, masks={name: r"s\.t\.code"})
    assert found.startswith(f"error connector.{name}: Gold tells rows by s.t.code, and would take")
    assert problems(table("t", identity="f", identified_by=("id",)), masks={name: r"s\.t\.code"}) == []


def test_key_columns_that_do_not_exist_are_an_error_for_each_table() -> None:
    found = problems(T, table("u"), keys="s.*:idd,name")
    errors = [each for each in found if each.startswith("error")]
    assert errors == [
        "error connector.message.key.columns: s.t has no column idd.",
        "error connector.message.key.columns: s.u has no column idd.",
    ]


def test_key_columns_that_only_other_tables_have_are_a_warning_beside_some_and_an_error_beside_none() -> None:
    other = describe(2, TableName("s", "u"), "f", [ColumnDescription("tenant", 0, -1, identity=True)])
    (found,) = problems(T, other, keys="s.t:id;s.*:tenant")
    assert found.startswith("warning connector.message.key.columns: s.t has no column tenant: its key is id alone.")
    (found,) = problems(T, other, keys="s.*:tenant")
    assert found.startswith("error connector.message.key.columns: s.t has no column tenant.")


def test_key_columns_outside_of_the_replica_identity_are_a_warning_and_none_with_identity_full() -> None:
    (found,) = problems(T, keys="s.t:id,name")
    assert found.startswith("warning connector.message.key.columns: The replica identity of s.t lacks name:")
    assert problems(table("t", identity="f"), keys="s.t:id,name") == []


def test_a_primary_key_outside_of_the_replica_identity_is_a_warning_unless_another_key_is_chosen() -> None:
    by_index = table("t", identity="i", identified_by=("code",), key=("id",))
    assert problems(by_index) == [
        (
            "warning s.t: The replica identity of s.t lacks id: the key of a delete has fillers there, and an update of"
            " the identity's columns seems to change the key."
        )
    ]
    assert problems(by_index, keys="s.t:code") == []
    assert problems(table("t", identity="i", identified_by=("id", "code"), key=("id",))) == []


def test_an_entry_of_key_columns_that_counts_for_no_table_is_a_warning() -> None:
    found = problems(T, keys="s.t:id;.*x:id,name;s.u:id")
    assert found == ["warning connector.message.key.columns: .*x, s.u match no captured table."]


def test_columns_that_events_leave_out_are_named_by_table_unless_nobody_wants_them() -> None:
    def found(selection: TableFilter) -> list[str]:
        rules = ColumnHandling(
            selection, ColumnRules(selection.columns), has_field=lambda column: column.base_type == "int4"
        )
        return [f"{each.severity} {each.subject}: {each.problem}" for each in rule_problems(rules, [T.name], [T])]

    (named,) = found(TableFilter())
    assert named.startswith("warning table s.t: Events and silver leave out code (text), name (varchar), data (jsonb)")
    assert found(TableFilter(columns=NameFilter(include=(r"s\.t\.id",)))) == []


def test_long_lists_of_names_are_cut() -> None:
    selection = TableFilter(tables=NameFilter(exclude=tuple(f"s.t{number}" for number in range(9))))
    (found,) = problems(T, selection=selection)
    assert "s.t4 and 4 more match" in found
