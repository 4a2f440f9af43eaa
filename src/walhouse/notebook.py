"""What the notebooks need beside the API: their parameters, and small frames that make a picture.

Invariant: the same cell runs on Databricks and on a laptop; where it runs is asked here and nowhere else.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import Window
from pyspark.sql import functions as F

from walhouse.api import Walhouse
from walhouse.errors import QueryError
from walhouse.lakehouse.session import on_databricks
from walhouse.lakehouse.tables import table_exists
from walhouse.names import TableName
from walhouse.pgoutput.row import CHUNK_ID, Kind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import Column, DataFrame

    from walhouse.names import LakeTable
    from walhouse.proof.verify import Proof


def parameters(**defaults: str) -> dict[str, str]:
    """Each parameter's value: a widget's on Databricks, elsewhere the environment's ``WALHOUSE_<NAME>`` or the default.

    On Databricks the widgets are made, so that a job's parameters of the same name reach the notebook.
    """
    if not on_databricks():
        return {name: os.environ.get(f"WALHOUSE_{name.upper()}", default) for name, default in defaults.items()}
    widgets = _dbutils().widgets
    for name, default in defaults.items():
        widgets.text(name, default)
    return {name: widgets.get(name) for name in defaults}


def open_house() -> Walhouse:
    """The house of the parameter ``conf``: by default development's on Databricks, elsewhere the demo's."""
    default = "../conf/development.yml" if on_databricks() else "../conf/demo.yml"
    return Walhouse.open(parameters(conf=default)["conf"])


def rows_per_layer(house: Walhouse) -> DataFrame:
    """Columns ``table_name``, ``bronze`` (changes and snapshot rows), ``silver`` (events), ``gold`` (rows)."""
    layout = house.layout
    counts = _changes(house).groupBy("schema_name", "table_name").agg(F.count("*").alias("bronze"))
    bronze = {TableName(row[0], row[1]): int(row[2]) for row in counts.toLocalIterator()}
    with ThreadPoolExecutor(house.configuration.lake.parallel_tables) as pool:
        silver = pool.map(lambda table: _count(house, layout.silver(table)), bronze)
        gold = pool.map(lambda table: _count(house, layout.gold(table)), bronze)
        rows = list(zip(map(str, bronze), bronze.values(), silver, gold, strict=True))
    return house.spark.createDataFrame(sorted(rows), "table_name STRING, bronze BIGINT, silver BIGINT, gold BIGINT")


def changes_over_time(house: Walhouse, unit: str = "second") -> DataFrame:
    """Columns ``at`` (commit time, cut to the unit), ``op``, ``changes``: what bronze has from the stream."""
    changes = _changes(house).where(F.col("kind") == Kind.CHANGE.value)
    return (
        changes.groupBy(F.date_trunc(unit, "commit_ts").alias("at"), "op")
        .agg(F.count("*").alias("changes"))
        .orderBy("at", "op")
    )


def busiest_keys(house: Walhouse, table: TableName, limit: int = 10) -> DataFrame:
    """Columns ``key`` (as JSON), ``events``, ``partial`` (events without some long value): the most eventful keys."""
    return (
        _silver(house, table)
        .where(F.col("key").isNotNull())
        .groupBy(F.to_json("key").alias("key"))
        .agg(F.count("*").alias("events"), F.count_if(F.size("unavailable") > 0).alias("partial"))
        .orderBy(F.desc("events"), "key")
        .limit(limit)
    )


def history(house: Walhouse, table: TableName, key: str) -> DataFrame:
    """One key's events in order: ``op``, ``at`` (commit time), ``changed`` and ``not_sent`` (names of columns), LSN.

    ``key``: as ``busiest_keys`` gives it. ``not_sent`` are long values that did not change, which the WAL leaves out.
    """
    events = _silver(house, table).where(F.to_json("key") == key)
    in_order = Window.orderBy("commit_lsn", "seq")
    return events.select(
        "op",
        F.timestamp_millis("source.ts_ms").alias("at"),
        F.array_compact(F.array(*(_changed(name, in_order) for name in events.select("after.*").columns))).alias(
            "changed"
        ),
        F.coalesce("unavailable", F.array().cast("array<string>")).alias("not_sent"),
        "commit_lsn",
        "seq",
    ).orderBy("commit_lsn", "seq")


def operations(house: Walhouse, tables: Iterable[TableName]) -> DataFrame:
    """Columns ``table_name``, ``op``, ``events``: what kinds of events silver has for each table."""
    counts = [
        _silver(house, table).groupBy(F.lit(str(table)).alias("table_name"), "op").agg(F.count("*").alias("events"))
        for table in tables
    ]
    return reduce(lambda left, right: left.unionByName(right), counts).orderBy("table_name", "op")


def captured_tables(house: Walhouse) -> list[TableName]:
    """The source's tables that bronze has rows of."""
    names = _changes(house).select("schema_name", "table_name").distinct()
    return sorted(TableName(row[0], row[1]) for row in names.toLocalIterator())


def notifications(house: Walhouse, request: str) -> DataFrame:
    """What was told of a request, in order: ``at``, ``type``, ``status``, ``rows`` (scanned in all), ``reason``."""
    told = house.spark.table(str(house.layout.ops("notifications"))).where(F.col("id") == request)
    facts = {"status": "status", "rows": "total_rows_scanned", "reason": "reason"}
    return told.orderBy("timestamp", "number").select(
        F.timestamp_millis("timestamp").alias("at"),
        "type",
        *(F.col("additional_data")[fact].alias(name) for name, fact in facts.items()),
    )


def chunks_read(house: Walhouse, request: str) -> DataFrame:
    """The chunks of a request: ``chunk``, ``pass``, ``rows``, ``lsn`` (where its rows stand)."""
    rows = house.spark.table(str(house.layout.bronze)).where(F.col("snapshot.id") == f"{CHUNK_ID}{request}")
    chunks = rows.groupBy(F.col("snapshot.chunk").alias("chunk"), "pass")
    return chunks.agg(F.count("*").alias("rows"), F.min("commit_lsn").alias("lsn")).orderBy("chunk")


def proof_table(house: Walhouse, proofs: Iterable[Proof]) -> DataFrame:
    """Proofs as a frame: ``table_name``, ``at`` (the LSN), ``source_rows``, ``gold_rows``, ``equal``."""
    rows = [(str(p.table), str(p.lsn), p.source_rows, p.gold_rows, p.equal) for p in proofs]
    columns = "table_name STRING, at STRING, source_rows BIGINT, gold_rows BIGINT, equal BOOLEAN"
    return house.spark.createDataFrame(rows, columns)


def _changes(house: Walhouse) -> DataFrame:
    kinds = (Kind.CHANGE.value, Kind.SNAPSHOT.value)
    return house.spark.table(str(house.layout.bronze)).where(F.col("kind").isin(*kinds))


def _silver(house: Walhouse, table: TableName) -> DataFrame:
    if not table_exists(house.spark, house.layout, house.layout.silver(table)):
        raise QueryError(f"Silver has no table of {table} yet.", todo="Call house.run() first, or correct the name.")
    return house.spark.table(str(house.layout.silver(table)))


def _count(house: Walhouse, table: LakeTable) -> int:
    return house.spark.table(str(table)).count() if table_exists(house.spark, house.layout, table) else 0


def _changed(field: str, in_order: Any) -> Column:
    """The field's name if this event says that it has another value than in the event before."""
    now, then = F.col("after").getField(field), F.lag(F.col("after").getField(field)).over(in_order)
    sent = ~F.coalesce(F.array_contains("unavailable", field), F.lit(False))
    return F.when(sent & F.col("after").isNotNull() & ~now.eqNullSafe(then), F.lit(field))


def _dbutils() -> Any:
    """The notebook's own ``dbutils``; a library has no global of that name."""
    from IPython import get_ipython  # noqa: PLC0415  (there where notebooks run, and nowhere else)

    return get_ipython().user_ns["dbutils"]
