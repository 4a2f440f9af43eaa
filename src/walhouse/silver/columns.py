"""The columns of one source table as silver sees them: name on the source, field in the structs, type.

Invariant: a field, once given to a column, stays that column's: the comment of the field says whose it is.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from walhouse.changes.columns import latest_columns
from walhouse.silver.defaults import default_value
from walhouse.silver.types import describe, silver_type

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql.types import StructField, StructType

    from walhouse.pgoutput.relation import ColumnDescription, RelationDescription
    from walhouse.silver.modes import TypeModes
    from walhouse.silver.silver_type import SilverType


class SilverColumn(NamedTuple):
    """One column of the source table."""

    name: str
    field: str
    column: ColumnDescription
    type: SilverType
    slot: int
    """Where its texts are, see ``walhouse.silver.texts``."""
    changes_only: bool = False
    """Whether a new row can lack it just because it did not change, whatever its type."""

    @property
    def required(self) -> bool:
        """NOT NULL on the source, as far as the catalog knows."""
        return self.column.nullable is False

    @property
    def made_up(self) -> str:
        """What a required field holds that has no value: the column's default, else its type's fallback."""
        return default_value(self.column, self.type) or self.type.fallback

    @property
    def toastable(self) -> bool:
        """Whether its value can be missing from a new row because it did not change."""
        return self.type.toastable or self.changes_only

    @property
    def before(self) -> str:
        """Column of the old tuple's text."""
        return f"before_{self.slot}"

    @property
    def sent(self) -> str:
        """Column of the new row's text, as it was sent."""
        return f"sent_{self.slot}" if self.toastable else self.after

    @property
    def after(self) -> str:
        """Column of the new row's text, as far as anybody knows it."""
        return f"after_{self.slot}"

    @property
    def comment(self) -> str:
        """What the field's comment says."""
        return describe(self.column, self.type)


def silver_columns(
    relations: Sequence[RelationDescription], modes: TypeModes, fields: Mapping[str, str] | None = None
) -> tuple[SilverColumn, ...]:
    """All columns of these versions that events have. ``fields``: the fields that columns have already."""
    found = {name: (column, silver_type(column, modes)) for name, column in latest_columns(relations).items()}
    shown = {name: (column, kind) for name, (column, kind) in found.items() if kind is not None}
    names = name_fields(shown, fields or {})
    changes_only = any(relation.sends_changed_columns for relation in relations)
    return tuple(
        SilverColumn(name, names[name], column, kind, slot, changes_only)
        for slot, (name, (column, kind)) in enumerate(shown.items())
    )


def name_fields(columns: Iterable[str], given: Mapping[str, str]) -> dict[str, str]:
    """The field of each column: its own name, or ``name__2`` where one that differs only in case has it already."""
    names = dict(given)
    taken = {field.lower() for field in given.values()}
    for column in columns:
        if column in names:
            continue
        field, number = column, 1
        while field.lower() in taken:
            number += 1
            field = f"{column}__{number}"
        names[column] = field
        taken.add(field.lower())
    return names


def fields_of(image: StructType) -> dict[str, str]:
    """Which field of an existing image belongs to which column of the source."""
    return {_column_of(field): field.name for field in image.fields}


def _column_of(field: StructField) -> str:
    comment = (field.metadata or {}).get("comment")
    if comment is None or not comment.startswith("{"):
        return field.name
    return str(json.loads(comment).get("column", field.name))
