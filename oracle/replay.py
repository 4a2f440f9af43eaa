"""walhouse's side of a recording: its frames through the decoder, bronze's frame, silver, and the printed events.

Invariant: only the product's own code makes events here; there is no server, no Delta table, and no Debezium.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from oracle.debezium import END, PREFIX
from walhouse.bronze.source import without_unwanted_messages
from walhouse.changes.epoch import EpochRange, TableEpoch
from walhouse.changes.resolve import resolve
from walhouse.changes.touched import MESSAGES, touched_in
from walhouse.config.connector import Connector
from walhouse.lsn import Lsn, LsnRange
from walhouse.pgoutput.decoder import Decoder, DecoderPlan
from walhouse.pgoutput.frames import frames_from_copy
from walhouse.pgoutput.relation import RelationDescription
from walhouse.pgoutput.row import ROW, Kind
from walhouse.silver.envelope import envelope
from walhouse.silver.events import lines_of
from walhouse.silver.messages import message_events
from walhouse.silver.table import silver_schema
from walhouse.wiring import events_settings, silver_settings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from oracle.recording import Recording
    from walhouse.changes.touched import Touched
    from walhouse.names import TableName

_EPOCH: Final = EpochRange(number=1, after_pass=0, to_pass=1, to_lsn=Lsn(1 << 62))

_REQUIRED: Final = {
    "topic.prefix": PREFIX,
    "database.hostname": "recorded",
    "database.user": "recorded",
    "database.dbname": "recorded",
}


def connector(recording: Recording, properties: Mapping[str, str]) -> Connector:
    """The configuration of a variant."""
    given = {**_REQUIRED, "database.dbname": recording.database, **properties}
    unwanted = "message.prefix.exclude.list"
    given[unwanted] = ",".join(filter(None, (given.get(unwanted), END)))
    return Connector.model_validate(given)


def replay(spark: SparkSession, recording: Recording, properties: Mapping[str, str]) -> list[str]:
    """The lines that ``walhouse events`` would print for the recorded frames under these properties."""
    told = connector(recording, properties)
    rows = decode(recording, told)
    bronze = spark.createDataFrame(rows)
    settings = silver_settings(told)
    described = _descriptions(rows)
    frames: dict[TableName, DataFrame] = {}
    tables: dict[TableName, Sequence[RelationDescription]] = {}
    messages: DataFrame | None = None
    for touched in touched_in(bronze):
        if touched.table == MESSAGES:
            messages = message_events(bronze.where(f"kind = '{Kind.MESSAGE.value}'"), settings)
            continue
        relations = tuple(described[version] for version in touched.versions)
        epoch = _epoch(bronze, touched, relations)
        tables[touched.table] = relations
        frames[touched.table] = envelope(epoch, silver_schema(relations, settings.types), settings)
    lines = lines_of(frames, messages, events_settings(told), tables)
    return [] if lines is None else [row[0] for row in lines.toLocalIterator()]


def decode(recording: Recording, told: Connector) -> pa.Table:
    """The rows of bronze that capture would have written."""
    plan = DecoderPlan(
        window=LsnRange(Lsn(recording.start), Lsn(recording.end)),
        pass_number=1,
        captured_at=0,
        next_xid=recording.next_xid,
        relations={relation.oid: relation for relation in recording.relations},
        known_versions=frozenset(),
        seen_messages=frozenset(),
    )
    decoder = Decoder(plan, told.table_filter)
    batches = [
        without_unwanted_messages(batch, told.message_filter)
        for batch in decoder.decode(frames_from_copy(list(recording.frames)))
    ]
    decoder.finish()
    return pa.Table.from_batches(batches, schema=ROW)


def _epoch(bronze: DataFrame, touched: Touched, relations: tuple[RelationDescription, ...]) -> TableEpoch:
    changes = resolve(bronze, touched.table)
    return TableEpoch(_EPOCH, touched.table, changes, relations, None, known_facts=touched.facts)


def _descriptions(rows: pa.Table) -> dict[int, RelationDescription]:
    texts = [text for text in rows["relation"].to_pylist() if text is not None]
    return {relation.version: relation for relation in map(RelationDescription.from_json, texts)}
