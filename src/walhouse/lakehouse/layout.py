"""Where each table of the lake is: its catalog, schema and name, and on a local lake its folder.

Invariant: two source tables never share a lake table (``require_distinct``).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import TYPE_CHECKING
from urllib.parse import unquote

from walhouse.errors import NameCollisionError
from walhouse.names import MESSAGES, TRANSACTIONS, LakeTable, TableName, lake_identifier

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from walhouse.lakehouse.commits import LocalTable

LOCAL_CATALOG = "spark_catalog"


class Writer(StrEnum):
    """What writes bronze."""

    ARROW = "arrow"
    """The tasks that read the source, on a local lake."""
    SPARK = "spark"
    """Spark's writer, which is the only one where a catalog manages the tables."""


@dataclass(frozen=True, slots=True)
class LakeLayout:
    """Names of the lake's parts. ``path`` is the folder of a local lake, None where a catalog manages folders."""

    path: Path | None = None
    catalog: str = LOCAL_CATALOG
    bronze_schema: str = "bronze"
    silver_schema: str = "silver"
    gold_schema: str = "gold"
    ops_schema: str = "ops"
    table_name: str = "{schema}_{table}"
    writer: Writer = Writer.ARROW
    """What writes bronze, if the lake is local."""

    @property
    def writes_files(self) -> bool:
        """Whether tasks write bronze's files themselves. delta-rs takes a folder's %20 for a blank: not there."""
        return self.path is not None and self.writer is Writer.ARROW and unquote(str(self.path)) == str(self.path)

    def local(self, table: LakeTable) -> LocalTable | None:
        """The table as its folder has it, where tasks write files; None where all is Spark's."""
        if not self.writes_files:
            return None
        from walhouse.lakehouse.commits import LocalTable  # noqa: PLC0415  (what it needs is there on local lakes only)

        return LocalTable(self.folder(table))

    @property
    def schemas(self) -> tuple[str, ...]:
        """All schemas, each once."""
        return tuple(dict.fromkeys((self.bronze_schema, self.silver_schema, self.gold_schema, self.ops_schema)))

    @property
    def bronze(self) -> LakeTable:
        """The one bronze table."""
        return LakeTable(self.catalog, self.bronze_schema, "wal")

    @property
    def bronze_readable(self) -> LakeTable:
        """Bronze as people read it: a view."""
        return LakeTable(self.catalog, self.bronze_schema, "wal_readable")

    def silver(self, table: TableName) -> LakeTable:
        """The silver table of a source table; of what has no schema, and is no table, one of silver's own."""
        name = self.lake_name(table) if table.schema else f"_{table.table}"
        return LakeTable(self.catalog, self.silver_schema, name)

    @property
    def silver_messages(self) -> LakeTable:
        """The silver table of logical messages."""
        return self.silver(MESSAGES)

    @property
    def silver_transactions(self) -> LakeTable:
        """The silver table of transactions."""
        return self.silver(TRANSACTIONS)

    def gold(self, table: TableName) -> LakeTable:
        """The gold table of a source table."""
        return LakeTable(self.catalog, self.gold_schema, self.lake_name(table))

    def ops(self, name: str) -> LakeTable:
        """One of walhouse's own tables: epochs, proofs."""
        return LakeTable(self.catalog, self.ops_schema, name)

    def lake_name(self, table: TableName) -> str:
        """The lake's name for a source table, by the template."""
        digest = sha256(table.quoted.encode()).hexdigest()[:8]
        return lake_identifier(self.table_name.format(schema=table.schema, table=table.table, digest=digest))

    def location(self, table: LakeTable) -> str | None:
        """The folder of a table on a local lake."""
        return None if self.path is None else str(self.folder(table))

    def folder(self, table: LakeTable) -> Path:
        """The same; the lake must be local."""
        return self.schema_folder(table.schema) / table.table

    @property
    def has_bronze(self) -> bool:
        """Whether a local lake has a bronze table; of one that a catalog keeps it takes a session to tell."""
        return self.path is not None and (self.folder(self.bronze) / "_delta_log").is_dir()

    def schema_folder(self, schema: str) -> Path:
        """The folder of a schema on a local lake; there must be one."""
        assert self.path is not None
        return self.path / schema

    def require_distinct(self, tables: Iterable[TableName]) -> None:
        """Raise NameCollisionError if two source tables would become one lake table."""
        owners: dict[str, TableName] = {}
        for table in tables:
            name = self.lake_name(table)
            if owners.setdefault(name, table) != table:
                raise NameCollisionError(
                    f"The tables {owners[name]} and {table} would both become {name} in the lake.",
                    todo="Set lake.table_name so that they differ, as with {digest} in it, or exclude one of them.",
                    tables=(str(owners[name]), str(table)),
                    name=name,
                )
