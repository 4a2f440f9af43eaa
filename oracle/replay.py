"""walhouse's side of a recording: its frames through the decoder, bronze's frame, silver, and the printed events.

Invariant: only the product's own code makes events here; there is no server, no Delta table, and no Debezium.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from oracle.debezium import END, PREFIX
from walhouse.bronze.masking import MaskBook
from walhouse.bronze.rows import ChunkRows, base_rows, relation_rows, snapshot_rows
from walhouse.bronze.source import without_unwanted_messages
from walhouse.changes.epoch import EpochRange, TableEpoch
from walhouse.changes.resolve import resolve
from walhouse.changes.touched import touched_in
from walhouse.config.connector import Connector
from walhouse.config.properties import State, find
from walhouse.lakehouse.answers import few_rows
from walhouse.lsn import Lsn, LsnRange
from walhouse.names import MESSAGES, TRANSACTIONS
from walhouse.pgoutput.blocks import Blocks
from walhouse.pgoutput.copy_text import images_of_copy
from walhouse.pgoutput.decoder import Decoder, DecoderPlan
from walhouse.pgoutput.frames import frames_from_copy
from walhouse.pgoutput.relation import RelationDescription
from walhouse.pgoutput.row import ROW, Kind
from walhouse.silver.envelope import envelope
from walhouse.silver.keys import with_chosen_keys
from walhouse.silver.messages import message_events
from walhouse.silver.records.events import in_order, lines_of
from walhouse.silver.records.rows import PrintedRows
from walhouse.silver.table import silver_schema
from walhouse.silver.transactions import transactions
from walhouse.wiring import events_settings, silver_settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from oracle.recording import Recording
    from walhouse.changes.touched import Touched
    from walhouse.config.filters import NameFilter, TableFilter
    from walhouse.config.masks import MaskRule
    from walhouse.names import TableName
    from walhouse.pgoutput.column import ColumnDescription

_EPOCH: Final = EpochRange(number=1, after_pass=0, to_pass=1, to_lsn=Lsn(1 << 62))

SCHEMAS: Final = "converter.schemas.enable"
"""The engine's, not the connector's: `walhouse events --schemas`."""

NULLS: Final = "converter.replace.null.with.default"
"""The engine's, too: `walhouse events --keep-nulls`, if false."""

_REQUIRED: Final = {
    "topic.prefix": PREFIX,
    "database.hostname": "recorded",
    "database.user": "recorded",
    "database.dbname": "recorded",
}


def connector(recording: Recording, properties: Mapping[str, str]) -> Connector:
    """The configuration of a variant, without the properties that have no effect here."""
    used = {name: value for name, value in properties.items() if not _is_without_effect(name)}
    given = {**_REQUIRED, "database.dbname": recording.database, **used}
    unwanted = "message.prefix.exclude.list"
    given[unwanted] = ",".join(filter(None, (given.get(unwanted), END)))
    for name in (SCHEMAS, NULLS):
        given.pop(name, None)
    return Connector.model_validate(given)


def _is_without_effect(name: str) -> bool:
    known = find(name)
    return known is not None and known.state is State.WARNED


def replay(spark: SparkSession, recording: Recording, properties: Mapping[str, str]) -> list[str]:
    """The lines that ``walhouse events`` would print for the recorded frames under these properties."""
    return Replay(spark, recording).lines(properties)


class Replay:
    """One recording; variants that capture the same share what was decoded."""

    def __init__(self, spark: SparkSession, recording: Recording) -> None:
        self._spark = spark
        self._recording = recording
        self._captured: dict[_Choice, _Captured] = {}

    def lines(self, properties: Mapping[str, str]) -> list[str]:
        """The lines under these properties."""
        told = connector(self._recording, properties)
        captured = self._capture(told)
        settings = silver_settings(told)
        frames: dict[TableName, DataFrame] = {}
        messages: DataFrame | None = None
        begun: DataFrame | None = None
        for touched in captured.touched:
            if touched.table == MESSAGES:
                messages = message_events(captured.bronze.where(f"kind = '{Kind.MESSAGE.value}'"), settings)
                continue
            if touched.table == TRANSACTIONS:
                begun = transactions(captured.bronze.where(f"kind = '{Kind.TRANSACTION.value}'"))
                continue
            relations = with_chosen_keys(captured.relations(touched), settings.columns)
            epoch = _epoch(captured.bronze, touched, relations)
            schema = silver_schema(relations, settings.types)
            # as a table's, its fields say whose they are
            frames[touched.table] = envelope(epoch, schema, settings).to(schema)
        tables = {each.table: captured.relations(each) for each in captured.touched if each.table in frames}
        printed = events_settings(
            told, schemas=properties.get(SCHEMAS) == "true", keep_nulls=properties.get(NULLS) == "false"
        )
        rows = PrintedRows(frames, messages, begun)
        if rows.is_empty:
            return []
        return [row["line"] for row in few_rows(in_order(lines_of(rows, printed, tables)))]

    def _capture(self, told: Connector) -> _Captured:
        chosen = _Choice(
            told.table_filter,
            told.message_filter,
            told.column_masks,
            told.provide_transaction_metadata,
            told.xmin_fetch_interval_ms > 0,
        )
        if chosen not in self._captured:
            rows = decode(self._recording, told)
            bronze = self._spark.createDataFrame(rows)
            self._captured[chosen] = _Captured(bronze, touched_in(bronze), _descriptions(rows))
        return self._captured[chosen]


class _Choice(NamedTuple):
    """What decides which rows are captured."""

    tables: TableFilter
    messages: NameFilter
    masks: tuple[MaskRule, ...]
    transactions: bool
    xmin: bool


@dataclass(frozen=True, slots=True)
class _Captured:
    bronze: DataFrame
    touched: list[Touched]
    described: dict[int, RelationDescription]

    def relations(self, touched: Touched) -> tuple[RelationDescription, ...]:
        return tuple(self.described[version] for version in touched.versions)


def decode(recording: Recording, told: Connector) -> pa.Table:
    """The rows of bronze that capture would have written."""
    plan = DecoderPlan(
        window=LsnRange(Lsn(recording.start), Lsn(recording.end)),
        pass_number=1,
        captured_at=0,
        next_xid=recording.next_xid,
        relations={relation.oid: relation for relation in recording.relations},
        types=recording.types,
        known_versions=frozenset(),
        seen_messages=frozenset(),
        transactions=told.provide_transaction_metadata,
        slot_xmin=recording.slot_xmin if told.xmin_fetch_interval_ms else None,
    )
    decoder = Decoder(plan, told.table_filter)
    masks = MaskBook(told.masks)
    batches = [
        masks.masked(without_unwanted_messages(batch, told.message_filter), decoder.relations)
        for batch in decoder.decode(frames_from_copy(Blocks.of(recording.frames)))
    ]
    decoder.finish()
    # Spark's createDataFrame stops at a batch without rows
    filled = [batch for batch in (*_snapshot(recording, told, masks), *batches) if batch.num_rows]
    return pa.Table.from_batches(filled, schema=ROW) if filled else ROW.empty_table()


def types_of_altered_columns(recording: Recording) -> frozenset[int]:
    """OIDs of the types that messages tell of columns which the catalog's tables no longer have so."""
    now = {(each.oid, *_identity(column)) for each in recording.relations for column in each.columns}
    found = decode(recording, connector(recording, {}))["relation"].drop_null().to_pylist()
    then = [(each.oid, column) for each in map(RelationDescription.from_json, found) for column in each.columns]
    return frozenset(column.type_oid for oid, column in then if (oid, *_identity(column)) not in now)


def _identity(column: ColumnDescription) -> tuple[str, int, int]:
    """What the catalog and a message must agree in."""
    return column.name, column.type_oid, column.typmod


def _snapshot(recording: Recording, told: Connector, masks: MaskBook) -> Iterator[pa.RecordBatch]:
    """The rows of the initial snapshot, and the descriptions of its tables."""
    at = Lsn(recording.start)
    described = {each.oid: each for each in recording.relations if told.table_filter.captures(each.name)}
    if recording.snapshot:
        yield relation_rows(tuple(described.values()), 1, at, 0)
    facts: dict[str, Any] = {"pass_number": 1, "snapshot_id": "recorded", "captured_at": 0}
    numbers = count()
    for relation in sorted(described.values(), key=lambda each: each.name):
        chunks = [chunk for chunk in recording.snapshot if chunk.relation == relation.oid]
        if chunks:
            yield base_rows([(relation, next(numbers))], visibility="", at=at, **facts)
        for chunk in chunks:
            images = images_of_copy(Blocks.of(chunk.blocks), len(relation.columns))
            part = ChunkRows(next(numbers), "", at, 0, len(images))
            rows = snapshot_rows(images, relation, [part], xid=recording.next_xid, **facts)
            yield masks.masked(rows, {relation.version: relation})


def _epoch(bronze: DataFrame, touched: Touched, relations: tuple[RelationDescription, ...]) -> TableEpoch:
    changes = resolve(bronze, touched.table)
    return TableEpoch(_EPOCH, touched.table, changes, relations, None, known_facts=touched.facts)


def _descriptions(rows: pa.Table) -> dict[int, RelationDescription]:
    texts = [text for text in rows["relation"].to_pylist() if text is not None]
    return {relation.version: relation for relation in map(RelationDescription.from_json, texts)}
