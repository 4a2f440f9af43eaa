"""The ``connector:`` section: Debezium's names, types and defaults, for the properties that are used here.

Invariant: a field's alias is Debezium's name (``table_include_list`` is ``table.include.list``) and its default is
Debezium's; ``walhouse.config.properties`` lists all other names. Source: Debezium 3.6, "Connector properties".
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from walhouse.config.columns import ColumnRules
from walhouse.config.connection import ConnectionSettings
from walhouse.config.filters import NameFilter, TableFilter, split_list
from walhouse.config.masks import Masks, is_mask
from walhouse.config.replica_identity import IdentityRules
from walhouse.config.schema_notes import SchemaNotes
from walhouse.config.secrets import resolve_secret
from walhouse.config.values import (
    AutocreateMode,
    AutocreateModeName,
    BinaryHandling,
    ConversionFailure,
    DecimalHandling,
    HstoreHandling,
    Identities,
    IntervalHandling,
    Items,
    KeyColumns,
    MaskRules,
    Milliseconds,
    NameAdjustment,
    Patterns,
    PluginName,
    Positive,
    PublicationName,
    SecretValue,
    SlotName,
    SnapshotMode,
    SnapshotModeName,
    SslMode,
    Text,
    TimePrecision,
    TopicPrefix,
    TwoPartName,
    Watermarking,
)
from walhouse.names import TableName

MASKS: Final = "column.masks"
"""The field of all ``column.mask…`` and ``column.truncate…`` properties, whose names hold what they ask for."""

STATEMENTS: Final = "snapshot.select.statement.overrides"
"""The field of all properties below this name; by itself it lists their tables."""

_STATEMENT: Final = re.compile(r"(?:[^;]|;;)+")


def debezium_name(field: str) -> str:
    """The property that a field of ``Connector`` holds."""
    return field.replace("_", ".")


def _statements(listed: object, given: dict[str, object]) -> object:
    """By table. Each that is listed must be given, and each that is given must be listed."""
    if not isinstance(listed, str | list | None):
        return listed  # what the model holds, not what a file says
    tables = split_list(listed) if isinstance(listed, str) else tuple(listed or ())
    statements = {name.removeprefix(f"{STATEMENTS}."): value for name, value in given.items()}
    if odd := sorted({str(table) for table in tables} ^ set(statements)):
        raise ValueError(f"{odd[0]} must be in the list {STATEMENTS}, and have a statement of its own")
    return statements


class Connector(BaseModel):
    """What to capture, from where, as which events. Field by field the properties of docs/CONFIGURATION.md."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        arbitrary_types_allowed=True,
        alias_generator=debezium_name,
        populate_by_name=True,
        hide_input_in_errors=True,
    )

    topic_prefix: TopicPrefix
    topic_delimiter: Text = "."
    database_hostname: Text
    database_port: Annotated[int, Field(ge=1, le=65535)] = 5432
    database_user: Text
    database_password: SecretValue | None = None
    database_dbname: Text
    database_sslmode: SslMode = "prefer"
    database_sslcert: Text | None = None
    database_sslkey: Text | None = None
    database_sslpassword: SecretValue | None = None
    database_sslrootcert: Text | None = None
    database_initial_statements: Annotated[str, Field(repr=False, exclude=True)] = ""
    plugin_name: PluginName = "pgoutput"
    slot_name: SlotName = "debezium"
    slot_failover: bool = False
    slot_max_retries: Annotated[int, Field(ge=0)] = 6
    slot_retry_delay_ms: Positive = 10_000
    publication_name: PublicationName = "dbz_publication"
    publication_autocreate_mode: AutocreateModeName = AutocreateMode.ALL_TABLES
    publish_via_partition_root: bool = False
    read_only: bool = False
    replica_identity_autoset_values: Identities = ()
    snapshot_mode: SnapshotModeName = SnapshotMode.INITIAL
    snapshot_mode_custom_name: Text | None = None
    snapshot_mode_configuration_based_snapshot_data: bool = False
    snapshot_mode_configuration_based_start_stream: bool = False
    snapshot_mode_configuration_based_snapshot_on_data_error: bool = False
    snapshot_include_collection_list: Patterns = ()
    snapshot_select_statement_overrides: Annotated[dict[str, str], Field(repr=False)] = {}
    """All ``snapshot.select.statement.overrides.…`` properties, by ``schema.table``."""
    snapshot_max_threads: Positive | None = None
    snapshot_lock_timeout_ms: Positive = 10_000
    snapshot_delay_ms: Milliseconds = 0
    streaming_delay_ms: Milliseconds = 0
    incremental_snapshot_chunk_size: Positive = 1024
    incremental_snapshot_watermarking_strategy: Watermarking | None = None
    signal_data_collection: TwoPartName | None = None
    signal_enabled_channels: Items = ("source",)
    signal_poll_interval_ms: Positive = 5000
    signal_file: Text = "file-signals.txt"
    schema_include_list: Patterns = ()
    schema_exclude_list: Patterns = ()
    table_include_list: Patterns = ()
    table_exclude_list: Patterns = ()
    column_include_list: Patterns = ()
    column_exclude_list: Patterns = ()
    column_masks: Annotated[MaskRules, Field(alias=MASKS)] = ()
    """All ``column.mask…`` and ``column.truncate…`` properties, whose names hold what they ask for."""
    column_propagate_source_type: Patterns = ()
    datatype_propagate_source_type: Patterns = ()
    message_prefix_include_list: Patterns = ()
    message_prefix_exclude_list: Patterns = ()
    message_key_columns: KeyColumns = ()
    skip_messages_without_change: bool = False
    event_converting_failure_handling_mode: ConversionFailure = "warn"
    heartbeat_interval_ms: Milliseconds = 0
    heartbeat_action_query: Text | None = None
    topic_heartbeat_prefix: Text = "__debezium-heartbeat"
    topic_heartbeat_name: Text | None = None
    xmin_fetch_interval_ms: Milliseconds = 0
    provide_transaction_metadata: bool = False
    topic_transaction: Text = "transaction"
    skipped_operations: Items = ("t",)
    tombstones_on_delete: bool = True
    extended_headers_enabled: bool = True
    schema_name_adjustment_mode: NameAdjustment = "none"
    field_name_adjustment_mode: NameAdjustment = "none"
    unavailable_value_placeholder: str = "__debezium_unavailable_value"
    decimal_handling_mode: DecimalHandling = "precise"
    time_precision_mode: TimePrecision = "adaptive"
    binary_handling_mode: BinaryHandling = "bytes"
    interval_handling_mode: IntervalHandling = "numeric"
    hstore_handling_mode: HstoreHandling = "json"
    money_fraction_digits: Annotated[int, Field(ge=0, le=9)] = 2
    include_unknown_datatypes: bool = False
    case_sensitive_filters: Annotated[bool, Field(exclude=True)] = False
    """No property: ``lake.case_sensitive_filters``, see ``matching``."""

    @model_validator(mode="before")
    @classmethod
    def _gather_families(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        masks = {name: value for name, value in data.items() if is_mask(name)}
        statements = {name: value for name, value in data.items() if name.startswith(f"{STATEMENTS}.")}
        given = {name: value for name, value in data.items() if name not in masks and name not in statements}
        if masks:
            given[MASKS] = tuple(masks.items())
        if STATEMENTS in given or statements:
            given[STATEMENTS] = _statements(given.get(STATEMENTS), statements)
        return given

    @model_validator(mode="after")
    def _custom_mode_has_a_name(self) -> Self:
        if self.snapshot_mode is SnapshotMode.CUSTOM and self.snapshot_mode_custom_name is None:
            raise ValueError("snapshot.mode custom needs snapshot.mode.custom.name")
        return self

    @model_validator(mode="after")
    def _watermarks_have_a_table(self) -> Self:
        if self.incremental_snapshot_watermarking_strategy is not None and self.signal_table is None:
            raise ValueError("incremental.snapshot.watermarking.strategy needs signal.data.collection to write to")
        return self

    @field_validator("skipped_operations")
    @classmethod
    def _known_operations(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if unknown := [operation for operation in value if operation not in {"c", "u", "d", "t", "none"}]:
            raise ValueError(f"{unknown[0]!r} is no operation: expected some of c, u, d, t, or none")
        if "none" in value and len(value) > 1:
            raise ValueError("none stands alone")
        return tuple(operation for operation in value if operation != "none")

    @field_validator("schema_exclude_list", "table_exclude_list", "column_exclude_list", "message_prefix_exclude_list")
    @classmethod
    def _no_include_list_beside(cls, value: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        include = str(info.field_name).replace("exclude", "include")
        if value and info.data.get(include):
            raise ValueError(f"contradicts {debezium_name(include)}: give one of the two")
        return value

    @field_validator(
        "heartbeat_action_query", "replica_identity_autoset_values", "incremental_snapshot_watermarking_strategy"
    )
    @classmethod
    def _no_write_if_read_only(cls, value: object, info: ValidationInfo) -> object:
        if value and info.data.get("read_only"):
            raise ValueError("contradicts read.only, which says that nothing is written to the source")
        return value

    @field_validator("signal_enabled_channels")
    @classmethod
    def _known_channels(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if unknown := [channel for channel in value if channel not in {"source", "file"}]:
            raise ValueError(f"{unknown[0]!r} is no channel here: expected source or file; ops.signals is always read")
        return value

    def matching(self, *, case_sensitive: bool) -> Self:
        """The same connector, whose patterns match names with case or without."""
        masks = tuple(replace(rule, case_sensitive=case_sensitive) for rule in self.column_masks)
        return self.model_copy(update={"case_sensitive_filters": case_sensitive, "column_masks": masks})

    def _filter(self, include: tuple[str, ...], exclude: tuple[str, ...]) -> NameFilter:
        return NameFilter(include, exclude, self.case_sensitive_filters)

    @property
    def table_filter(self) -> TableFilter:
        """Which tables and columns are captured."""
        return TableFilter(
            schemas=self._filter(self.schema_include_list, self.schema_exclude_list),
            tables=self._filter(self.table_include_list, self.table_exclude_list),
            columns=self._shown_columns,
            signals=self.signal_table,
            keys=self.column_rules,
        )

    @property
    def _shown_columns(self) -> NameFilter:
        return self._filter(self.column_include_list, self.column_exclude_list)

    @property
    def snapshot_filter(self) -> NameFilter:
        """Which of the captured tables an initial snapshot reads."""
        return self._filter(self.snapshot_include_collection_list, ())

    @property
    def table_order(self) -> tuple[NameFilter, ...]:
        """Tables of the first are read first."""
        return tuple(self._filter((pattern,), ()) for pattern in self.table_include_list)

    @property
    def signal_table(self) -> TableName | None:
        """The source's table of signals, if there is one and it is read."""
        name = self.signal_data_collection
        return None if name is None or "source" not in self.signal_enabled_channels else TableName(*name.split("."))

    @property
    def column_rules(self) -> ColumnRules:
        """Which columns events show, and which are their keys."""
        return ColumnRules(self._shown_columns, self.message_key_columns, self.case_sensitive_filters)

    @property
    def masks(self) -> Masks:
        """Which columns are hidden, but for keys."""
        return Masks(self.column_masks, self.column_rules)

    @property
    def schema_notes(self) -> SchemaNotes:
        """What schemas tell of columns beyond their types."""
        return SchemaNotes(
            self.column_masks,
            self.column_propagate_source_type,
            self.datatype_propagate_source_type,
            self.case_sensitive_filters,
        )

    @property
    def identity_rules(self) -> IdentityRules:
        """Which replica identity captured tables are to have."""
        return IdentityRules(self.replica_identity_autoset_values, self.case_sensitive_filters)

    @property
    def message_filter(self) -> NameFilter:
        """Which prefixes of logical messages are captured."""
        return self._filter(self.message_prefix_include_list, self.message_prefix_exclude_list)

    @property
    def initial_statements(self) -> tuple[str, ...]:
        """The statements of ``database.initial.statements``; ``;;`` is a semicolon within one."""
        statements = (part.replace(";;", ";").strip() for part in _STATEMENT.findall(self.database_initial_statements))
        return tuple(statement for statement in statements if statement)

    def connection(self, base: Path) -> ConnectionSettings:
        """The connection to the source, its secrets read now; ``base`` is where relative paths start.

        Raises SecretError.
        """

        def file(path: str | None) -> str | None:
            return None if path is None else str((base / Path(path).expanduser()).resolve())

        return ConnectionSettings(
            host=self.database_hostname,
            port=self.database_port,
            user=self.database_user,
            password=resolve_secret(self.database_password, base),
            database=self.database_dbname,
            sslmode=self.database_sslmode,
            sslcert=file(self.database_sslcert),
            sslkey=file(self.database_sslkey),
            sslpassword=resolve_secret(self.database_sslpassword, base),
            sslrootcert=file(self.database_sslrootcert),
            read_only=self.read_only,
            initial_statements=self.initial_statements,
        )
