"""What each way of reading the source into bronze has at hand: stream, whole tables, chunks.

Invariant: a relation version is described in bronze by the pass that first has rows of it, and again only if its
primary key has become another.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from walhouse.bronze.snapshots.queue import is_own
from walhouse.postgres.catalog import read_relations

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession

    from walhouse.bronze.progress import Progress
    from walhouse.bronze.settings import CaptureSettings
    from walhouse.changes.relations import RelationCatalog
    from walhouse.lakehouse.layout import LakeLayout
    from walhouse.names import TableName
    from walhouse.pgoutput.relation import RelationDescription
    from walhouse.postgres.connection import Connection


@dataclass(frozen=True, slots=True)
class BronzeReader:
    """Reads from one source into one lake. ``_on_standby``: what the server was when reading began."""

    _spark: SparkSession
    _layout: LakeLayout
    _settings: CaptureSettings
    _relations: RelationCatalog
    _conn: Connection
    _on_standby: bool

    def _catalog(self) -> dict[int, RelationDescription]:
        """The published and selected tables as the server has them now, by OID."""
        return read_relations(self._conn, self._settings.publication, self._settings.selection)

    def still_lacking(self, progress: Progress, request: str, table: TableName) -> Progress:
        """The progress after a table could not be read: if nobody asked for it, bronze still lacks rows of it."""
        if not is_own(request) or progress.coverage is None:
            return progress
        oids = (relation.oid for relation in self._relations.current() if relation.name == table)
        return replace(progress, coverage=progress.coverage.with_lacking(oids))

    def _announced(self, relations: Iterable[RelationDescription]) -> tuple[RelationDescription, ...]:
        """Those that bronze does not describe yet, or with another primary key: under a replica identity that does not
        follow it, the server sends the same description for both."""
        return tuple({each.version: each for each in relations if not self._relations.describes(each)}.values())
