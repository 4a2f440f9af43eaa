"""Small appends: rows that the driver has, as those of ``ops``.

Invariant: what was appended under a name and a number is not appended again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from walhouse.lakehouse.files import FileWriter

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from walhouse.lakehouse.files import Once
    from walhouse.lakehouse.layout import LakeLayout
    from walhouse.names import LakeTable


def append_rows(
    spark: SparkSession,
    layout: LakeLayout,
    table: LakeTable,
    columns: StructType,
    rows: Iterable[tuple[object, ...]],
    *,
    once: Once | None = None,
) -> None:
    """Append rows, a value for each of ``columns``, in one commit. Maps are given as lists of pairs."""
    fields = zip(to_arrow_schema(columns, timezone="UTC"), zip(*rows, strict=True), strict=True)
    values = pa.table([pa.array(list(each), field.type) for field, each in fields], names=columns.names)
    local = layout.local(table)
    if local is not None:
        types = pa.types
        skipping = [each.name for each in values.schema if types.is_int64(each.type) or types.is_string(each.type)]
        file = FileWriter(local.folder, values.schema, skipping)
        file.write(values)
        local.append([file.close()], once)
        return
    # by way of Arrow, since plain rows would start a Python worker
    writer = spark.createDataFrame(values, columns).coalesce(1).write.format("delta").mode("append")
    if once is not None:
        writer = writer.option("txnAppId", once.name).option("txnVersion", once.number)
    writer.saveAsTable(str(table))
