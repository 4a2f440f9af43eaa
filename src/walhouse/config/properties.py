"""Every property of the Debezium 3.6 PostgreSQL connector, and what walhouse does with it.

Invariant: a property that is not in this table is an unknown key; one that is, is used, refused, or named in a warning.
None is ignored without a word. docs/CONFIGURATION.md is generated from it.
Source: Debezium 3.6, PostgreSQL connector, "Connector properties", and Kafka Connect's own connector properties.
"""

# ruff: noqa: E501  (a table: one record a line)
from __future__ import annotations

import re
from enum import StrEnum
from functools import cache
from typing import Final, NamedTuple


class State(StrEnum):
    """What happens when a configuration gives the property."""

    USED = "used"
    """It does what Debezium's documentation says (the note names any difference)."""
    WARNED = "accepted with a warning"
    """It has no meaning here; the note says why. The warning repeats the note."""
    DEFAULT_ONLY = "default only"
    """Its default describes what happens here; every other value is refused with the note."""
    REFUSED = "refused"
    """Any value is an error; the note says why or what to use."""


class Property(NamedTuple):
    """One property. ``default`` is the text a Java properties file would hold, None if there is none."""

    name: str
    """``<...>`` stands for one part of the user's choice, a trailing ``*`` for any rest."""
    kind: str
    default: str | None
    state: State
    note: str

    @property
    def is_pattern(self) -> bool:
        """True if the name stands for a family of names."""
        return "<" in self.name or self.name.endswith("*")


USED, WARNED, DEFAULT, REFUSED = State.USED, State.WARNED, State.DEFAULT_ONLY, State.REFUSED

_KAFKA: Final = "Kafka Connect's; there is no Kafka here"
_JVM: Final = "the JVM's; there is no JVM connector here"
_CLASS: Final = "names a Java class, which cannot be loaded here"
_QUEUE: Final = "sizes Debezium's in-memory queue; a pass streams its range, see lake.max_pass_bytes"
_LATER: Final = "not yet"

NEW_NAMES: Final = {
    "database.server.name": "topic.prefix",
    "schema.whitelist": "schema.include.list",
    "schema.blacklist": "schema.exclude.list",
    "table.whitelist": "table.include.list",
    "table.blacklist": "table.exclude.list",
    "column.whitelist": "column.include.list",
    "column.blacklist": "column.exclude.list",
    "toasted.value.placeholder": "unavailable.value.placeholder",
}
"""Names of before Debezium 2.0 that mean what another name means now."""

TABLE: Final[tuple[Property, ...]] = (
    # Connection
    Property("topic.prefix", "text", None, USED, "required: the logical name of the source, the first part of every destination"),
    Property("topic.delimiter", "text", ".", USED, "between the parts of a destination"),
    Property("database.hostname", "text", None, USED, "required"),
    Property("database.port", "int", "5432", USED, ""),
    Property("database.user", "text", None, USED, "required"),
    Property("database.password", "secret", None, USED, "a reference: ${env:NAME}, ${file:PATH} or ${secret:scope/key}"),
    Property("database.dbname", "text", None, USED, "required"),
    Property("database.sslmode", "enum", "prefer", USED, "disable, allow, prefer, require, verify-ca, verify-full; as libpq has them: with sslrootcert, require verifies like verify-ca"),
    Property("database.sslcert", "file", None, USED, "relative to the configuration file; PEM"),
    Property("database.sslkey", "file", None, USED, "relative to the configuration file; PEM, or Java's PKCS-8 DER (.pk8) if it has no password, else make it PEM: openssl pkey -inform DER -in client.pk8 -aes256 -out client.key (not PKCS#12)"),
    Property("database.sslpassword", "secret", None, USED, "of sslkey; a reference, like database.password"),
    Property("database.sslrootcert", "file", None, USED, "relative to the configuration file; PEM; the system's is a file, too, as /etc/ssl/certs/ca-certificates.crt"),
    Property("database.sslfactory", "class", None, WARNED, _JVM),
    Property("database.tcpKeepAlive", "bool", "true", WARNED, "libpq keeps connections alive by itself"),
    Property("database.initial.statements", "text", None, USED, "SQL run after each connect, separated by ; (;; is a literal semicolon)"),
    Property("database.query.timeout.ms", "int", "600000", WARNED, "a snapshot and a range take as long as they need; bound a range by lake.max_pass_bytes"),
    Property("connection.validation.timeout.ms", "int", "60000", WARNED, _JVM),
    Property("connection.factory.class", "class", None, WARNED, _JVM),
    Property("driver.*", "text", None, WARNED, "JDBC's; use database.ssl… and database.initial.statements"),
    # Replication
    Property("plugin.name", "enum", "pgoutput", USED, "only pgoutput; Debezium's own default, decoderbufs, needs an extension on the server"),
    Property("slot.name", "text", "debezium", USED, "[a-z0-9_], at most 63 characters"),
    Property("slot.drop.on.stop", "bool", "false", DEFAULT, "the lake continues from the slot, so that dropping it loses changes; `walhouse drop` removes it"),
    Property("slot.failover", "bool", "false", USED, "PostgreSQL 17 and later, on a primary: standbys that synchronise slots keep a copy of the one that is made; elsewhere a warning, and a plain slot. A slot that exists stays as it is"),
    Property("slot.stream.params", "text", None, DEFAULT, "other options of the plug-in change what its frames are, or leave out changes that gold must have"),
    Property("slot.max.retries", "int", "6", USED, "how often to try again while another process uses the slot"),
    Property("slot.retry.delay.ms", "int", "10000", USED, "at most this long between two tries"),
    Property("offset.mismatch.strategy", "enum", "no_validation", WARNED, "bronze is the offset: a slot behind it is read again, one ahead of it is an error"),
    Property("publication.name", "text", "dbz_publication", USED, ""),
    Property("publication.autocreate.mode", "enum", "all_tables", USED, "all_tables, filtered, disabled, no_tables; all_tables needs a superuser"),
    Property("publish.via.partition.root", "bool", "false", USED, "takes effect when walhouse creates the publication"),
    Property("replica.identity.autoset.values", "list", None, USED, "schema.table:FULL, :DEFAULT, :NOTHING or :INDEX name; set when capture begins, where the user owns the table; partitions, too"),
    Property("status.update.interval.ms", "int", "10000", WARNED, "the slot is advanced after each commit to bronze"),
    Property("lsn.flush.mode", "enum", "connector", DEFAULT, "the slot follows bronze and nothing else may move it"),
    Property("lsn.flush.timeout.ms", "int", "30000", WARNED, "see lake.flush_timeout_seconds"),
    Property("lsn.flush.timeout.action", "enum", "fail", DEFAULT, "a slot that cannot be advanced is an error"),
    Property("flush.lsn.source", "bool", "true", DEFAULT, "the slot follows bronze and nothing else may move it"),
    Property("xmin.fetch.interval.ms", "int", "0", USED, "above 0: events tell the slot's catalog_xmin, read once for each pass"),
    Property("read.only", "bool", "false", USED, "true: every session is a read-only one, so that the server itself refuses what would write to the source: making a publication, replica identities, signal tables. Incremental snapshots write nothing in any case"),
    Property("internal.create.slot.command.timeout", "int", "90", WARNED, "creating a slot waits for running transactions; lock_timeout ends it"),
    Property("internal.slot.seek.to.known.offset.on.start", "bool", "false", WARNED, "bronze is the offset"),
    Property("internal.offset.activity.monitor.interval.ms", "int", None, WARNED, _JVM),
    Property("internal.log.position.check.enable", "bool", "true", DEFAULT, "a gap between bronze and the slot is always an error"),
    # Snapshots
    Property("snapshot.mode", "enum", "initial", USED, "always, initial (also its old name exported), initial_only, no_data (also never and schema_only), when_needed, configuration_based, custom; see docs/OPERATIONS.md. recovery is refused: there is no schema history"),
    Property("snapshot.mode.custom.name", "text", None, USED, "a Python entry point of the group walhouse.snapshot_modes, or module:attribute; see docs/OPERATIONS.md"),
    Property("snapshot.mode.configuration.based.snapshot.data", "bool", "false", USED, "tables are read at each start"),
    Property("snapshot.mode.configuration.based.snapshot.schema", "bool", "false", WARNED, "descriptions are always read: from the stream and the catalog"),
    Property("snapshot.mode.configuration.based.start.stream", "bool", "false", USED, "the stream is captured"),
    Property("snapshot.mode.configuration.based.snapshot.on.schema.error", "bool", "false", WARNED, "descriptions cannot be lost: bronze holds them"),
    Property("snapshot.mode.configuration.based.snapshot.on.data.error", "bool", "false", USED, "tables are read anew where changes were lost with the slot"),
    Property("snapshot.isolation.mode", "enum", "serializable", WARNED, "every chunk is read in the slot's own snapshot, which is exact in any mode"),
    Property("snapshot.locking.mode", "enum", "none", WARNED, "tables are locked in ACCESS SHARE mode, as any reader does"),
    Property("snapshot.locking.mode.custom.name", "class", None, REFUSED, _CLASS),
    Property("snapshot.lock.timeout.ms", "int", "10000", USED, "for an initial or blocking snapshot; the locks are readers'. Its slot waits for each running transaction as long"),
    Property("snapshot.query.mode", "enum", "select_all", DEFAULT, _LATER),
    Property("snapshot.query.mode.custom.name", "class", None, REFUSED, _CLASS),
    Property("snapshot.include.collection.list", "regexes", None, USED, "match schema.table: which of the captured tables an initial snapshot reads. Where changes were lost with the slot, all are read"),
    Property("snapshot.select.statement.overrides", "list", None, USED, "schema.table of those that have a statement"),
    Property("snapshot.select.statement.overrides.*", "text", None, USED, ".schema.table: a complete SELECT in place of the table's rows in an initial snapshot, in a transaction that is read only; columns that it leaves out are NULL"),
    Property("snapshot.fetch.size", "int", "10240", WARNED, "rows are streamed by COPY"),
    Property("snapshot.delay.ms", "int", "0", USED, "before an initial snapshot"),
    Property("streaming.delay.ms", "int", "0", USED, "after an initial snapshot"),
    Property("snapshot.max.threads", "int", "1", USED, "if given: chunks read side by side at most, as lake.snapshot_parallelism, which is one for each core by default"),
    Property("snapshot.max.threads.multiplier", "int", "1", WARNED, "see lake.snapshot_chunk_pages"),
    Property("legacy.snapshot.max.threads", "bool", "false", WARNED, "see lake.snapshot_parallelism"),
    Property("snapshot.tables.order.by.row.count", "enum", "disabled", WARNED, "tables are read side by side"),
    Property("internal.snapshot.scan.all.columns.force", "bool", "false", DEFAULT, "columns that are left out are never read"),
    # Incremental snapshots, signals, notifications
    Property("incremental.snapshot.chunk.size", "int", "1024", USED, "rows of one chunk, each read in a transaction of its own; see lake.snapshot_pass_rows, too"),
    Property("incremental.snapshot.watermarking.strategy", "enum", "INSERT_INSERT", USED, "if given, each pass of chunks is a window in the signal table: insert_insert, insert_delete; nothing is decided by it, and by default nothing is written"),
    Property("incremental.snapshot.allow.schema.changes", "bool", "false", DEFAULT, _LATER),
    Property("signal.data.collection", "text", None, USED, "the source's signal table, schema.table; it is captured whatever the lists say. walhouse init-signals makes it"),
    Property("signal.enabled.channels", "list", "source", USED, "source, file; the lake's table ops.signals is always read. kafka, jmx and in-process are refused: there is no Kafka and no JVM here"),
    Property("signal.poll.interval.ms", "int", "5000", USED, "how often a continuous run looks at ops.signals and at the file"),
    Property("signal.file", "file", "file-signals.txt", USED, "relative to the configuration file; one JSON object a line, taken out once it was followed: open it anew for each signal"),
    Property("signal.kafka.*", "text", None, WARNED, _KAFKA),
    Property("signal.consumer.*", "text", None, WARNED, _KAFKA),
    Property("notification.enabled.channels", "list", None, WARNED, "notifications are always in the table ops.notifications, and in the log"),
    Property("notification.sink.topic.name", "text", None, WARNED, _KAFKA),
    # Filters
    Property("schema.include.list", "regexes", None, USED, "match the schema's whole name; excludes schema.exclude.list"),
    Property("schema.exclude.list", "regexes", None, USED, ""),
    Property("table.include.list", "regexes", None, USED, "match schema.table; excludes table.exclude.list"),
    Property("table.exclude.list", "regexes", None, USED, ""),
    Property("column.include.list", "regexes", None, USED, "match schema.table.column; key columns always stay; excludes column.exclude.list"),
    Property("column.exclude.list", "regexes", None, USED, "key columns always stay"),
    Property("table.ignore.builtin", "bool", "true", DEFAULT, "system schemas have no logical changes to capture"),
    Property("message.prefix.include.list", "regexes", None, USED, "match a logical message's prefix; excludes message.prefix.exclude.list"),
    Property("message.prefix.exclude.list", "regexes", None, USED, ""),
    Property("message.key.columns", "text", None, USED, "table:column,column;table:column, all of them patterns; a key has the columns of all entries that match, in their order"),
    Property("column.mask.with.<length>.chars", "regexes", None, USED, "texts (char, varchar, text, name, enums) become asterisks before they reach bronze; NULL, too. Columns of keys stay plain in keys, bronze and gold, and are masked in `before` and `after`; see `walhouse check`"),
    Property("column.mask.hash.*", "regexes", None, USED, "hash.[v2.]ALGORITHM.with.salt.SALT: texts become their digest before they reach bronze. Columns of keys: as with mask.with"),
    Property("column.truncate.to.<length>.chars", "regexes", None, USED, "texts are cut before they reach bronze, strings and bytes of other types in events alone. Columns of keys: as with mask.with"),
    Property("column.propagate.source.type", "regexes", None, USED, "match schema.table.column; shown by `walhouse events --schemas`: the source's type, length, scale and column name as the field's parameters; masked columns tell only that they are"),
    Property("datatype.propagate.source.type", "regexes", None, USED, "the same for every column of a type; match schema.table.type, the type as pg_type names it (int4, _text, a domain's name)"),
    # Shape of events
    Property("skipped.operations", "list", "t", USED, "which of c, u, d, t, none `walhouse events` leaves out; publications that walhouse makes publish them all the same, so that silver and gold have them"),
    Property("tombstones.on.delete", "bool", "true", USED, "shown by `walhouse events`; a table needs none"),
    Property("unavailable.value.placeholder", "text", "__debezium_unavailable_value", USED, ""),
    Property("include.schema.comments", "bool", "false", WARNED, "Debezium's PostgreSQL connector reads no comments, so its schemas have none; bronze's relation rows have them"),
    Property("skip.messages.without.change", "bool", "false", USED, "updates that change no shown column give no event; needs replica identity full"),
    Property("provide.transaction.metadata", "bool", "false", USED, "capture notes each transaction from then on; `walhouse events` prints begin, end and each event's place"),
    Property("transaction.metadata.factory", "class", "io.debezium.pipeline.txmetadata.DefaultTransactionMetadataFactory", DEFAULT, _CLASS),
    Property("topic.naming.strategy", "class", "io.debezium.schema.SchemaTopicNamingStrategy", DEFAULT, _CLASS),
    Property("topic.transaction", "text", "transaction", USED, "last part of the destination of begins and ends"),
    Property("topic.heartbeat.prefix", "text", "__debezium-heartbeat", USED, "first part of the destination of heartbeats"),
    Property("topic.heartbeat.name", "text", None, USED, "the whole destination of heartbeats"),
    Property("heartbeat.topics.prefix", "text", "__debezium-heartbeat", WARNED, "the old name of topic.heartbeat.prefix, which is used"),
    Property("topic.cache.size", "int", "10000", WARNED, _KAFKA),
    Property("topic.regex", "text", None, WARNED, _KAFKA),
    Property("topic.replacement", "text", None, WARNED, _KAFKA),
    Property("topic.key.*", "text", None, WARNED, _KAFKA),
    Property("schema.name.adjustment.mode", "enum", "none", USED, "none, avro, avro_unicode; shown by `walhouse events --schemas`"),
    Property("field.name.adjustment.mode", "enum", "none", USED, "none, avro, avro_unicode; shown by `walhouse events`: silver keeps the columns' own names"),
    Property("extended.headers.enabled", "bool", "true", USED, "shown by `walhouse events`"),
    Property("sourceinfo.struct.maker", "class", "io.debezium.connector.postgresql.PostgresSourceInfoStructMaker", DEFAULT, _CLASS),
    # Types
    Property("decimal.handling.mode", "enum", "precise", USED, "precise, double, string; native (walhouse's own): Spark's decimal where it has room, else text"),
    Property("time.precision.mode", "enum", "adaptive", USED, "adaptive, adaptive_time_microseconds, connect, isostring, microseconds, nanoseconds; native (walhouse's own): Spark's date and timestamp_ntz"),
    Property("hstore.handling.mode", "enum", "json", USED, "json, map; native (walhouse's own): as map"),
    Property("interval.handling.mode", "enum", "numeric", USED, "numeric, string; native (walhouse's own): months, days and microseconds"),
    Property("binary.handling.mode", "enum", "bytes", USED, "bytes, base64, base64-url-safe, hex"),
    Property("money.fraction.digits", "int", "2", USED, "0 to 9"),
    Property("include.unknown.datatypes", "bool", "false", USED, "columns of types that Debezium does not know: left out of events, or bytes of their text; bronze and gold have them all"),
    Property("schema.refresh.mode", "enum", "columns_diff", DEFAULT, _LATER),
    Property("converters", "list", None, REFUSED, _CLASS),
    Property("post.processors", "list", None, DEFAULT, _LATER),
    # Run time
    Property("heartbeat.interval.ms", "int", "0", USED, "above 0: `walhouse events` prints a heartbeat for each pass, at most one in each interval"),
    Property("heartbeat.action.query", "text", None, USED, "run on the source before each capture, if heartbeat.interval.ms is above 0"),
    Property("max.queue.size", "int", "8192", WARNED, _QUEUE),
    Property("max.batch.size", "int", "2048", WARNED, _QUEUE),
    Property("max.queue.size.in.bytes", "int", "0", WARNED, _QUEUE),
    Property("queue.provider.*", "text", None, WARNED, _JVM),
    Property("poll.interval.ms", "int", "500", WARNED, _QUEUE),
    Property("poll.dispatch.interval.ms", "int", None, WARNED, _QUEUE),
    Property("query.fetch.size", "int", "0", WARNED, "rows are streamed by COPY"),
    Property("event.processing.failure.handling.mode", "enum", "fail", DEFAULT, "a change that cannot be read is never skipped"),
    Property("event.converting.failure.handling.mode", "enum", "warn", USED, "warn, skip: silver's field is NULL and the text stands beside it (warn says where the first one is); fail: nothing of the epoch is written; an array of which elements become NULL is counted, and its text kept beside it, in each"),
    Property("errors.max.retries", "int", "-1", WARNED, "run walhouse again: it goes on where it stopped"),
    Property("retriable.restart.connector.wait.ms", "int", "10000", WARNED, "run walhouse again: it goes on where it stopped"),
    Property("internal.custom.retriable.exception", "text", None, WARNED, _JVM),
    Property("executor.shutdown.timeout.ms", "int", "4000", WARNED, _JVM),
    Property("guardrail.collections.max", "int", "0", DEFAULT, _LATER),
    Property("guardrail.collections.limit.action", "enum", "warn", DEFAULT, _LATER),
    Property("custom.metric.tags", "text", None, WARNED, "JMX's; see `walhouse status`"),
    Property("custom.sanitize.pattern", "text", None, WARNED, "no value of the configuration is logged"),
    Property("statistics.metrics.enabled", "bool", "true", WARNED, "JMX's; see `walhouse status`"),
    Property("internal.advanced.metrics.enable", "bool", "false", WARNED, "JMX's; see `walhouse status`"),
    Property("openlineage.integration.*", "text", None, WARNED, _LATER),
    # Kafka Connect
    Property("name", "text", None, WARNED, _KAFKA),
    Property("connector.class", "class", "io.debezium.connector.postgresql.PostgresConnector", WARNED, _KAFKA),
    Property("tasks.max", "int", "1", WARNED, _KAFKA),
    Property("tasks.max.enforce", "bool", "true", WARNED, _KAFKA),
    Property("key.converter", "class", None, WARNED, _KAFKA),
    Property("key.converter.*", "text", None, WARNED, _KAFKA),
    Property("value.converter", "class", None, WARNED, _KAFKA),
    Property("value.converter.*", "text", None, WARNED, _KAFKA),
    Property("header.converter", "class", None, WARNED, _KAFKA),
    Property("header.converter.*", "text", None, WARNED, _KAFKA),
    Property("transforms", "list", None, WARNED, "Kafka Connect's; events are kept as the connector emits them, before any transform"),
    Property("transforms.*", "text", None, WARNED, "Kafka Connect's; events are kept as the connector emits them, before any transform"),
    Property("predicates", "list", None, WARNED, _KAFKA),
    Property("predicates.*", "text", None, WARNED, _KAFKA),
    Property("config.action.reload", "enum", "restart", WARNED, _KAFKA),
    Property("config.providers", "list", None, WARNED, _KAFKA),
    Property("config.providers.*", "text", None, WARNED, _KAFKA),
    Property("errors.retry.timeout", "int", "0", WARNED, _KAFKA),
    Property("errors.retry.delay.max.ms", "int", "60000", WARNED, _KAFKA),
    Property("errors.tolerance", "enum", "none", WARNED, _KAFKA),
    Property("errors.log.enable", "bool", "false", WARNED, _KAFKA),
    Property("errors.log.include.messages", "bool", "false", WARNED, _KAFKA),
    Property("topic.creation.*", "text", None, WARNED, _KAFKA),
    Property("exactly.once.support", "enum", "requested", WARNED, "Kafka Connect's; every event has an identity here, so that none is doubled"),
    Property("transaction.boundary", "enum", "poll", WARNED, _KAFKA),
    Property("transaction.boundary.interval.ms", "int", None, WARNED, _KAFKA),
    Property("offset.*", "text", None, WARNED, "Kafka Connect's; bronze is the offset"),
    Property("offsets.storage.topic", "text", None, WARNED, "Kafka Connect's; bronze is the offset"),
    Property("schema.history.internal.*", "text", None, WARNED, "bronze holds the relation rows"),
    Property("producer.override.*", "text", None, WARNED, _KAFKA),
    Property("consumer.override.*", "text", None, WARNED, _KAFKA),
    Property("admin.override.*", "text", None, WARNED, _KAFKA),
    # Names that Debezium has given up
    *(Property(old, "regexes" if new.endswith(".list") else "text", None, REFUSED, f"is called {new}") for old, new in NEW_NAMES.items()),
    Property("snapshot.custom.class", "class", None, REFUSED, _CLASS),
)  # fmt: skip

_EXACT: Final = {record.name: record for record in TABLE if not record.is_pattern}


@cache
def _families() -> tuple[tuple[re.Pattern[str], Property], ...]:
    def pattern(name: str) -> re.Pattern[str]:
        return re.compile(re.sub(r"<[a-z]+>", "[^.]+", re.escape(name).replace(r"\*", ".+")))

    return tuple((pattern(record.name), record) for record in TABLE if record.is_pattern)


def find(name: str) -> Property | None:
    """The record of a property, None if Debezium has none of that name."""
    if name in _EXACT:
        return _EXACT[name]
    return next((record for pattern, record in _families() if pattern.fullmatch(name)), None)


def known_names() -> tuple[str, ...]:
    """All names, for suggestions; of a family of names its pattern."""
    return tuple(record.name for record in TABLE)
