"""The columns of one source table as silver sees them: name on the source, field in the structs, type.

Invariant: a field, once given to a column and a form of its values, stays theirs: the comment of the field says whose
it is. A column whose type is altered so that its values take another form gets a further field.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from walhouse.changes.columns import latest_columns
from walhouse.changes.facts import NOTHING
from walhouse.names import caseless, quote, string_literal
from walhouse.silver.settings import NO_MASKS
from walhouse.silver.types.lengths import can_be_cut
from walhouse.silver.types.registry import describe, silver_type

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql.types import DataType, StructField, StructType

    from walhouse.changes.facts import Facts
    from walhouse.pgoutput.column import ColumnDescription
    from walhouse.pgoutput.relation import RelationDescription
    from walhouse.silver.modes import TypeModes
    from walhouse.silver.settings import TextMasks
    from walhouse.silver.types.silver_type import SilverType


class Form(NamedTuple):
    """What values of a field look like: two types of one form can share a field."""

    spark: str
    semantic: str | None
    scale: str | None

    @classmethod
    def of(cls, spark: DataType, semantic: str | None, parameters: Mapping[str, str]) -> Form:
        """The form of a type; of its parameters, only a number's scale changes what a value means."""
        return cls(spark.simpleString(), semantic, parameters.get("scale"))


Fields = dict[tuple[str, Form], str]
"""The field of each column and form."""


class SilverColumn(NamedTuple):
    """One column of the source table."""

    name: str
    field: str
    column: ColumnDescription
    type: SilverType
    slot: int
    """Where its texts are, see ``walhouse.silver.texts``."""
    hidden: bool = False
    """Whether rows show another text than the key does."""
    left_out: bool = False
    """Whether some new row of the epoch came without it, since it did not change."""
    cut: int | None = None
    """The length that rows show of its values; None: all."""
    nothing_shown: str | None = None
    """What rows show of every text of it, as SQL, where it is masked and its type shows none."""

    def show(self, text: str) -> str:
        """What rows show of a text that they show."""
        if self.nothing_shown is None:
            return self.type.convert(text)
        return f"CASE WHEN {text} IS NOT NULL THEN {self.nothing_shown} END"

    def lacks(self, text: str, image: str) -> str:
        """True if the field in an image, which is a struct, has not all of a text."""
        value = f"{image}.{quote(self.field)}"
        in_part = self.type.in_part
        return f"{value} IS NULL" if in_part is None else f"({value} IS NULL OR {in_part(text, value)})"

    @property
    def form(self) -> Form:
        """What its values look like."""
        return _form(self.type)

    @property
    def required(self) -> bool:
        """NOT NULL on the source, as far as the catalog knows."""
        return self.column.nullable is False

    @property
    def made_up(self) -> str:
        """What a required field holds that has no value: the column's default, else its type's fallback."""
        return _made_up(self.column, self.type)

    @property
    def is_shown_as_lost(self) -> bool:
        """Whether there are new rows without this column's value, and its type has a placeholder for that."""
        return self.left_out and self.type.unavailable is not None

    @property
    def before(self) -> str:
        """Column of the old tuple's text."""
        return f"before_{self.slot}"

    @property
    def sent(self) -> str:
        """Column of the new row's text, as it was sent."""
        return f"sent_{self.slot}" if self.left_out else self.after

    @property
    def after(self) -> str:
        """Column of the new row's text, as far as anybody knows it."""
        return f"after_{self.slot}"

    @property
    def shown_before(self) -> str:
        """Column of the old tuple's text as rows show it."""
        return f"shown_before_{self.slot}" if self.hidden else self.before

    @property
    def shown_after(self) -> str:
        """Column of the new row's text as rows show it."""
        return f"shown_after_{self.slot}" if self.hidden else self.after

    @property
    def comment(self) -> str:
        """What the field's comment says."""
        return describe(self.column, self.type)


def silver_columns(
    relations: Sequence[RelationDescription],
    modes: TypeModes,
    fields: Fields | None = None,
    masks: TextMasks = NO_MASKS,
    facts: Facts = NOTHING,
) -> tuple[SilverColumn, ...]:
    """All columns of these versions that events have. ``relations``: alike, see ``alike``. ``fields``: those in use.

    ``facts``: those of the changes that are to be read.
    """
    found = {name: (column, silver_type(column, modes)) for name, column in latest_columns(relations).items()}
    shown = {name: (column, kind) for name, (column, kind) in found.items() if kind is not None}
    names = name_fields(((name, _form(kind)) for name, (_, kind) in shown.items()), fields or {})
    left_out = facts.left_out | facts.in_old_row
    hidden = {name: relation for relation in relations for name in masks.masked_columns(relation)}

    def made(slot: int, name: str, column: ColumnDescription, kind: SilverType) -> SilverColumn:
        field = names[name, _form(kind)]
        nothing = _nothing_shown(kind, column, masks, hidden[name]) if name in hidden else None
        cut = masks.cut_to(relations[-1].name, column)
        cut = cut if cut is not None and can_be_cut(column, cut) else None
        return SilverColumn(
            name,
            field,
            column,
            kind,
            slot,
            hidden=name in hidden,
            left_out=name in left_out,
            cut=cut,
            nothing_shown=nothing,
        )

    return tuple(made(slot, name, column, kind) for slot, (name, (column, kind)) in enumerate(shown.items()))


def _nothing_shown(
    kind: SilverType, column: ColumnDescription, masks: TextMasks, relation: RelationDescription
) -> str | None:
    """Of a masked column whose texts are only shown where a snapshot read them: the mask of no text."""
    if kind.convert_read is None or (column.nullable is not False and not masks.hides_all(relation, column.name)):
        return None
    return string_literal(masks.masked_text(relation, column.name, ""))


def alike(relations: Sequence[RelationDescription], modes: TypeModes) -> list[tuple[RelationDescription, ...]]:
    """The versions in groups within which a column has one form, made of its text in one way, and without one, too.

    One group, unless a column's type was altered, or what the catalog says of it.
    """
    groups: list[tuple[dict[str, tuple[Form, str, str | None] | None], list[RelationDescription]]] = []
    for relation in relations:
        made = {column.name: _made(column, modes) for column in relation.columns}
        for known, versions in groups:
            if all(known.get(name, how) == how for name, how in made.items()):
                known.update(made)
                versions.append(relation)
                break
        else:
            groups.append((made, [relation]))
    return [tuple(versions) for _, versions in groups]


def name_fields(columns: Iterable[tuple[str, Form]], given: Fields) -> Fields:
    """The field of each column and form: the column's name, or ``name__2`` where that is taken, whatever its case."""
    names = dict(given)
    taken = {caseless(field) for field in given.values()}
    for column, form in columns:
        if (column, form) in names:
            continue
        field, number = column, 1
        while caseless(field) in taken:
            number += 1
            field = f"{column}__{number}"
        names[column, form] = field
        taken.add(caseless(field))
    return names


def fields_of(image: StructType) -> Fields:
    """Which field of an existing image belongs to which column of the source, in which form."""
    found: Fields = {}
    for field in image.fields:
        facts = described(field)
        form = Form.of(field.dataType, facts.get("name"), facts.get("parameters", {}))
        found[facts.get("column", field.name), form] = field.name
    return found


def fields_of_version(image: StructType, relation: RelationDescription, modes: TypeModes) -> dict[str, StructField]:
    """The field of an existing image for each of a version's columns that has one."""
    fields = fields_of(image)
    forms = ((column.name, _form_of(column, modes)) for column in relation.columns)
    return {name: image[fields[name, form]] for name, form in forms if form is not None and (name, form) in fields}


def described(field: StructField) -> dict[str, Any]:
    """What ``SilverColumn.comment`` said of the field's first column."""
    comment = (field.metadata or {}).get("comment")
    return json.loads(comment) if comment is not None and comment.startswith("{") else {}


def _form_of(column: ColumnDescription, modes: TypeModes) -> Form | None:
    kind = silver_type(column, modes)
    return None if kind is None else _form(kind)


def _made(column: ColumnDescription, modes: TypeModes) -> tuple[Form, str, str | None] | None:
    """What the column's values look like, how they are made of a text, and what a required one holds without any."""
    kind = silver_type(column, modes)
    if kind is None:
        return None
    return _form(kind), kind.convert("text"), _made_up(column, kind) if column.nullable is False else None


def _made_up(column: ColumnDescription, kind: SilverType) -> str:
    return kind.default_of(column) or kind.fallback


def _form(kind: SilverType) -> Form:
    return Form.of(kind.spark, kind.semantic, kind.parameters)
