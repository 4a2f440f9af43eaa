"""The relation versions that bronze knows.

Invariant: what silver and gold know of a table comes from bronze's relation rows alone, never from the source of now.
"""

from __future__ import annotations

from dataclasses import replace
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from walhouse.errors import LakeError
from walhouse.lakehouse.answers import few_rows
from walhouse.pgoutput.relation import RelationDescription, retold
from walhouse.pgoutput.row import Kind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import SparkSession

    from walhouse.lakehouse.layout import LakeLayout
    from walhouse.names import TableName


class RelationCatalog:
    """Relation descriptions by version, read from bronze once and again only when new passes have come."""

    def __init__(self, spark: SparkSession, layout: LakeLayout) -> None:
        self._spark = spark
        self._layout = layout
        self._known: dict[int, RelationDescription] = {}
        """In the order in which they were last described."""
        self._last: dict[TableName, int] = {}
        self._read_to = -1

    def forget_passes_from(self, number: int) -> None:
        """Their relation rows are to be read again: one of them came later than those after it."""
        self._read_to = min(self._read_to, number - 1)

    def refresh(self, to_pass: int, *, last_has_none: bool = False) -> None:
        """Read the relation rows of passes not read so far. ``last_has_none``: the last is known to have none."""
        if last_has_none and to_pass == self._read_to + 1:
            self._read_to = to_pass
        if to_pass <= self._read_to:
            return
        rows = sorted(self._rows(self._read_to + 1, to_pass), key=itemgetter("pass"))
        known = dict(self._known)  # a new one: another thread may be going through that of before
        for row in rows:
            version = int(row["relation_version"])
            known.pop(version, None)
            known[version] = RelationDescription.from_json(row["relation"])
        self._known = known
        self._last = {relation.name: version for version, relation in self._known.items()}
        self._read_to = to_pass

    def _rows(self, first_pass: int, last_pass: int) -> list[dict[str, Any]]:
        columns, bronze = ["pass", "relation_version", "relation"], self._layout.bronze
        local = self._layout.local(bronze)
        if local is not None:
            within = {"pass": (first_pass, last_pass), "kind": (Kind.RELATION.value, Kind.RELATION.value)}
            rows = local.find_rows(columns, within, present="kind")
            if rows is not None:
                return rows
        is_wanted = (F.col("kind") == Kind.RELATION.value) & F.col("pass").between(first_pass, last_pass)
        return few_rows(self._spark.table(str(bronze)).where(is_wanted).select(*columns))

    @property
    def versions(self) -> frozenset[int]:
        """All versions that bronze describes."""
        return frozenset(self._known)

    def as_known(self, catalog: Mapping[int, RelationDescription]) -> dict[int, RelationDescription]:
        """The catalog's descriptions under the versions that bronze has, or is to have, for just these facts."""
        versions: dict[int, list[RelationDescription]] = {}
        for known in self._known.values():
            versions.setdefault(known.of_message, []).append(known)
        return {oid: _as_known(relation, versions.get(relation.version, ())) for oid, relation in catalog.items()}

    def describes(self, relation: RelationDescription) -> bool:
        """Whether bronze has this version as its table's last, with this primary key, and knows whether that is
        deferrable, and sent."""
        known, deferrable = self._known.get(relation.version), relation.key_is_deferrable
        if known is None or relation.primary_key not in (known.primary_key, None):
            return False
        if self._last[known.name] != relation.version:  # the table is again what it was before
            return False
        if relation.identity_is_whole is False and known.identity_is_whole is not False:
            return False
        return deferrable is None or deferrable == bool(known.key_is_deferrable)

    def current(self) -> tuple[RelationDescription, ...]:
        """The last version of each table that bronze came to know."""
        return tuple(versions[-1] for versions in self.by_table().values())

    def by_table(self) -> dict[TableName, tuple[RelationDescription, ...]]:
        """All versions of each table, in the order in which bronze came to know them."""
        tables: dict[TableName, list[RelationDescription]] = {}
        for relation in self._known.values():
            tables.setdefault(relation.name, []).append(relation)
        return {name: tuple(versions) for name, versions in tables.items()}

    def describe(self, versions: Sequence[int]) -> tuple[RelationDescription, ...]:
        """The descriptions of these versions, in the order given."""
        missing = [version for version in versions if version not in self._known]
        if missing:
            raise LakeError(
                f"Bronze has changes of {len(missing)} relation version(s) that it does not describe: {missing}.",
                todo="Restore bronze to a version before rows were removed from it.",
            )
        return tuple(self._known[version] for version in versions)


def _as_known(relation: RelationDescription, known: Sequence[RelationDescription]) -> RelationDescription:
    """``known``: those of its message."""
    same = next((each for each in known if each.said == relation.said), None)
    if same is not None:
        return replace(relation, version=same.version, message_version=same.message_version)
    return retold(relation) if known else relation
