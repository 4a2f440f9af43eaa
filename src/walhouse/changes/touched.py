"""Which tables have rows in a range of bronze, and what these rows contain: one query for a whole epoch, and another
one if a table is emptied in it or altered.

Invariant: a table is touched if bronze has any row of it in the range, a description included, so that a new column
reaches a layer even before any change has it.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from operator import or_
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from walhouse.changes.facts import (
    EMPTIES,
    KINDS_OF_CHANGE,
    Facts,
    empties,
    fact_columns,
    last_place,
    place_of,
    read_facts,
)
from walhouse.changes.resolve import bronze_range
from walhouse.lakehouse.answers import few_rows
from walhouse.lakehouse.expressions import joined
from walhouse.names import MESSAGES, TRANSACTIONS, TableName
from walhouse.pgoutput.row import Kind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from walhouse.changes.epoch import EpochRange
    from walhouse.changes.facts import Place
    from walhouse.lakehouse.layout import LakeLayout

APART: Final = {MESSAGES: Kind.MESSAGE, TRANSACTIONS: Kind.TRANSACTION}
"""What belongs to no table: the name under which it is kept, and its kind in bronze."""

_VERSION: Final = ("schema_name", "table_name", "relation_version")

_NAME_OF: Final = {kind.value: name for name, kind in APART.items()}


@dataclass(frozen=True, slots=True)
class Touched:
    """A table with rows in an epoch: its relation versions, the current one last, and what the changes contain."""

    table: TableName
    versions: tuple[int, ...]
    facts: Facts


class BronzeSurvey:
    """The tables of an epoch. Silver and gold mostly ask for the same passes, at the same time: one of them looks."""

    def __init__(self, spark: SparkSession, layout: LakeLayout) -> None:
        self._spark = spark
        self._layout = layout
        self._looking = threading.Lock()
        self._last: tuple[tuple[int, int], list[Touched]] | None = None

    def touched(self, epoch: EpochRange) -> list[Touched]:
        """All tables of the epoch, those of APART among them, by name. Bronze only grows, so a range never changes."""
        passes = (epoch.after_pass, epoch.to_pass)
        with self._looking:
            if self._last is None or self._last[0] != passes:
                self._last = passes, touched_in(bronze_range(self._spark, self._layout, epoch))
            return self._last[1]


def touched_in(bronze: DataFrame) -> list[Touched]:
    """All tables that these rows of bronze are of, those of APART among them, by name."""
    rows = bronze.where(F.col("kind") != Kind.PROGRESS.value)
    found: dict[TableName, _Found] = {}
    for row in few_rows(rows.groupBy("kind", *_VERSION, *KINDS_OF_CHANGE).agg(*fact_columns())):
        table = _NAME_OF.get(row["kind"]) or TableName(row["schema_name"], row["table_name"])
        mine = found.setdefault(table, _Found())
        if table not in APART:
            mine.versions.add(int(row["relation_version"]))
        mine.is_emptied |= row["op"] in EMPTIES
        if row["kind"] != Kind.RELATION:
            mine.facts |= read_facts(row)
    _find_places(rows, {table: mine for table, mine in found.items() if mine.is_emptied or len(mine.versions) > 1})
    return [Touched(table, found[table].in_order(), facts) for table, facts in _with_edges(found)]


def _find_places(rows: DataFrame, tables: Mapping[TableName, _Found]) -> None:
    """Where these tables' versions end, and where they were emptied last: rare, and so looked for apart."""
    if not tables:
        return
    several = [each for each, mine in tables.items() if len(mine.versions) > 1]
    is_wanted = empties() | _is_of(several) if several else empties()
    grouped = rows.where(is_wanted).groupBy(*_VERSION, empties().alias("empties"))
    for row in few_rows(grouped.agg(last_place().alias("last"))):
        mine, place = tables[TableName(row["schema_name"], row["table_name"])], place_of(row["last"])
        mine.see(int(row["relation_version"]), place)
        if row["empties"]:
            mine.facts |= Facts(truncated_at=place)


def _is_of(tables: Sequence[TableName]) -> Column:
    """True for a row of one of these tables."""
    named = ((F.col("schema_name") == table.schema) & (F.col("table_name") == table.table) for table in tables)
    return joined(or_, list(named))


def _with_edges(found: Mapping[TableName, _Found]) -> list[tuple[TableName, Facts]]:
    """The tables in their order; of those in a snapshot the first, and the last with rows, know that they are.

    Chunks are numbered over all tables, so ``seq`` tells which table was read before which.
    """
    facts = {table: found[table].facts for table in sorted(found)}
    ends = {table: each.snapshot_seqs[1] for table, each in facts.items() if each.snapshot_seqs is not None}
    if not ends:
        return list(facts.items())
    rows = {table: each.snapshot_seqs[0] for table, each in facts.items() if each.snapshot_seqs is not None}
    begins = rows | {table: each.base_seq for table, each in facts.items() if each.base_seq is not None}
    first, last = min(begins, key=begins.__getitem__), max(ends, key=ends.__getitem__)
    return [
        (table, replace(each, begins_snapshot=table == first, ends_snapshot=table == last))
        for table, each in facts.items()
    ]


@dataclass(slots=True)
class _Found:
    """What is known of one table while the rows come in."""

    versions: set[int] = field(default_factory=set)
    is_emptied: bool = False
    last: dict[int, Place] = field(default_factory=dict)
    """Where each version ends; of a table with several alone."""
    facts: Facts = field(default_factory=Facts)

    def see(self, version: int, place: Place) -> None:
        self.last[version] = max(self.last.get(version, place), place)

    def in_order(self) -> tuple[int, ...]:
        """The versions, the current one last."""
        if len(self.versions) < 2:
            return tuple(self.versions)
        return tuple(sorted(self.versions, key=self.last.__getitem__))
