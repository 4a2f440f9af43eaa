"""What is wrong with the configuration's rules about tables and columns, seen beside the source's own.

Invariant: a rule that hits nothing, or cannot do what it says, is named by its property, and never by a salt.
Source: Debezium 3.6, PostgreSQL connector, "Connector properties" (masks leave other types than texts as they are, and
keys; a key outside of the replica identity is not sent with a delete).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from walhouse.config.filters import any_matches
from walhouse.config.masks import first_matching
from walhouse.config.schema_notes import SchemaNotes
from walhouse.pgoutput.selection import kept_positions
from walhouse.postgres.finding import error, some, warning

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from walhouse.config.columns import ColumnRules, KeyEntry
    from walhouse.config.filters import TableFilter
    from walhouse.config.masks import MaskRule
    from walhouse.names import TableName
    from walhouse.pgoutput.column import ColumnDescription
    from walhouse.pgoutput.relation import RelationDescription
    from walhouse.postgres.finding import Finding

_KEYS: Final = "connector.message.key.columns"
NO_NOTES: Final = SchemaNotes()
_TABLE, _CAPTURED = "table of the source", "captured table"
_COLUMN, _KEPT = "column of a captured table", "captured column"


@dataclass(frozen=True, slots=True)
class ColumnHandling:
    """What the configuration says about tables and columns."""

    selection: TableFilter
    columns: ColumnRules
    masks: tuple[MaskRule, ...] = ()
    notes: SchemaNotes = NO_NOTES
    has_field: Callable[[ColumnDescription], bool] = lambda _: True
    """Whether events show a column of its type."""


def rule_problems(
    rules: ColumnHandling, tables: Sequence[TableName], captured: Sequence[RelationDescription]
) -> Iterator[Finding]:
    """Idle lists, then keys, then masks, then columns that events lack.

    ``tables``: all of the source's; ``captured``: with all their columns.
    """
    yield from _idle_lists(rules, tables, captured)
    yield from _signals(rules.selection, tables)
    yield from _keys(rules, captured)
    yield from _masks(rules, captured)
    yield from _without_field(rules, captured)


# What matches nothing ------------------------------------------------------------------------------------------------


def _idle_lists(
    rules: ColumnHandling, tables: Sequence[TableName], captured: Sequence[RelationDescription]
) -> Iterator[Finding]:
    schemas, names, columns = rules.selection.schemas, rules.selection.tables, rules.selection.columns
    in_schemas = [str(table) for table in tables if schemas.matches(table.schema)]
    types = [f"{each.name}.{column.declared_type or column.base_type}" for each in captured for column in each.columns]
    all_columns = [_name(relation, column) for relation in captured for column in relation.columns]
    kept = [_name(relation, column) for relation in captured for column in _kept(rules, relation)]
    case = schemas.case_sensitive
    for name, patterns, what, found in (
        ("schema.include.list", schemas.include, _CAPTURED, [relation.schema for relation in captured]),
        ("schema.exclude.list", schemas.exclude, _TABLE, [table.schema for table in tables]),
        ("table.include.list", names.include, _CAPTURED, [str(relation.name) for relation in captured]),
        ("table.exclude.list", names.exclude, _TABLE, in_schemas),
        ("column.include.list", columns.include, _COLUMN, all_columns),
        ("column.exclude.list", columns.exclude, _COLUMN, all_columns),
        ("column.propagate.source.type", rules.notes.columns, _COLUMN, all_columns),
        ("datatype.propagate.source.type", rules.notes.types, "type of a captured table", types),
        *((mask.name, mask.patterns, _KEPT, kept) for mask in rules.masks),
    ):
        if idle := [each for each in patterns if not _hits(each, found, case_sensitive=case)]:
            yield _idle(f"connector.{name}", idle, what)


def _hits(pattern: str, names: Iterable[str], *, case_sensitive: bool) -> bool:
    return any(any_matches((pattern,), name, case_sensitive=case_sensitive) for name in names)


def _idle(name: str, patterns: Sequence[str], what: str) -> Finding:
    return warning(
        name,
        f"{some(patterns)} {'matches' if len(patterns) == 1 else 'match'} no {what}.",
        "Correct it or take it out. A pattern matches a whole name, as schema.table or schema.table.column.",
    )


def _signals(selection: TableFilter, tables: Sequence[TableName]) -> Iterator[Finding]:
    if selection.signals is not None and selection.signals not in tables:
        yield warning(
            "connector.signal.data.collection",
            f"There is no table {selection.signals}: no signal can be given by it.",
            "`walhouse init-signals` makes it. A name is written as PostgreSQL has it, without quotes.",
        )


# Keys ----------------------------------------------------------------------------------------------------------------


def _keys(rules: ColumnHandling, captured: Sequence[RelationDescription]) -> Iterator[Finding]:
    entries = {relation.name: rules.columns.entries_of(relation.name) for relation in captured}
    concerned = frozenset(entry for found in entries.values() for entry in found)
    if idle := dict.fromkeys(entry.table for entry in rules.columns.keys if entry not in concerned):
        yield _idle(_KEYS, list(idle), _CAPTURED)
    hits = {entry for relation in captured for entry in entries[relation.name] if _matched(rules, entry, relation)}
    for relation in captured:
        chosen = rules.columns.key_of(relation.name, relation.column_names)
        missing = [entry for entry in entries[relation.name] if not _matched(rules, entry, relation)]
        yield from _missing(relation, chosen, [entry.column for entry in missing], somewhere=hits.issuperset(missing))
        if chosen:
            yield from _outside_of_identity(_KEYS, chosen, relation)
        elif relation.replica_identity == "i":
            yield from _outside_of_identity(str(relation.name), relation.own_key, relation)


def _matched(rules: ColumnHandling, entry: KeyEntry, relation: RelationDescription) -> tuple[str, ...]:
    return rules.columns.matched(entry, relation.name, relation.column_names)


def _missing(
    relation: RelationDescription, chosen: Sequence[str], missing: Sequence[str], *, somewhere: bool
) -> Iterator[Finding]:
    """What entries ask of the table and it lacks; ``somewhere``: other tables have all of it."""
    if missing and chosen and somewhere:
        yield warning(
            _KEYS,
            f"{relation.name} has no column {some(missing)}: its key is {some(chosen)} alone.",
            "That is right if the entry is meant for other tables; else correct it.",
        )
    elif missing:
        yield error(
            _KEYS,
            f"{relation.name} has no column {some(missing)}.",
            "Name columns as PostgreSQL has them, without quotes; each is a pattern for a whole name.",
        )


def _outside_of_identity(subject: str, key: Sequence[str], relation: RelationDescription) -> Iterator[Finding]:
    if outside := [name for name in key if name not in relation.identity_columns]:
        yield warning(
            subject,
            f"The replica identity of {relation.name} lacks {some(outside)}: the key of a delete has fillers there,"
            " and an update of the identity's columns seems to change the key.",
            f"ALTER TABLE {relation.name.quoted} REPLICA IDENTITY FULL, or USING an INDEX that has these columns.",
        )


# Masks ---------------------------------------------------------------------------------------------------------------


def _masks(rules: ColumnHandling, captured: Sequence[RelationDescription]) -> Iterator[Finding]:
    hit: dict[MaskRule, list[tuple[RelationDescription, ColumnDescription]]] = defaultdict(list)
    for relation in captured:
        for column in _kept(rules, relation):
            if (rule := first_matching(rules.masks, _name(relation, column))) is not None:
                hit[rule].append((relation, column))
    for rule in rules.masks:
        yield from _mask(rules, rule, hit[rule])


def _mask(
    rules: ColumnHandling, rule: MaskRule, hit: Sequence[tuple[RelationDescription, ColumnDescription]]
) -> Iterator[Finding]:
    subject = f"connector.{rule.name}"
    if no_texts := [f"{_name(*each)} ({each[1].type_name})" for each in hit if not each[1].is_text]:
        shown = ", though strings and bytes are cut in events" if rule.kind == "truncate" else ""
        yield warning(
            subject,
            f"Only texts can be hidden, and {some(no_texts)} will land as they are{shown}.",
            "Take these columns out of the rule; if they must not land, name them in column.exclude.list.",
        )
    if plain := [_name(*each) for each in hit if each[1].is_text and _in_key(rules, *each)]:
        yield warning(
            subject,
            f"Keys are not hidden: {some(plain)} will land as they are, beside what rows of events show of them.",
            "Take these columns out of the rule; if they must not land, leave out the table.",
        )
    texts = [each for each in hit if each[1].is_text and not _in_key(rules, *each)]
    if merged := [_name(*each) for each in texts if rule.kind != "hash" and _identifies_rows(*each)]:
        yield error(
            subject,
            f"Gold tells rows by {some(merged)}, and would take those for one that look equal then.",
            "Hash these columns instead, or give the table a primary key or REPLICA IDENTITY FULL.",
        )


def _without_field(rules: ColumnHandling, captured: Sequence[RelationDescription]) -> Iterator[Finding]:
    for relation in captured:
        columns = [each for each in _kept(rules, relation) if not rules.has_field(each)]
        if columns:
            yield warning(
                f"table {relation.name}",
                f"Events and silver leave out {some(f'{each.name} ({each.type_name})' for each in columns)}: Debezium"
                " does not know the type.",
                "Bronze and gold have the values. connector.include.unknown.datatypes shows the most of these types,"
                " as bytes.",
            )


def _in_key(rules: ColumnHandling, relation: RelationDescription, column: ColumnDescription) -> bool:
    """Whether the column is part of the primary key or of the key of events."""
    return column.name in relation.keys(rules.columns.key_of(relation.name, relation.column_names))


def _identifies_rows(relation: RelationDescription, column: ColumnDescription) -> bool:
    """Whether gold tells rows by the column; with identity FULL it compares whole rows."""
    return relation.replica_identity != "f" and column.identity


# Names ---------------------------------------------------------------------------------------------------------------


def _kept(rules: ColumnHandling, relation: RelationDescription) -> list[ColumnDescription]:
    """The columns that bronze gets."""
    kept = kept_positions(rules.selection, relation.name, relation.replica_identity, relation.columns, relation.own_key)
    return [relation.columns[position] for position in kept]


def _name(relation: RelationDescription, column: ColumnDescription) -> str:
    return f"{relation.name}.{column.name}"
