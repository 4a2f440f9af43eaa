"""One layer's epochs: which tables they have, and how they are applied.

Invariant: nothing here is written down, or applied that was not (``changes.layers`` does that); applying is idempotent,
whole or in part.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from walhouse.changes.epoch import AppliedTable, AppliedTo, EpochRange, TableEpoch
from walhouse.changes.epochs import LastEpoch, Layer, PlannedEpoch
from walhouse.changes.failures import base_gone, raise_first, table_gone, table_restored, table_unknown
from walhouse.changes.ledger_end import LedgerEnd, has_more
from walhouse.changes.placed import placed
from walhouse.changes.resolve import bronze_range, resolve
from walhouse.changes.touched import APART, BronzeSurvey, Touched
from walhouse.errors import BagMismatchError, RequestRefusedError
from walhouse.lakehouse.conditions import is_of_what_is_gone
from walhouse.lakehouse.tables import at_version, current_version, stands_at, table_exists
from walhouse.lsn import Lsn
from walhouse.names import LakeTable, TableName
from walhouse.pgoutput.row import Op

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from walhouse.changes.epochs import Cut
    from walhouse.changes.relations import RelationCatalog
    from walhouse.changes.sessions import Sessions
    from walhouse.lakehouse.layout import LakeLayout
    from walhouse.pgoutput.relation import RelationDescription

Report = Callable[[Layer, TableName, AppliedTable], None]
"""Told of each table as it is done."""

Apply = Callable[["SparkSession", "LakeLayout", TableEpoch], AppliedTable]
"""Applies one table's part of an epoch."""

IsLacking = Callable[[int, TableName], bool]
"""Whether, by what a pass of capture knew, a table is to be read that bronze does not have all rows of."""

HasApplied = Callable[[Layer, TableName], bool]
"""Whether a finished epoch of a layer changed a table."""

LastCut = Callable[[Layer], "Cut | None"]
"""Which version each table of a layer has by its last finished epoch."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Work:
    """An epoch of a layer that is to be applied. ``fresh``: nothing of it can have been applied before."""

    planned: PlannedEpoch
    touched: Sequence[Touched]
    fresh: bool

    @property
    def rows(self) -> int:
        """How many of bronze's rows that is."""
        return sum(each.facts.rows for each in self.touched)


@dataclass(frozen=True, slots=True)
class LayerTarget:
    """What makes a layer: where its tables are and how an epoch is applied to one of them."""

    layer: Layer
    name_of: Callable[[TableName], LakeTable]
    apply: Apply
    apply_apart: Mapping[TableName, Apply] = field(default_factory=dict)
    """For what belongs to no table and this layer keeps."""
    reads_base: bool = False
    """True if applying looks at the table as it was before the epoch."""
    keeps_events: bool = False
    """True if what is applied is only added: with ``commit_lsn``, and twice if it is applied twice for new."""


class LayerRun:
    """What bronze has and a layer lacks. Remembers how far the layer is, so it is for one writer alone."""

    def __init__(
        self,
        spark: SparkSession,
        layout: LakeLayout,
        target: LayerTarget,
        last: LastEpoch | None,
        *,
        relations: RelationCatalog,
        survey: BronzeSurvey,
        sessions: Sessions,
        threads: int,
        is_lacking: IsLacking,
        has_applied: HasApplied,
        last_cut: LastCut,
    ) -> None:
        self._spark = spark
        self._sessions = sessions
        self._layout = layout
        self._target = target
        self._relations = relations
        self._survey = survey
        self._threads = threads
        self._is_lacking = is_lacking
        self._has_applied = has_applied
        self._last_cut = last_cut
        self._last = last
        self._was_asked = False
        self._ready: dict[TableName, RelationDescription] = {}
        """What each table was last applied with here."""

    @property
    def layer(self) -> Layer:
        """Which one."""
        return self._target.layer

    @property
    def applied_to(self) -> AppliedTo:
        """How far the layer is."""
        if self._last is None:
            return AppliedTo(0, Lsn(0))
        epoch = self._last.planned.range
        return AppliedTo(epoch.to_pass, epoch.to_lsn) if self._last.done else AppliedTo(epoch.after_pass, Lsn(0))

    def begun(self) -> Work | None:
        """The epoch that was written down and may have been applied in part: the process died in between."""
        if self._last is None or self._last.done:
            return None
        planned = self._last.planned
        return Work(planned, self._touched(planned.range, planned.anew), fresh=False)

    def next(self, to_pass: int, to_lsn: Lsn) -> Work | None:
        """The epoch up to a capture pass, not written down yet; None if the layer is that far. Raises LakeError if the
        ledger is older than the layer's tables.
        """
        after = self.applied_to.to_pass
        if after >= to_pass:
            return None
        number = 1 if self._last is None else self._last.planned.range.number + 1
        epoch = EpochRange(number, after, to_pass, to_lsn)
        touched = self._touched(epoch)
        tables = [each.table for each in touched]
        fresh = self._is_fresh(tables)
        with ThreadPoolExecutor(self._threads) as pool:
            bases = dict(zip(tables, pool.map(self._base, tables, map(self._left.get, tables)), strict=True))
        return Work(PlannedEpoch(epoch, bases), touched, fresh=fresh)

    def anew(self, tables: Collection[TableName]) -> Work:
        """An epoch that makes tables anew from all that bronze has of them, up to where the layer is; an epoch that was
        begun is ended with it. Raises RequestRefusedError if a table is not in bronze.
        """
        if self._last is None:
            raise _unknown(tables, self.layer)
        last, done = self._last
        begun = PlannedEpoch(last.range._replace(after_pass=last.range.to_pass), {}) if done else last
        planned = PlannedEpoch(
            begun.range._replace(number=last.range.number + 1),
            {**begun.bases, **dict.fromkeys(tables)},
            begun.anew.union(tables),
        )
        touched = self._touched(planned.range, planned.anew)
        if unknown := set(tables) - {each.table for each in touched}:
            raise _unknown(unknown, self.layer)
        return Work(planned, touched, fresh=False)

    def written_down(self, work: Work, *, done: bool) -> None:
        """The ledger has it: as planned, or as done."""
        self._last = LastEpoch(work.planned, done)

    def apply(self, work: Work, report: Report) -> dict[TableName, AppliedTable]:
        """Apply an epoch that is written down; the version that each of its tables has then.

        Raises what applying raises, once every table is done that can be; if more than one fails, the failures of the
        others are logged.
        """
        self._relations.refresh(work.planned.range.to_pass)
        left = self._left

        def apply(each: Touched) -> AppliedTable:
            done = self._apply_table(work, each)
            left[each.table] = done.version
            report(self.layer, each.table, done)
            return done

        with ThreadPoolExecutor(self._threads) as pool:
            futures = {each.table: pool.submit(apply, each) for each in work.touched}
        failed = ((table, error) for table, future in futures.items() if (error := future.exception()))
        raise_first({f"{self.layer.value} of {table}": error for table, error in failed})
        return {table: future.result() for table, future in futures.items()}

    def _touched(self, epoch: EpochRange, anew: frozenset[TableName] = frozenset()) -> list[Touched]:
        """The epoch's tables, those made anew with all of theirs; what belongs to none if this layer keeps it."""
        found = [each for each in self._survey.touched(epoch) if each.table not in anew]
        if anew:
            found += [each for each in self._survey.touched(_from_the_first(epoch)) if each.table in anew]
        return [each for each in found if each.table not in APART or each.table in self._target.apply_apart]

    def _base(self, table: TableName, left: int | None) -> int | None:
        """The version of now: the one that an epoch has left may be gone, after an OPTIMIZE and a VACUUM. But that one
        if the table was restored to one of before it: it is what the epoch goes on from, once the table is set right.
        """
        if not self._target.reads_base:
            return None
        name = self._target.name_of(table)
        if not table_exists(self._spark, self._layout, name):
            return None
        return left if self._is_restored(name, left) else current_version(self._spark, self._layout, name)

    def _changes(self, bronze: DataFrame, epoch: EpochRange, touched: Touched) -> DataFrame:
        """The epoch's changes of a table, rows of chunks where they belong: for these, changes of before count, too."""
        changes = resolve(bronze, touched.table)
        if touched.facts.chunks is None:
            return changes
        earlier = bronze.sparkSession.table(str(self._layout.bronze)).where(F.col("pass") <= epoch.after_pass)
        current = self._relations.describe(touched.versions)[-1]
        others = [known for known in self._relations.by_table()[touched.table] if known != current]
        return placed(changes, resolve(earlier, touched.table), (*others, current), touched.facts.chunks)

    def _apply_table(self, work: Work, touched: Touched) -> AppliedTable:
        planned = work.planned
        anew = touched.table in planned.anew
        epoch = _from_the_first(planned.range) if anew else planned.range
        spark = self._session(work, touched)
        bronze = bronze_range(spark, self._layout, epoch)
        base = planned.bases[touched.table]
        is_there = table_exists(self._spark, self._layout, self._target.name_of(touched.table))
        if not anew:
            self._require_ours(planned, touched.table, is_there=is_there)
        if touched.table in APART:
            rows = bronze.where(F.col("kind") == APART[touched.table].value)
            part = TableEpoch(epoch, touched.table, rows, (), base, fresh=work.fresh, known_facts=touched.facts)
            return self._target.apply_apart[touched.table](spark, self._layout, part)
        relations = self._relations.describe(touched.versions)
        changes = self._changes(bronze, epoch, touched)
        ready = self._ready.get(touched.table) == relations[-1]
        # what replaces a table is all there is: nothing of it can have been applied; but a table that is there before a
        # ledger's first epoch may have all of it, by a ledger that is gone
        has_unknown_rows = is_there and epoch.after_pass == 0
        table_epoch = TableEpoch(
            epoch,
            touched.table,
            changes,
            relations,
            base,
            fresh=anew or (work.fresh and not has_unknown_rows),
            known_facts=touched.facts,
            anew=anew,
            ready=ready,
            is_replaced=anew and self._is_read_whole_after(epoch.to_pass, touched.table),
        )
        try:
            applied = self._applied(spark, table_epoch)
        except BagMismatchError as mismatch:
            if anew or not self._has_lost_a_column(relations[-1]):
                raise
            log.warning("%s It has lost a column meanwhile, and is made anew from bronze.", mismatch.problem)
            whole = replace(work, planned=replace(planned, anew=planned.anew | {touched.table}))
            return self._apply_table(whole, self._all_of(touched.table, planned.range))
        self._ready[touched.table] = relations[-1]
        return applied

    def _require_ours(self, planned: PlannedEpoch, table: TableName, *, is_there: bool) -> None:
        """A table that no epoch has made has rows already, one that is gone lacks those of before."""
        name, is_first = self._target.name_of(table), planned.range.after_pass == 0
        safe = "Nothing of it was changed; bronze holds every change."
        if is_first and planned.bases[table] is not None:
            raise table_unknown(self.layer, table, name, safe=safe)
        if not is_first and not is_there and self._has_applied(self.layer, table):
            raise table_gone(self.layer, table, name, safe=safe)
        if is_there and self._is_restored(name, self._left.get(table)):
            raise table_restored(self.layer, table, name, safe=safe)

    def _is_restored(self, name: LakeTable, left: int | None) -> bool:
        """Whether a table was set back to a version of before the one that its last epoch left."""
        return left is not None and stands_at(self._spark, self._layout, name, left) < left

    @cached_property
    def _left(self) -> dict[TableName, int]:
        """The version that its last epoch left of each table."""
        cut = self._last_cut(self.layer)
        return {} if cut is None else dict(cut.versions)

    def _is_fresh(self, tables: Collection[TableName]) -> bool:
        """Whether nothing of these tables' next epoch can have been applied; of messages, which may come again, only
        the tables say that. Asked once: nobody sets a ledger back under a writer's hands. Raises LakeError.
        """
        if self._was_asked or self._last is None or not self._target.keeps_events:
            return True
        names = {table: self._target.name_of(table) for table in tables}
        ends = LedgerEnd(self.layer, self._last.planned.range.to_lsn, partial(self._last_cut, self.layer))
        may_come_again = has_more(self._spark, self._layout, names, ends)
        self._was_asked = True
        return not may_come_again

    def _has_lost_a_column(self, current: RelationDescription) -> bool:
        """Changes of a table without a key then say nothing of what its rows had in that column."""
        known = self._relations.by_table()[current.name]
        return any(not set(current.column_names).issuperset(each.column_names) for each in known)

    def _all_of(self, table: TableName, epoch: EpochRange) -> Touched:
        return next(each for each in self._survey.touched(_from_the_first(epoch)) if each.table == table)

    def _session(self, work: Work, touched: Touched) -> SparkSession:
        if touched.table in work.planned.anew:  # all of bronze is read
            return self._spark
        target = self._target.name_of(touched.table) if self._target.reads_base else None
        return self._sessions.of_epoch(touched, work.rows, target)

    def _applied(self, spark: SparkSession, epoch: TableEpoch) -> AppliedTable:
        """Applied; of a table that is still to be read, without the rows that it lacks: the reading replaces it all."""
        try:
            return self._target.apply(spark, self._layout, epoch)
        except (PySparkException, Py4JJavaError) as error:
            if is_of_what_is_gone(error) and self._is_base_gone(spark, epoch):
                raise base_gone(self.layer, epoch.table) from error
            raise
        except BagMismatchError as mismatch:
            if epoch.is_replaced or not self._is_lacking(epoch.epoch.to_pass, epoch.table):
                raise
            log.warning("%s It is still to be read, and not the source before that.", mismatch.problem)
            return self._target.apply(spark, self._layout, replace(epoch, is_replaced=True))

    def _is_base_gone(self, spark: SparkSession, epoch: TableEpoch) -> bool:
        """Whether it is the base that cannot be read: bronze has files, too."""
        if epoch.base_version is None:
            return False
        try:
            base = at_version(spark, self._target.name_of(epoch.table), epoch.base_version)
            base.write.format("noop").mode("overwrite").save()
        except (PySparkException, Py4JJavaError) as error:
            return is_of_what_is_gone(error)
        return False

    def _is_read_whole_after(self, to_pass: int, table: TableName) -> bool:
        """Whether a later epoch has a reading that replaces all of the table."""
        later = self._spark.table(str(self._layout.bronze)).where(F.col("pass") > to_pass)
        return not resolve(later, table).where(F.col("op") == Op.BASE.value).isEmpty()


def _from_the_first(epoch: EpochRange) -> EpochRange:
    return epoch._replace(after_pass=0)


def _unknown(tables: Collection[TableName], layer: Layer) -> RequestRefusedError:
    names = ", ".join(sorted(map(str, tables)))
    return RequestRefusedError(
        f"Nothing of {names} was applied to {layer.value} so far.",
        safe="No table was changed.",
        todo="See the names in `walhouse status`.",
        table=names,
    )
