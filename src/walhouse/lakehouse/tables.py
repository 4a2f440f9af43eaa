"""Delta tables: creating, finding, versions. SQL and DataFrame only, so that Spark Connect works.

Invariant: on a local lake every table is created with its folder given, and is registered again from that folder by
the next process, since the local catalog lives in memory.
"""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from walhouse.errors import OtherLakeError
from walhouse.lakehouse.answers import few_rows
from walhouse.lakehouse.layout import LOCAL_CATALOG, LakeLayout
from walhouse.names import LakeTable, quote, string_literal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

MERGE_PROPERTIES = {
    "delta.enableDeletionVectors": "true",
    "delta.autoOptimize.optimizeWrite": "true",
    "delta.autoOptimize.autoCompact": "true",
    "delta.columnMapping.mode": "name",
}
"""Properties of tables that are merged into: small changes stay cheap, small files are put together."""

_PROPERTIES = {"delta.checkpointInterval": "100"}
"""Of every table. A checkpoint takes longer than a small commit, and Delta would write one every ten; to read a hundred
small commits takes no longer than to read ten."""

_LOCAL_PROPERTIES = {"delta.logRetentionDuration": "interval 7 days"}
"""Of every table in a folder. Other stores list a log's names from the last checkpoint on, a folder all of them, and
Delta would keep those of a month: with a hundred thousand a commit takes some seconds longer."""


def create_table(
    spark: SparkSession,
    layout: LakeLayout,
    table: LakeTable,
    columns: StructType,
    *,
    comment: str,
    properties: Mapping[str, str],
    cluster_by: Sequence[str] = (),
    replace: bool = False,
) -> None:
    """Create the table if it is missing. Column comments are taken from the fields' metadata key ``comment``.

    ``replace``: an empty one in the place of one that is there.
    """
    ensure_schema(spark, layout, table.schema)
    location = layout.location(table)
    if location:
        _remove_unborn(Path(location))
    create = "CREATE OR REPLACE TABLE" if replace else "CREATE TABLE IF NOT EXISTS"
    named = f"{create} {table} (\n  {_fields(columns, ' ')}\n) USING delta"
    clustered = f"CLUSTER BY ({', '.join(quote(column) for column in cluster_by)})" if cluster_by else ""
    # Delta finds the clause by an offset that such characters before it shift
    afterwards = clustered and any(character > "\uffff" for character in named)
    parts = [
        named,
        "" if afterwards else clustered,
        f"LOCATION {string_literal(location)}" if location else "",
        f"COMMENT {string_literal(comment)}",
        f"TBLPROPERTIES ({_pairs({**_PROPERTIES, **(_LOCAL_PROPERTIES if location else {}), **properties})})",
    ]
    spark.sql("\n".join(part for part in parts if part))
    if afterwards:
        spark.sql(f"ALTER TABLE {table} {clustered}")


def ensure_schema(spark: SparkSession, layout: LakeLayout, schema: str) -> None:
    """Create a schema of the lake if it is missing. Raises OtherLakeError."""
    name = f"{quote(layout.catalog)}.{quote(schema)}"
    if not _is_local(layout):
        # Unity Catalog asks for the right to create schemas before it looks whether there is one of that name
        if not spark.catalog.databaseExists(name):
            spark.sql(f"CREATE SCHEMA IF NOT EXISTS {name}")
        return
    folder = layout.schema_folder(schema)
    spark.sql(f"CREATE SCHEMA IF NOT EXISTS {name} LOCATION {string_literal(str(folder))}")
    _require_own(spark, layout, schema)


def register_tables(spark: SparkSession, layout: LakeLayout, schemas: Sequence[str] | None = None) -> None:
    """Make the tables of a local lake known to this process's catalog. Does nothing where a catalog is shared.

    ``schemas``: of these alone; what others have is registered when ``table_exists`` is asked for it, since each takes
    a tenth of a second. Raises OtherLakeError.
    """
    if not _is_local(layout):
        return
    for schema in layout.schemas:
        _require_own(spark, layout, schema)
        folder = layout.schema_folder(schema)
        if not folder.is_dir():
            continue
        ensure_schema(spark, layout, schema)
        if schemas is None or schema in schemas:
            for table in sorted(folder.iterdir()):
                table_exists(spark, layout, LakeTable(layout.catalog, schema, table.name))


def _is_local(layout: LakeLayout) -> bool:
    """True if the catalog lives in this process's memory and the lake in a folder."""
    return layout.path is not None and layout.catalog == LOCAL_CATALOG


def _require_own(spark: SparkSession, layout: LakeLayout, schema: str) -> None:
    """Two lakes in one session would take each other's tables for their own."""
    name = f"{quote(layout.catalog)}.{quote(schema)}"
    if not spark.catalog.databaseExists(name):
        return
    found = spark.catalog.getDatabase(name).locationUri
    expected = layout.schema_folder(schema)
    if Path(unquote(urlsplit(found).path)) != expected:
        raise OtherLakeError(
            f"This Spark session has the schema {schema} of another lake: its folder is {found}, not {expected}.",
            schema=schema,
            path=str(expected),
            found=found,
        )


def _has_commit(folder: Path) -> bool:
    return any((folder / "_delta_log").glob("[0-9]*.json")) or any((folder / "_delta_log").glob("[0-9]*.parquet"))


def _remove_unborn(folder: Path) -> None:
    """Remove what a creation that was killed before its first commit left: Delta takes the folder for foreign data.

    Only a writer calls this (it holds the lake's lock), and only a log without a commit in a folder without data goes.
    """
    if folder.is_dir() and not _has_commit(folder) and {entry.name for entry in folder.iterdir()} <= {"_delta_log"}:
        shutil.rmtree(folder)


def table_exists(spark: SparkSession, layout: LakeLayout, table: LakeTable) -> bool:
    """True if the lake has the table, which the catalog knows from then on."""
    if spark.catalog.tableExists(str(table)):
        return True
    if not _is_local(layout) or not _has_commit(layout.folder(table)):
        return False
    ensure_schema(spark, layout, table.schema)
    folder = string_literal(str(layout.folder(table)))
    spark.sql(f"CREATE TABLE IF NOT EXISTS {table} USING delta LOCATION {folder}")
    return True


def current_version(spark: SparkSession, layout: LakeLayout, table: LakeTable) -> int:
    """The Delta version that a read would see now."""
    location = layout.location(table)
    if location is not None:  # commits are files, and Spark takes a tenth of a second to count them
        commits = (Path(location) / "_delta_log").glob(f"{'[0-9]' * 20}.json")
        if last := max((commit.name for commit in commits), default=None):
            return int(last.removesuffix(".json"))
    row = spark.sql(f"DESCRIBE HISTORY {table} LIMIT 1").select("version").first()
    assert row is not None, f"{table} has no history"
    return int(row[0])


def is_larger(layout: LakeLayout, table: LakeTable, limit: int) -> bool:
    """Whether a table of a local lake has more bytes than that. The log is asked only if its folder has more of them:
    outdated files are there until a VACUUM, and count where the log cannot be asked."""
    if not _has_more_bytes(layout.folder(table), limit):
        return False
    local = layout.local(table)
    return local is None or not local.is_there or local.size() > limit


def _has_more_bytes(folder: Path, limit: int) -> bool:
    stored = 0
    for file in folder.rglob("*.parquet"):
        with suppress(FileNotFoundError):  # a VACUUM removes outdated ones
            stored += file.stat().st_size
        if stored > limit:
            return True
    return False


def was_restored(spark: SparkSession, table: LakeTable) -> bool:
    """Whether its history has that it was set back to an earlier version by RESTORE."""
    history = spark.sql(f"DESCRIBE HISTORY {table}")
    return not history.where(F.col("operation") == "RESTORE").isEmpty()


def stands_at(spark: SparkSession, layout: LakeLayout, table: LakeTable, known: int) -> int:
    """The version whose rows a table has, where that is one of before ``known``; else ``known``.

    A commit that the log has let go of is taken for one that adds to the version before. A RESTORE to a time says no
    version: -1.
    """
    version = current_version(spark, layout, table)
    restores = _restores(spark, layout, table, range(known + 1, version + 1)) if version > known else {}
    while version > known:
        version = restores.get(version, version - 1)
    return version


def _restores(spark: SparkSession, layout: LakeLayout, table: LakeTable, last: range) -> dict[int, int]:
    """Of the last versions, those that went back to another one, and to which."""
    location = layout.location(table)
    if location is not None:
        return {version: to for version in last if (to := _restored_to(location, version)) is not None}
    history = spark.sql(f"DESCRIBE HISTORY {table} LIMIT {len(last)}").where(F.col("operation") == "RESTORE")
    target = F.coalesce(F.try_element_at("operationParameters", F.lit("version")).try_cast("long"), F.lit(-1))
    return {row["version"]: row["target"] for row in few_rows(history.select("version", target.alias("target")))}


def _restored_to(location: str, version: int) -> int | None:
    """The version that a commit of a folder's log went back to; None: it is no RESTORE."""
    commit = Path(location) / "_delta_log" / f"{version:020}.json"
    with suppress(FileNotFoundError), commit.open(encoding="utf-8") as actions:
        for action in actions:
            if action.startswith('{"commitInfo"'):
                info = json.loads(action)["commitInfo"]
                if info.get("operation") != "RESTORE":
                    return None
                to = info.get("operationParameters", {}).get("version")
                return -1 if to is None else int(to)
    return None


def table_id(spark: SparkSession, layout: LakeLayout, table: LakeTable) -> str:
    """What tells the table from another one that had, or will have, its name."""
    location = layout.location(table)
    if location is not None:
        first = Path(location) / "_delta_log" / f"{0:020}.json"
        with suppress(FileNotFoundError):  # Delta lets go of old commits
            actions = map(json.loads, first.read_text().splitlines())
            return str(next(action["metaData"]["id"] for action in actions if "metaData" in action))
    row = spark.sql(f"DESCRIBE DETAIL {table}").select("id").first()
    assert row is not None, f"{table} has no detail"
    return str(row[0])


def at_version(spark: SparkSession, table: LakeTable, version: int) -> DataFrame:
    """The table as of a Delta version."""
    return spark.read.option("versionAsOf", version).table(str(table))


def _pairs(properties: Mapping[str, str]) -> str:
    return ", ".join(f"{string_literal(name)} = {string_literal(value)}" for name, value in properties.items())


def _fields(struct: StructType, separator: str) -> str:
    return ",\n  ".join(_field(field, separator) for field in struct.fields)


def _field(field: StructField, separator: str) -> str:
    comment = (field.metadata or {}).get("comment")
    text = f"{quote(field.name)}{separator}{sql_type(field.dataType)}"
    text += "" if field.nullable else " NOT NULL"
    return text + (f" COMMENT {string_literal(comment)}" if comment else "")


def sql_type(data_type: DataType) -> str:
    """A type as DDL, with quoted field names and their comments."""
    if isinstance(data_type, StructType):
        return f"STRUCT<{', '.join(_field(field, ': ') for field in data_type.fields)}>"
    if isinstance(data_type, ArrayType):
        return f"ARRAY<{sql_type(data_type.elementType)}>"
    if isinstance(data_type, MapType):
        return f"MAP<{sql_type(data_type.keyType)}, {sql_type(data_type.valueType)}>"
    return data_type.simpleString()
