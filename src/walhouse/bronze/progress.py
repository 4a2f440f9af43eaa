"""How far bronze is complete, as bronze itself says.

Invariant: progress is written in the same Delta commit as the rows it speaks of, and is the only position that
capture resumes from.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from pyspark.sql import functions as F  # noqa: N812  (the name everybody knows it by)

from walhouse.bronze.snapshots.queue import NOTHING_QUEUED, SnapshotQueue
from walhouse.errors import LakeVersionError
from walhouse.lsn import Lsn
from walhouse.pgoutput.row import Kind
from walhouse.pgoutput.transactions import NOTHING_YET, LastCommit
from walhouse.postgres.identity import SourceIdentity

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from walhouse.lakehouse.layout import LakeLayout


@dataclass(frozen=True, slots=True)
class SignalPosition:
    """Up to where signals were read: bronze's pass, for the source's table, and the version of ``ops.signals``."""

    of_pass: int = 0
    of_version: int = -1

    def at_pass(self, of_pass: int) -> Self:
        """Further in bronze."""
        return replace(self, of_pass=of_pass)

    def at_version(self, of_version: int) -> Self:
        """Further in the lake's table."""
        return replace(self, of_version=of_version)


NO_SIGNALS: Final = SignalPosition()


@dataclass(frozen=True, slots=True)
class Progress:
    """One progress row."""

    pass_number: int
    captured_to: Lsn
    source: SourceIdentity
    slot: str
    publication: str
    """Fingerprint of the publication: which OIDs it and its entries have."""
    messages: tuple[int, ...] = ()
    """LSNs of lone messages that are in bronze although they lie at or past ``captured_to``."""
    counts: tuple[tuple[str, int], ...] = ()
    """What the pass read: transactions, changes, bytes ..."""
    last: LastCommit = NOTHING_YET
    """What the stream said last before ``captured_to``: the next pass begins with it."""
    queue: SnapshotQueue = NOTHING_QUEUED
    """The tables that are still to be read by chunks."""
    signals: SignalPosition = NO_SIGNALS
    """Which signals the queue knows of."""
    is_open: bool = False
    """Whether rows of chunks have positions that the stream may not have reached: layers wait until it has."""

    def to_json(self) -> str:
        """The text that bronze keeps."""
        own = {"counts": dict(self.counts), "queue": self.queue.to_dict()}
        return json.dumps({**asdict(self), **own}, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what ``to_json`` wrote. Raises LakeVersionError if a walhouse of another version wrote it."""
        raw: dict[str, Any] = json.loads(text)
        try:
            return cls(
                pass_number=raw["pass_number"],
                captured_to=Lsn(raw["captured_to"]),
                source=SourceIdentity(**raw["source"]),
                slot=raw["slot"],
                publication=raw["publication"],
                messages=tuple(raw["messages"]),
                counts=tuple(raw["counts"].items()),
                last=LastCommit(**raw["last"]),
                queue=SnapshotQueue.from_dict(raw["queue"]),
                signals=SignalPosition(**raw["signals"]),
                is_open=raw["is_open"],
            )
        except (KeyError, TypeError) as error:
            raise LakeVersionError(
                "The lake was begun by another version of walhouse: its last progress row lacks what this version goes"
                f" on from ({error}).",
                found=sorted(raw),
            ) from error

    def next(self, captured_to: Lsn, publication: str) -> Progress:
        """The progress that the following pass will write if it reads up to ``captured_to``."""
        return replace(
            self,
            pass_number=self.pass_number + 1,
            captured_to=captured_to,
            publication=publication,
            messages=(),
            counts=(),
        )


class Position(NamedTuple):
    """Where bronze stands, without the details."""

    pass_number: int
    captured_to: Lsn


def read_position(spark: SparkSession, layout: LakeLayout) -> Position | None:
    """The highest pass and LSN. Unfiltered maxima of columns with statistics: answered from Delta's log."""
    row = spark.table(str(layout.bronze)).select(F.max("pass"), F.max("captured_to")).first()
    if row is None or row[0] is None:
        return None
    return Position(int(row[0]), Lsn(row[1]))


def read_whole_position(spark: SparkSession, layout: LakeLayout) -> Position | None:
    """The last position up to which everything is there that layers need: no row of a chunk is ahead of the stream."""
    position = read_position(spark, layout)
    number = 0 if position is None else position.pass_number
    # mostly the last one; a crash leaves a few open ones
    while number > 0:
        progress = read_pass(spark, layout, number)
        if progress is not None and not progress.is_open:
            return Position(number, progress.captured_to)
        number -= 1
    return None


def reached(spark: SparkSession, layout: LakeLayout, progress: Progress) -> Lsn:
    """The LSN before which all of bronze was written: the stream's, or further if chunks are ahead of it."""
    if not progress.is_open:
        return progress.captured_to
    whole = read_whole_position(spark, layout)
    ahead = spark.table(str(layout.bronze)).where(F.col("pass") > (0 if whole is None else whole.pass_number))
    last = ahead.agg(F.max("commit_lsn")).first()
    return progress.captured_to if last is None or last[0] is None else max(progress.captured_to, Lsn(last[0]))


def read_progress(spark: SparkSession, layout: LakeLayout) -> Progress | None:
    """The last progress row, or None if nothing was ever captured."""
    position = read_position(spark, layout)
    return None if position is None else read_pass(spark, layout, position.pass_number)


def read_pass(spark: SparkSession, layout: LakeLayout, pass_number: int) -> Progress | None:
    """The progress row of one pass, or None if bronze does not have the pass."""
    rows = spark.table(str(layout.bronze)).where(
        (F.col("pass") == pass_number) & (F.col("kind") == Kind.PROGRESS.value)
    )
    row = rows.select("progress").first()
    return None if row is None else Progress.from_json(row[0])
