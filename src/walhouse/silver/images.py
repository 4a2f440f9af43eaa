"""The structs of an event as SQL over the texts: key, before and after, and what is out of band about them.

Invariant: what was not sent is either found in the old tuple, or shown as unavailable, both in the field (as Debezium
does) and out of band; what Debezium makes up (fallbacks) is made up only where PostgreSQL sent nothing.
Source: Debezium documentation, PostgreSQL connector, "Toasted values", "Replica identity".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql.types import BinaryType, StringType

from walhouse.lakehouse.tables import sql_type
from walhouse.names import quote, string_literal
from walhouse.pgoutput.column_default import default_text
from walhouse.pgoutput.row import Op
from walhouse.silver.keys import may_lack, versions_by_key
from walhouse.silver.texts import first_units, is_lost, of_versions
from walhouse.silver.types.silver_type import is_same
from walhouse.silver.types.vectors import as_printed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pyspark.sql.types import DataType, StructType

    from walhouse.names import TableName
    from walhouse.pgoutput.relation import RelationDescription
    from walhouse.silver.columns import SilverColumn
    from walhouse.silver.settings import SilverSettings

NO_NAMES: Final = "CAST(array() AS array<string>)"


class Images:
    """The expressions of one table, over changes with texts (``with_texts``) of these relation versions."""

    def __init__(
        self, relations: Sequence[RelationDescription], columns: Sequence[SilverColumn], settings: SilverSettings
    ) -> None:
        self._relations = relations
        self._columns = {column.field: column for column in columns}
        self._by_name = {column.name: column for column in columns}
        self._settings = settings

    def before(self, schema: StructType) -> str:
        """The old tuple. Required columns that a key-only tuple lacks hold a default, see ``SilverColumn.made_up``."""
        return f"CASE WHEN before IS NOT NULL THEN {self._struct(schema, self._before_value)} END"

    def after(self, schema: StructType) -> str:
        """The new row, with unchanged TOASTed values taken from the old tuple, else shown by the placeholder."""
        return f"CASE WHEN after IS NOT NULL THEN {self._struct(schema, self._after_value)} END"

    def key(self, image: str, schema: StructType) -> str:
        """The key of the old tuple or of the new row; NULL for a version without a key, and without the image."""

        def key_of(names: Sequence[str]) -> str:
            return self._struct(schema, lambda each: self._key_value(image, each) if each.name in names else None)

        return self._by_key(image, key_of, schema)

    def key_json(self, image: str) -> str:
        """The key as Debezium's JSON converter prints it, fields in the key's order; NULL where ``key`` is."""

        def json_of(names: Sequence[str]) -> str:
            columns = [self._by_name[name] for name in names if name in self._by_name]
            values = ((each.name, as_printed(self._key_value(image, each), each.type.spark)) for each in columns)
            return f"to_json({_named_struct(values)}, map('ignoreNullFields', 'false'))"

        return self._by_key(image, json_of, None)

    def is_unchanged(self, table: TableName, before: str, after: str) -> str:
        """True for an update of which an old tuple came, and that changes no shown column. Never NULL.

        Of an old tuple that holds a key alone the other columns are as ``before`` has them.
        """
        same = [
            is_same(column.type.spark, f"{before}.{quote(column.field)}", f"{after}.{quote(column.field)}")
            for column in self._columns.values()
            if self._settings.columns.shows(table, column.name)
        ]
        is_update = f"event = '{Op.UPDATE.value}' AND {before} IS NOT NULL"
        return " AND ".join([is_update, *same])

    def unavailable(self) -> str:
        """Names of the columns whose value in ``after`` nobody has. Empty if there are none."""
        lost = [
            f"CASE WHEN {is_lost(column)} THEN {string_literal(column.name)} END"
            for column in self._columns.values()
            if column.left_out
        ]
        if not lost:
            return NO_NAMES
        return f"CASE WHEN size(unchanged) > 0 THEN array_compact(array({', '.join(lost)})) ELSE {NO_NAMES} END"

    def unconverted(self, before: str, after: str) -> str:
        """``before.column`` and ``after.column`` with the texts that no rule takes, or not all of; NULL without any.

        ``before`` and ``after`` are the columns that hold the structs.
        """
        missed: list[str] = []
        entries: list[str] = []
        for column in self._columns.values():
            if column.type.total:
                continue
            images = (("before", before, column.before), ("after", after, column.after))
            for image, struct, text in images if self._has_before(column) else images[1:]:
                miss = f"({struct} IS NOT NULL AND {text} IS NOT NULL AND {column.lacks(text, struct)})"
                name = string_literal(f"{image}.{column.name}")
                missed.append(miss)
                entries.append(f"CASE WHEN {miss} THEN named_struct('name', {name}, 'text', {text}) END")
        if not missed:
            return "CAST(NULL AS map<string, string>)"
        found = f"map_from_entries(array_compact(array({', '.join(entries)})))"
        return f"CASE WHEN {' OR '.join(missed)} THEN {found} END"

    def _struct(self, schema: StructType, value: Callable[[SilverColumn], str | None]) -> str:
        """All fields of the silver table's struct: NULL for a column that these relation versions do not have."""
        fields = []
        for field in schema.fields:
            column = self._columns.get(field.name)
            made = None if column is None else value(column)
            fields.append((field.name, null(field.dataType) if made is None else made))
        return _named_struct(fields)

    def _by_key(self, image: str, made: Callable[[Sequence[str]], str], schema: StructType | None) -> str:
        branches = [
            f"WHEN {of_versions(versions)} AND {image} IS NOT NULL THEN {made(names)}"
            for names, versions in versions_by_key(self._relations).items()
            if names
        ]
        nothing = "CAST(NULL AS string)" if schema is None else null(schema)
        return f"CASE {' '.join(branches)} ELSE {nothing} END" if branches else nothing

    def _key_value(self, image: str, column: SilverColumn) -> str:
        """A value as keys have it, which are neither masked nor cut."""
        text = column.before if image == "before" else column.after
        value = column.type.convert(text)
        if image == "after":
            value = _or_as_read(column, text, value)
        value = f"coalesce({value}, {column.made_up})" if column.required else value
        if image == "before" or not column.is_shown_as_lost:
            return value
        assert column.type.unavailable is not None
        return f"CASE WHEN {is_lost(column)} THEN {column.type.unavailable(self._settings)} ELSE {value} END"

    def _before_value(self, column: SilverColumn) -> str:
        return _cut(column, self._whole_before(column))

    def _whole_before(self, column: SilverColumn) -> str:
        has_before = self._has_before(column)
        value = column.show(column.shown_before) if has_before else null(column.type.spark)
        lacking = [r for r in self._relations if may_lack(r, column.name)]
        if not column.required or not lacking:
            return value
        not_sent = of_versions(lacking)
        if has_before:
            not_sent += f" AND {column.before} IS NULL"
        return f"CASE WHEN {not_sent} THEN {self._made_up(column)} ELSE {value} END"

    def _made_up(self, column: SilverColumn) -> str:
        """What a required field of a row holds that was not sent; of a masked column masked, too."""
        if not column.hidden:
            return column.made_up
        return string_literal(self._masked(column, default_text(column.column) or ""))

    def _has_before(self, column: SilverColumn) -> bool:
        """Whether any old tuple can hold the column: it is part of the identity, or whole old rows are sent.

        Of a partitioned table this is its leaves' to say. A mask shows where there is no value, too.
        """
        return column.hidden or any(r.partitioned or column.name in r.identity_columns for r in self._relations)

    def _after_value(self, column: SilverColumn) -> str:
        text = column.shown_after
        value = _cut(column, _or_as_read(column, text, column.show(text)))
        if not column.is_shown_as_lost:
            return value
        return f"CASE WHEN {is_lost(column)} THEN {self._placeholder(column)} ELSE {value} END"

    def _placeholder(self, column: SilverColumn) -> str:
        """What stands for a value that was not sent; of a masked column masked, as any other string of it."""
        assert column.type.unavailable is not None
        if column.cut is not None:
            whole = column.type.unavailable(self._settings)
            return _cut(column, whole) if isinstance(column.type.spark, StringType) else whole
        plain = self._settings.placeholder_text
        hidden = self._masked(column, plain)
        return column.type.unavailable(self._settings) if hidden == plain else string_literal(hidden)

    def _masked(self, column: SilverColumn, text: str) -> str:
        relation = next(each for each in reversed(self._relations) if column.name in each.column_names)
        return self._settings.masks.masked_text(relation, column.name, text)


def _or_as_read(column: SilverColumn, text: str, value: str) -> str:
    """A new row's value, which may be another one of its text where a snapshot read the row."""
    read = column.type.convert_read
    return value if read is None else f"CASE WHEN op = '{Op.READ.value}' THEN {read(text)} ELSE {value} END"


def _cut(column: SilverColumn, value: str) -> str:
    """What rows show of a value: of bytes and of strings the first ones, of anything else all."""
    if column.cut is None:
        return value
    if isinstance(column.type.spark, StringType):
        return first_units(value, column.cut)
    is_plain = isinstance(column.type.spark, BinaryType) and column.type.semantic is None
    return f"substring({value}, 1, {column.cut})" if is_plain else value


def null(kind: DataType) -> str:
    """NULL of a type."""
    return f"CAST(NULL AS {sql_type(kind)})"


def _named_struct(values: Iterable[tuple[str, str | None]]) -> str:
    return f"named_struct({', '.join(f'{string_literal(name)}, {value}' for name, value in values)})"
