"""What each way of reading the source into bronze has at hand: stream, whole tables, chunks.

Invariant: a relation version is described in bronze by the pass that first has rows of it, and again only if what is
told of its primary key has become another, or if its table had another one meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from walhouse.postgres.catalog import read_relations

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession

    from walhouse.bronze.settings import CaptureSettings
    from walhouse.changes.relations import RelationCatalog
    from walhouse.lakehouse.layout import LakeLayout
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
        """The published and selected tables as the server has them now, by OID. One that bronze describes, and that is
        locked exclusively, keeps nobody waiting. Other facts than bronze knows are a version of their own."""
        settings, known = self._settings, self._relations.current()
        return self._relations.as_known(
            read_relations(self._conn, settings.publication, settings.selection, known=known)
        )

    def _announced(self, relations: Iterable[RelationDescription]) -> tuple[RelationDescription, ...]:
        """Those that bronze does not describe yet, or with another primary key: under a replica identity that does not
        follow it, the server sends the same description for both."""
        return tuple({each.version: each for each in relations if not self._relations.describes(each)}.values())
