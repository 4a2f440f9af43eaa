"""Logical messages (pg_logical_emit_message) as events.

Invariant: one row per message. A non-transactional one belongs to no commit: it stands at its own LSN, with seq -1.
Source: Debezium documentation, PostgreSQL connector, "Message events".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql.types import BinaryType, BooleanType, StringType, StructField, StructType

from walhouse.lakehouse.tables import create_table
from walhouse.names import TableName
from walhouse.silver.images import null
from walhouse.silver.modes import BinaryMode
from walhouse.silver.source import CAPTURE_TIMES, SOURCE, source
from walhouse.silver.table import HEADERS, PROPERTIES, TRANSACTION, envelope_tail
from walhouse.silver.types.binary import in_mode

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from walhouse.lakehouse.layout import LakeLayout
    from walhouse.silver.settings import SilverSettings

NO_TABLE: Final = TableName("", "")
"""What ``source`` says of a message."""


def messages_schema(mode: BinaryMode) -> StructType:
    """The columns of the table; the content is bytes, or text in the encoding of ``binary.handling.mode``."""
    content = BinaryType() if mode is BinaryMode.BYTES else StringType()
    message = StructType().add("prefix", StringType()).add("content", content)
    return StructType(
        [
            StructField("message", message, metadata={"comment": "Prefix and content"}),
            StructField("source", SOURCE, metadata={"comment": "Where it comes from; schema and table are empty"}),
            StructField("op", StringType(), metadata={"comment": "m"}),
            *envelope_tail(),
            StructField("transactional", BooleanType(), metadata={"comment": "Whether it was part of a transaction"}),
        ]
    )


def ensure_messages(spark: SparkSession, layout: LakeLayout, mode: BinaryMode) -> None:
    """Create the table of logical messages if it is missing."""
    comment = "Logical messages, as Debezium has them"
    schema = messages_schema(mode)
    create_table(spark, layout, layout.silver_messages, schema, comment=comment, properties=PROPERTIES)


def message_events(messages: DataFrame, settings: SilverSettings) -> DataFrame:
    """The events of bronze's rows of kind message."""
    in_transaction = messages.selectExpr("* EXCEPT (xid)", "CASE WHEN message.transactional THEN xid END AS xid")
    content = in_mode("message.content", settings.types.binary)
    return in_transaction.selectExpr(
        f"named_struct('prefix', message.prefix, 'content', {content}) AS message",
        f"{source(settings, NO_TABLE)} AS source",
        "op",
        *CAPTURE_TIMES,
        f"{null(TRANSACTION)} AS transaction",
        f"{null(HEADERS)} AS headers",
        "commit_lsn",
        "seq",
        "xid",
        "message.transactional AS transactional",
    )
