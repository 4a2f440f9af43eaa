"""What one layer computes at once: the resolved changes of one table in a range of capture passes.

Invariant: an epoch covers whole passes, so it ends at a commit boundary, the same for all tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from walhouse.changes.facts import Facts, facts_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from walhouse.lsn import Lsn
    from walhouse.names import TableName
    from walhouse.pgoutput.relation import RelationDescription


class EpochRange(NamedTuple):
    """An epoch: its number, the passes ``(after_pass, to_pass]``, and the LSN before which all commits are in it."""

    number: int
    after_pass: int
    to_pass: int
    to_lsn: Lsn


class AppliedTo(NamedTuple):
    """How far a layer is: the last capture pass that it has applied, and the LSN before which all commits are in it."""

    to_pass: int
    to_lsn: Lsn


@dataclass(frozen=True, slots=True)
class TableEpoch:
    """One table's part of an epoch.

    ``changes``: one row a change or snapshot row, in no order (the order is commit_lsn, seq), with bronze's columns
    op, commit_lsn, seq, lsn, xid, commit_ts, captured_at, relation_version, before_kind, before, after, unchanged,
    origin, snapshot; and ``superseded`` (BOOLEAN, never NULL): a snapshot row that is older than a change of its key
    and has that change's commit LSN; silver emits no event for it, gold takes it as the base of that change.

    ``relations``: the table's versions that are needed to read ``changes``, the current one last. ``base_version``:
    the target's Delta version before the epoch, None if the target did not exist or the layer does not look at it.
    """

    epoch: EpochRange
    table: TableName
    changes: DataFrame
    relations: tuple[RelationDescription, ...]
    base_version: int | None
    fresh: bool = False
    """True if nothing of the epoch can have been applied before: it was written down just now."""
    known_facts: Facts | None = None
    anew: bool = False
    """True if the target is to be replaced: ``changes`` are all that bronze has of the table."""
    ready: bool = False
    """True if this very writer has applied an epoch with the current relation to the target: it is as that needs it."""
    is_replaced: bool = False
    """True if a later epoch has, or is to have, a reading of the whole table that replaces what this one leaves."""

    @property
    def facts(self) -> Facts:
        """What ``changes`` contain; computed if it is not known."""
        return facts_of(self.changes) if self.known_facts is None else self.known_facts

    @property
    def relation(self) -> RelationDescription:
        """The table's current description."""
        return self.relations[-1]


class AppliedTable(NamedTuple):
    """What applying an epoch to one table did: the target's Delta version after it, and counts for people."""

    version: int
    counts: dict[str, int]
