"""The structs of an event: key, before and after, from bronze's positional texts.

Invariant: what was not sent is either found in the old tuple, or shown as unavailable, both in the field (as Debezium
does) and out of band; what Debezium makes up (fallbacks) is made up only where PostgreSQL sent nothing.
Source: Debezium documentation, PostgreSQL connector, "Toasted values", "Replica identity".
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812  (the name everybody knows it by)
from pyspark.sql.types import MapType, StringType, StructField, StructType

from walhouse.changes.columns import image_text, is_unchanged
from walhouse.pgoutput.row import BeforeKind
from walhouse.silver.keys import key_columns, of_versions, versions_by_key
from walhouse.silver.silver_type import null

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import Column

    from walhouse.pgoutput.relation import RelationDescription
    from walhouse.silver.columns import SilverColumn
    from walhouse.silver.settings import SilverSettings

WITH_NULLS = {"ignoreNullFields": "false"}
"""The JSON converter prints every field."""

NO_FIELDS = "_"
"""The only field of the struct of a table that has no columns, or no key. Always NULL."""


class Images:
    """The expressions of one table, over resolved changes of these relation versions."""

    def __init__(
        self, relations: Sequence[RelationDescription], columns: Sequence[SilverColumn], settings: SilverSettings
    ) -> None:
        self._relations = relations
        self._columns = {column.field: column for column in columns}
        self._by_name = {column.name: column for column in columns}
        self._settings = settings

    def before(self, schema: StructType) -> Column:
        """The old tuple. Required columns that a key-only tuple lacks hold their type's fallback."""
        return self._image("before", schema, self._before_value)

    def after(self, schema: StructType) -> Column:
        """The new row, with unchanged TOASTed values taken from the old tuple, else shown by the placeholder."""
        return self._image("after", schema, self._after_value)

    def key(self, image: str, schema: StructType) -> Column:
        """The key of the old tuple or of the new row; NULL for a version without a key, and without the image."""
        key = null(schema)
        for names, versions in versions_by_key(self._relations).items():
            if names:
                mine = of_versions(versions) if len(versions) < len(self._relations) else F.lit(True)  # noqa: FBT003
                key = F.when(mine & F.col(image).isNotNull(), self._key(image, names, schema)).otherwise(key)
        return key

    def key_json(self, image: str) -> Column:
        """The key as Debezium's JSON converter prints it, fields in the key's order; NULL where ``key`` is."""
        text = null(StringType())
        for names, versions in versions_by_key(self._relations).items():
            if names:
                values = (self._key_value(image, self._by_name[name]).alias(name) for name in names)
                text = F.when(of_versions(versions), F.to_json(F.struct(*values), WITH_NULLS)).otherwise(text)
        return text

    def unavailable(self) -> Column:
        """Names of the columns whose value in ``after`` nobody has. Empty if there are none."""
        lost = [
            F.when(self._lost(column), F.lit(column.name)) for column in self._by_name.values() if column.type.toastable
        ]
        if not lost:
            return no_names()
        return F.when(F.size("unchanged") > 0, F.array_compact(F.array(*lost))).otherwise(no_names())

    def unconverted(self, before: Column, after: Column) -> Column:
        """``before.column`` and ``after.column`` with the texts that no rule takes; NULL if there are none."""
        found: list[tuple[Column, Column]] = []
        for image, struct, text_of in (("before", before, self._before_text), ("after", after, self._after_text)):
            for column in self._by_name.values():
                if not column.type.total:
                    text = text_of(column)
                    missed = struct.isNotNull() & text.isNotNull() & struct.getField(column.field).isNull()
                    found.append((missed, F.struct(F.lit(f"{image}.{column.name}"), text)))
        if not found:
            return null(MapType(StringType(), StringType()))
        some = reduce(lambda a, b: a | b, (missed for missed, _ in found))
        entries = F.array_compact(F.array(*(F.when(missed, entry) for missed, entry in found)))
        return F.when(some, F.map_from_entries(entries))

    def _image(self, image: str, schema: StructType, value: Callable[[SilverColumn], Column]) -> Column:
        values = [
            (value(self._columns[field.name]) if field.name in self._columns else null(field.dataType)).alias(
                field.name
            )
            for field in schema.fields
        ]
        return F.when(F.col(image).isNotNull(), F.struct(*values))

    def _key(self, image: str, names: Sequence[str], schema: StructType) -> Column:
        def value(field: StructField) -> Column:
            column = self._columns.get(field.name)
            return self._key_value(image, column) if column and column.name in names else null(field.dataType)

        return F.struct(*(value(field).alias(field.name) for field in schema.fields))

    def _key_value(self, image: str, column: SilverColumn) -> Column:
        value = column.type.convert(self._before_text(column) if image == "before" else self._after_text(column))
        return F.coalesce(value, column.type.fallback()) if column.required else value

    def _before_text(self, column: SilverColumn) -> Column:
        return image_text("before", column.name, self._relations)

    def _after_text(self, column: SilverColumn) -> Column:
        own = image_text("after", column.name, self._relations)
        if not column.type.toastable:
            return own
        return F.coalesce(own, F.when(is_unchanged(column.name), self._before_text(column)))

    def _before_value(self, column: SilverColumn) -> Column:
        text = self._before_text(column)
        value = column.type.convert(text)
        lacking = [
            r for r in self._relations if column.name in r.column_names and column.name not in r.identity_columns
        ]
        if not column.required or not lacking:
            return value
        not_sent = (F.col("before_kind") == BeforeKind.KEY.value) & text.isNull() & of_versions(lacking)
        return F.when(not_sent, column.type.fallback()).otherwise(value)

    def _after_value(self, column: SilverColumn) -> Column:
        value = column.type.convert(self._after_text(column))
        if not column.type.toastable or column.type.unavailable is None:
            return value
        return F.when(self._lost(column), column.type.unavailable(self._settings)).otherwise(value)

    def _lost(self, column: SilverColumn) -> Column:
        return is_unchanged(column.name) & self._before_text(column).isNull()


def no_names() -> Column:
    """The value of ``unavailable`` where nothing is."""
    return F.array().cast("array<string>")


def no_fields() -> StructType:
    """The struct of a table without columns or without a key."""
    return StructType().add(NO_FIELDS, StringType())


def key_names(relations: Sequence[RelationDescription]) -> tuple[str, ...]:
    """All columns that are part of the key in one of these versions, the current key first and in its order."""
    return tuple(dict.fromkeys(name for relation in reversed(relations) for name in key_columns(relation)))
