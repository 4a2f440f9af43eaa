"""From the configuration to what each part is told: the one place where Debezium's properties become settings.

Invariant: a part knows its own settings only; which property they come from stands here and nowhere else.
"""

from __future__ import annotations

import os
import uuid
from functools import partial
from typing import TYPE_CHECKING, Final

from pyspark.sql import SparkSession

from walhouse import __version__
from walhouse.bronze.masking import MaskBook
from walhouse.bronze.progress import has_begun, logged_end, read_pass
from walhouse.bronze.requests.channels import SignalSettings
from walhouse.bronze.settings import CaptureSettings, SnapshotSettings
from walhouse.bronze.snapshots.modes import MODES, FixedPolicy, custom_mode
from walhouse.changes.epochs import EpochLedger, Layer
from walhouse.changes.layer import LayerRun, LayerTarget
from walhouse.changes.layers import Layers
from walhouse.changes.sessions import Sessions
from walhouse.changes.touched import BronzeSurvey
from walhouse.config.values import SnapshotMode
from walhouse.gold.apply import apply_gold
from walhouse.lakehouse.layout import LOCAL_CATALOG, LakeLayout, Writer
from walhouse.lakehouse.session import get_session, require_usable
from walhouse.lakehouse.tables import register_tables
from walhouse.names import MESSAGES, TRANSACTIONS
from walhouse.postgres.check import check_source
from walhouse.postgres.watermarks import Watermarks
from walhouse.silver.adjusted_names import NameMode
from walhouse.silver.apply import apply_messages, apply_silver, apply_transactions
from walhouse.silver.modes import BinaryMode, DecimalMode, HstoreMode, IntervalMode, TimeMode, TypeModes
from walhouse.silver.settings import ConversionFailures, EventsSettings, SilverSettings
from walhouse.silver.types.registry import silver_type

if TYPE_CHECKING:
    from collections.abc import Callable

    from walhouse.bronze.snapshots.modes import SnapshotPolicy
    from walhouse.changes.relations import RelationCatalog
    from walhouse.config.configuration import Configuration
    from walhouse.config.connector import Connector
    from walhouse.config.lake import Lake
    from walhouse.names import TableName
    from walhouse.postgres.connection import Connection
    from walhouse.postgres.finding import Finding

_MOST_CHUNKS: Final = 5_000
"""Of one pass: each of them is planned, and sent to its task."""


def layout_of(lake: Lake) -> LakeLayout:
    """Names and folders of the lake."""
    return LakeLayout(
        path=lake.path,
        catalog=lake.catalog or LOCAL_CATALOG,
        bronze_schema=lake.bronze,
        silver_schema=lake.silver,
        gold_schema=lake.gold,
        ops_schema=lake.ops,
        table_name=lake.table_name,
        writer=Writer(lake.writer or Writer.ARROW),
    )


def session_of(lake: Lake, layout: LakeLayout, given: SparkSession | None, *, lasting: bool) -> SparkSession:
    """A session that knows the lake's tables: all of them if others may ask it, too; else bronze's and ``ops``', and
    each other one from when it is looked for."""
    shared = given or SparkSession.getActiveSession()
    session = shared or get_session(memory=lake.local_memory, quick=not lasting, catalog=lake.catalog)
    register_tables(require_usable(session), layout, None if shared else (layout.bronze_schema, layout.ops_schema))
    return session


def capture_settings(configuration: Configuration) -> CaptureSettings:
    """What capture is told. Raises SecretError."""
    connector, lake = configuration.connector, configuration.lake
    strategy = connector.incremental_snapshot_watermarking_strategy
    snapshots = snapshot_settings(configuration)
    return CaptureSettings(
        connection=configuration.connection(),
        # without a stream one that is walhouse's own, since it is dropped once the snapshot is read
        slot=connector.slot_name if snapshots.mode.streams() else f"{connector.slot_name[:58]}_once",
        failover=connector.slot_failover and snapshots.mode.streams(),
        publication=connector.publication_name,
        publication_mode=connector.publication_autocreate_mode,
        via_partition_root=connector.publish_via_partition_root,
        identities=connector.identity_rules,
        selection=connector.table_filter,
        messages=connector.message_filter,
        tells_xmin=connector.xmin_fetch_interval_ms > 0,
        heartbeat_query=connector.heartbeat_action_query if connector.heartbeat_interval_ms > 0 else None,
        heartbeat_seconds=connector.heartbeat_interval_ms / 1000,
        transactions=connector.provide_transaction_metadata,
        masks=connector.masks,
        snapshots=snapshots,
        max_pass_bytes=lake.max_pass_bytes,
        chunk_rows=connector.incremental_snapshot_chunk_size,
        chunks_in_a_pass=max(
            snapshots.workers, min(lake.snapshot_pass_rows // connector.incremental_snapshot_chunk_size, _MOST_CHUNKS)
        ),
        signals=SignalSettings(
            table=connector.signal_table,
            file=configuration.base / connector.signal_file if "file" in connector.signal_enabled_channels else None,
            poll_seconds=connector.signal_poll_interval_ms / 1000,
            watermarks=None if strategy is None else Watermarks(strategy),
        ),
        connector=connector.topic_prefix,
        flush_timeout_seconds=lake.flush_timeout_seconds,
    )


def findings(
    configuration: Configuration, settings: CaptureSettings, layout: LakeLayout, connection: Connection
) -> list[Finding]:
    """What would keep capture from working, as ``settings`` have it; no Spark is started for it."""
    modes, streams = type_modes(configuration.connector), settings.snapshots.mode.streams()
    return check_source(
        connection,
        settings.connection,
        slot=settings.slot,
        begun=has_begun(layout) and streams,
        bronze_end=lambda: logged_end(layout) if streams else None,
        failover=settings.failover,
        publication=settings.publication,
        mode=settings.publication_mode,
        selection=settings.selection,
        via_root=settings.via_partition_root,
        columns=configuration.connector.column_rules,
        masks=settings.masks.rules,
        notes=configuration.connector.schema_notes,
        identities=settings.identities,
        has_field=lambda column: silver_type(column, modes) is not None,
    )


def snapshot_settings(configuration: Configuration) -> SnapshotSettings:
    """When and how whole tables are read. Raises ConfigurationError if a mode of one's own cannot be loaded."""
    connector, lake = configuration.connector, configuration.lake
    parallelism = connector.snapshot_max_threads or lake.snapshot_parallelism
    workers = parallelism or os.cpu_count() or 1
    return SnapshotSettings(
        mode=snapshot_mode(connector),
        tables=connector.snapshot_filter,
        order=connector.table_order,
        statements=connector.snapshot_select_statement_overrides,
        chunk_pages=lake.snapshot_chunk_pages,
        # every worker has something to do in every pass
        pass_pages=max(lake.snapshot_pass_pages, workers * min(lake.snapshot_chunk_pages, lake.snapshot_pass_pages)),
        parallelism=parallelism,
        workers=workers,
        lock_seconds=connector.snapshot_lock_timeout_ms / 1000,
        delay_seconds=connector.snapshot_delay_ms / 1000,
        streaming_delay_seconds=connector.streaming_delay_ms / 1000,
    )


def snapshot_mode(connector: Connector) -> SnapshotPolicy:
    """What decides about snapshots."""
    if connector.snapshot_mode is SnapshotMode.CUSTOM:
        return custom_mode(connector.snapshot_mode_custom_name or "")
    if connector.snapshot_mode is SnapshotMode.CONFIGURATION_BASED:
        reads = connector.snapshot_mode_configuration_based_snapshot_data
        return FixedPolicy(
            first=reads,
            always=reads,
            follows=connector.snapshot_mode_configuration_based_start_stream,
            after_loss=connector.snapshot_mode_configuration_based_snapshot_on_data_error,
        )
    return MODES[connector.snapshot_mode]


def layers_of(
    configuration: Configuration,
    spark: SparkSession,
    layout: LakeLayout,
    relations: RelationCatalog,
    require_writer: Callable[[], None],
) -> Layers:
    """What brings silver and gold up to bronze; ``require_writer``: raises if somebody else may write to the lake."""
    settings = silver_settings(configuration.connector)
    silver = LayerTarget(
        Layer.SILVER,
        layout.silver,
        partial(apply_silver, settings=settings),
        {MESSAGES: partial(apply_messages, settings=settings), TRANSACTIONS: apply_transactions},
        keeps_events=True,
    )
    gold = LayerTarget(Layer.GOLD, layout.gold, apply_gold, reads_base=True)
    ledger, survey, sessions = EpochLedger(spark, layout), BronzeSurvey(spark, layout), Sessions(spark, layout)
    threads = configuration.lake.parallel_tables
    return Layers(
        ledger,
        {
            target.layer: LayerRun(
                spark,
                layout,
                target,
                ledger.last(target.layer),
                relations=relations,
                survey=survey,
                sessions=sessions,
                threads=threads,
                is_lacking=partial(_is_lacking, spark, layout),
                has_applied=ledger.has_applied,
                last_cut=ledger.cut,
            )
            for target in (silver, gold)
        },
        require_writer,
    )


def _is_lacking(spark: SparkSession, layout: LakeLayout, of_pass: int, table: TableName) -> bool:
    progress = read_pass(spark, layout, of_pass)
    if progress is None or progress.coverage is None:
        return False
    return table in {progress.coverage.names[oid] for oid in progress.coverage.wanted}


def silver_settings(connector: Connector) -> SilverSettings:
    """How events are written."""
    return SilverSettings(
        topic_prefix=connector.topic_prefix,
        database=connector.database_dbname,
        placeholder=connector.unavailable_value_placeholder,
        types=type_modes(connector),
        columns=connector.column_rules,
        masks=MaskBook(connector.masks),
        conversion_failures=ConversionFailures(connector.event_converting_failure_handling_mode),
        skip_unchanged=connector.skip_messages_without_change,
        version=__version__,
    )


def type_modes(connector: Connector) -> TypeModes:
    """Which types columns become."""
    return TypeModes(
        decimal=DecimalMode(connector.decimal_handling_mode),
        time=TimeMode(connector.time_precision_mode),
        binary=BinaryMode(connector.binary_handling_mode),
        interval=IntervalMode(connector.interval_handling_mode),
        hstore=HstoreMode(connector.hstore_handling_mode),
        money_digits=connector.money_fraction_digits,
        unknown=connector.include_unknown_datatypes,
    )


def events_settings(connector: Connector, *, schemas: bool = False, keep_nulls: bool = False) -> EventsSettings:
    """How events are printed; ``schemas``: each with its schema; ``keep_nulls``: NULL and not the default."""
    return EventsSettings(
        topic_prefix=connector.topic_prefix,
        delimiter=connector.topic_delimiter,
        columns=connector.column_rules,
        tombstones=connector.tombstones_on_delete,
        context_headers=connector.extended_headers_enabled,
        skipped_operations=frozenset(connector.skipped_operations),
        run_id=str(uuid.uuid4()),
        schemas=schemas,
        keep_nulls=keep_nulls,
        transactions=connector.provide_transaction_metadata,
        transaction_topic=connector.topic_transaction,
        heartbeat_ms=connector.heartbeat_interval_ms,
        heartbeat_topic_prefix=connector.topic_heartbeat_prefix,
        heartbeat_topic_name=connector.topic_heartbeat_name,
        types=type_modes(connector),
        notes=connector.schema_notes,
        schema_names=NameMode(connector.schema_name_adjustment_mode),
        field_names=NameMode(connector.field_name_adjustment_mode),
    )
