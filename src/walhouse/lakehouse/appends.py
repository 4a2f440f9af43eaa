"""Small appends: rows that the driver has, as those of ``ops``.

Invariant: what was appended under a name and a number is not appended again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql.types import BooleanType, LongType, MapType, StringType, TimestampType

from walhouse.lakehouse.files import FileWriter

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession
    from pyspark.sql.types import DataType, StructType

    from walhouse.lakehouse.files import Once
    from walhouse.lakehouse.layout import LakeLayout
    from walhouse.names import LakeTable

_ARROW: Final[dict[type[DataType], pa.DataType]] = {
    BooleanType: pa.bool_(),
    LongType: pa.int64(),
    StringType: pa.string(),
    TimestampType: pa.timestamp("us", tz="UTC"),
}
"""By hand: Spark's own function for it is none of its API, and takes other arguments in 4.0 than in 4.2."""


def append_rows(
    spark: SparkSession,
    layout: LakeLayout,
    table: LakeTable,
    columns: StructType,
    rows: Iterable[tuple[object, ...]],
    *,
    once: Once | None = None,
    tidies: bool = False,
) -> None:
    """Append rows, a value for each of ``columns``, in one commit. Maps are given as lists of pairs.

    ``tidies``: as ``LocalTable.append`` says.
    """
    fields = zip(columns.fields, zip(*rows, strict=True), strict=True)
    values = pa.table([pa.array(list(each), _arrow(field.dataType)) for field, each in fields], names=columns.names)
    local = layout.local(table)
    if local is not None:
        types = pa.types
        skipping = [each.name for each in values.schema if types.is_int64(each.type) or types.is_string(each.type)]
        file = FileWriter(local.folder, values.schema, skipping)
        file.write(values)
        local.append([file.close()], once, tidies=tidies)
        return
    # by way of Arrow, since plain rows would start a Python worker
    writer = spark.createDataFrame(values, columns).coalesce(1).write.format("delta").mode("append")
    if once is not None:
        writer = writer.option("txnAppId", once.name).option("txnVersion", once.number)
    writer.saveAsTable(str(table))


def _arrow(data_type: DataType) -> pa.DataType:
    if isinstance(data_type, MapType):
        return pa.map_(_arrow(data_type.keyType), _arrow(data_type.valueType))
    return _ARROW[type(data_type)]
