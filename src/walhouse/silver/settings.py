"""What silver and its rendering have to be told: the part of the configuration that shapes events.

Invariant: a value here changes what an event says, never which events there are or in what order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Protocol

import walhouse
from walhouse.silver.adjusted_names import NameMode
from walhouse.silver.modes import DEFAULTS, TypeModes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from walhouse.names import TableName
    from walhouse.pgoutput.column import ColumnDescription
    from walhouse.pgoutput.relation import RelationDescription

UNAVAILABLE = "__debezium_unavailable_value"
"""Debezium's default for ``unavailable.value.placeholder``."""


class ConversionFailures(StrEnum):
    """``event.converting.failure.handling.mode``.

    In all but ``fail`` the field is NULL, and the text stands in ``unconverted``.
    """

    WARN = "warn"
    FAIL = "fail"
    SKIP = "skip"


class ColumnChoice(Protocol):
    """Which columns events show, and which are their keys."""

    def shows(self, table: TableName, column: str) -> bool:
        """True if ``before`` and ``after`` have the column."""
        ...

    def key_of(self, table: TableName, columns: Sequence[str]) -> tuple[str, ...]:
        """Those of its columns that are chosen for the table's key, in its order; empty for the table's own key."""
        ...


class AllColumns:
    """Every column, and the tables' own keys."""

    def shows(self, table: TableName, column: str) -> bool:
        """Always."""
        del table, column
        return True

    def key_of(self, table: TableName, columns: Sequence[str]) -> tuple[str, ...]:
        """Never another one."""
        del table, columns
        return ()


ALL_COLUMNS: Final = AllColumns()


class TextMasks(Protocol):
    """How the texts of columns were hidden before they landed."""

    def masked_columns(self, relation: RelationDescription) -> tuple[str, ...]:
        """The masked columns: what rows show of them stands behind the texts of all columns, in this order."""
        ...

    def masked_text(self, relation: RelationDescription, column: str, text: str) -> str:
        """A text of the column as it would have landed."""
        ...

    def hides_all(self, relation: RelationDescription, column: str) -> bool:
        """True if the same stands for every text of the column."""
        ...

    def cut_to(self, table: TableName, column: ColumnDescription) -> int | None:
        """The length that values of a column are cut to whose texts landed as they are; None if they are not."""
        ...


class NoMasks:
    """Nothing is hidden."""

    def masked_columns(self, relation: RelationDescription) -> tuple[str, ...]:
        """None."""
        del relation
        return ()

    def masked_text(self, relation: RelationDescription, column: str, text: str) -> str:
        """The text itself."""
        del relation, column
        return text

    def hides_all(self, relation: RelationDescription, column: str) -> bool:
        """Of none."""
        del relation, column
        return False

    def cut_to(self, table: TableName, column: ColumnDescription) -> int | None:
        """Never."""
        del table, column
        return None


NO_MASKS: Final = NoMasks()


class ColumnNotes(Protocol):
    """What schemas tell of a column beyond its type."""

    def truncated_to(self, table: TableName, column: str) -> int | None:
        """The length that its texts are cut to; None if they are not."""
        ...

    def is_masked(self, table: TableName, column: str) -> bool:
        """True if its texts are masked or hashed."""
        ...

    def tells_source(self, table: TableName, column: str, type_name: str) -> bool:
        """True if the schema tells the column's type and name on the source."""
        ...


class NoNotes:
    """Nothing, of any column."""

    def truncated_to(self, table: TableName, column: str) -> int | None:
        """Never."""
        del table, column
        return None

    def is_masked(self, table: TableName, column: str) -> bool:
        """Never."""
        del table, column
        return False

    def tells_source(self, table: TableName, column: str, type_name: str) -> bool:
        """Never."""
        del table, column, type_name
        return False


NO_NOTES: Final = NoNotes()


@dataclass(frozen=True, slots=True)
class SilverSettings:
    """How events are written to silver. ``placeholder``: text, or ``hex:`` and the digits of its bytes."""

    topic_prefix: str
    database: str
    placeholder: str = UNAVAILABLE
    types: TypeModes = DEFAULTS
    columns: ColumnChoice = ALL_COLUMNS
    masks: TextMasks = NO_MASKS
    conversion_failures: ConversionFailures = ConversionFailures.SKIP
    """``event.converting.failure.handling.mode``."""
    skip_unchanged: bool = False
    """``skip.messages.without.change``."""
    version: str = field(default=walhouse.__version__)

    @property
    def placeholder_bytes(self) -> bytes:
        """The placeholder for a column of bytes."""
        if self.placeholder.startswith("hex:"):
            return bytes.fromhex(self.placeholder.removeprefix("hex:"))
        return self.placeholder.encode()

    @property
    def placeholder_text(self) -> str:
        """The placeholder for a column of text."""
        return self.placeholder_bytes.decode(errors="replace")


@dataclass(frozen=True, slots=True)
class EventsSettings:
    """How silver is printed as Debezium's events.

    ``skipped_operations``: ``skipped.operations``; ``context_headers``: ``extended.headers.enabled``; ``run_id``: the
    value of the header that Debezium 3.6.3 makes up anew for each run, left out if None.
    """

    topic_prefix: str
    delimiter: str = "."
    columns: ColumnChoice = ALL_COLUMNS
    tombstones: bool = True
    skipped_operations: frozenset[str] = frozenset({"t"})
    context_headers: bool = True
    run_id: str | None = None
    schemas: bool = False
    """``schemas.enable`` of the JSON converter."""
    transactions: bool = False
    """``provide.transaction.metadata``."""
    transaction_topic: str = "transaction"
    """``topic.transaction``."""
    heartbeat_ms: int = 0
    """``heartbeat.interval.ms``; 0: none."""
    heartbeat_topic_prefix: str = "__debezium-heartbeat"
    """``topic.heartbeat.prefix``."""
    heartbeat_topic_name: str | None = None
    """``topic.heartbeat.name``, the whole name."""
    keep_nulls: bool = False
    """``replace.null.with.default`` of the JSON converter, negated: a NULL is not printed as the column's default."""
    types: TypeModes = DEFAULTS
    notes: ColumnNotes = NO_NOTES
    """Of masked columns, and ``column.propagate.source.type`` and ``datatype.propagate.source.type``."""
    schema_names: NameMode = NameMode.NONE
    field_names: NameMode = NameMode.NONE
