"""How far bronze is complete, as bronze itself says.

Invariant: progress is written in the same Delta commit as the rows it speaks of, and is the only position that
capture resumes from.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from pyspark.sql import functions as F

from walhouse.bronze.coverage import Coverage
from walhouse.bronze.requests.notifications import Notification
from walhouse.bronze.snapshots.queue import NOTHING_QUEUED, SnapshotQueue
from walhouse.errors import LakeVersionError
from walhouse.lakehouse.answers import few_rows
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
    of_table: str | None = None
    """The id of that table: one that was made again has versions of its own."""

    def of_signals(self, table: str) -> Self:
        """The position in the table with this id: nothing was read of another one."""
        is_another = self.of_table not in {None, table}
        return replace(self, of_table=table, of_version=-1 if is_another else self.of_version)

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
    open_since: int | None = None
    """The first pass with rows that are not to be used yet: their snapshot is not read to its end, or the stream may
    not have reached their positions. Layers wait until there is none."""
    untold: tuple[Notification, ...] = ()
    """What is still to be told of what is durable with this row."""
    awaited: tuple[int, ...] = ()
    """Numbers of passes that this row does not count and that may be in bronze, or come: of the pass of chunks that was
    being read when it was written. Such a pass itself has its own number here."""
    coverage: Coverage | None = None
    """Of which tables bronze has all rows and changes; None in rows of earlier versions."""

    @property
    def is_open(self) -> bool:
        """Whether layers have to wait."""
        return self.open_since is not None

    @property
    def is_reading(self) -> bool:
        """Whether whole tables are being read: their rows are of no use before all of them are there."""
        return bool(self.queue.whole) and self.queue.whole[0].began is not None

    @property
    def is_of_chunks(self) -> bool:
        """Whether it is that of a pass of chunks."""
        return self.awaited == (self.pass_number,)

    @property
    def describes_nothing(self) -> bool:
        """Whether it is known that its pass has no relation rows."""
        return dict(self.counts).get("relations") == 0

    def opened(self) -> Progress:
        """The same, its rows not to be used yet."""
        return self if self.is_open else replace(self, open_since=self.pass_number)

    def closed(self) -> Progress:
        """The same, all that is in bronze being there for layers."""
        return replace(self, open_since=None)

    def reserving(self) -> Progress:
        """From where the stream goes on while the following pass reads chunks: layers wait until that is there."""
        number = self.pass_number + 1
        return replace(self, pass_number=number, awaited=(number,)).opened()

    def taking(self, chunks: Progress) -> Progress:
        """With what a pass of chunks came to, which is in bronze. Only that has moved the queue meanwhile; the
        stream may have found tables that gold is to be looked at for."""
        assert chunks.open_since is not None, "rows of chunks may be ahead of the stream"
        opened = min(self.open_since or chunks.open_since, chunks.open_since)
        counts = chunks.counts if self.pass_number == chunks.pass_number else self.counts
        finished = self.queue.with_finished(chunks.queue.finished).finished
        queue = replace(chunks.queue, finished=finished)
        return replace(self, queue=queue, untold=chunks.untold, open_since=opened, counts=counts, awaited=())

    def lacking(self, owed: int | None) -> Progress:
        """The same, the table of this OID not being read: if it is owed, bronze still lacks rows of it."""
        if owed is None or self.coverage is None:
            return self
        return replace(self, coverage=self.coverage.with_lacking([owed]))

    def telling(self, *more: Notification) -> Progress:
        """With more to be told."""
        return replace(self, untold=(*self.untold, *more))

    def to_json(self) -> str:
        """The text that bronze keeps."""
        untold = [each.to_dict() for each in self.untold]
        coverage = None if self.coverage is None else self.coverage.to_dict()
        own = {"counts": dict(self.counts), "queue": self.queue.to_dict(), "untold": untold, "coverage": coverage}
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
                open_since=raw["open_since"],
                untold=tuple(map(Notification.from_dict, raw["untold"])),
                awaited=tuple(raw.get("awaited", ())),  # rows of earlier versions have none
                coverage=None if raw.get("coverage") is None else Coverage.from_dict(raw["coverage"]),
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


class CaptureStep(NamedTuple):
    """What is reported after each pass."""

    progress: Progress
    target: Lsn
    rows: int
    snapshot: str = ""
    """If the rows are a snapshot's: of which table, and how far that is."""


class Position(NamedTuple):
    """Where bronze stands, without the details."""

    pass_number: int
    captured_to: Lsn


def read_position(spark: SparkSession, layout: LakeLayout) -> Position | None:
    """The highest pass and LSN. Unfiltered maxima of columns with statistics: answered from Delta's log."""
    local = layout.local(layout.bronze)
    ends = None if local is None else local.greatest(("pass", "captured_to"))
    if ends is not None:
        number, captured_to = ends
        return None if number is None else Position(number, Lsn(captured_to or 0))
    row = spark.table(str(layout.bronze)).select(F.max("pass"), F.max("captured_to")).first()
    if row is None or row[0] is None:
        return None
    return Position(int(row[0]), Lsn(row[1]))


def has_begun(layout: LakeLayout) -> bool:
    """Whether a local lake has captured anything, as far as its log tells: a first run that fails leaves it empty."""
    local = layout.local(layout.bronze)
    if local is None or not local.is_there:
        return layout.has_bronze
    return local.greatest(("captured_to",)) != (None,)


def logged_end(layout: LakeLayout) -> Lsn | None:
    """Where bronze ends, by the log of a local lake. None without bronze, and where it takes a session to tell."""
    local = layout.local(layout.bronze)
    ends = local.greatest(("captured_to",)) if local is not None and local.is_there else None
    return None if ends is None or ends[0] is None else Lsn(ends[0])


def read_whole_position(spark: SparkSession, layout: LakeLayout) -> Position | None:
    """The last position up to which all is there that layers need: no row of a snapshot is ahead of the stream."""
    progress = read_progress(spark, layout)
    if progress is not None and progress.open_since is not None:
        progress = _read_last_before(spark, layout, progress.open_since)
    return None if progress is None else Position(progress.pass_number, progress.captured_to)


def _read_last_before(spark: SparkSession, layout: LakeLayout, pass_number: int) -> Progress | None:
    """Passes have gaps: a number that is reserved for one that fails is not used again."""
    rows = spark.table(str(layout.bronze)).where((F.col("pass") < pass_number) & (F.col("kind") == Kind.PROGRESS.value))
    row = rows.select(F.max_by("progress", "pass")).first()
    return None if row is None or row[0] is None else Progress.from_json(row[0])


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
    local = layout.local(layout.bronze)
    if local is not None:
        within = {"pass": (pass_number, pass_number), "kind": (Kind.PROGRESS.value, Kind.PROGRESS.value)}
        found = local.find_rows(["progress"], within, present="captured_to")
        if found is not None:
            return Progress.from_json(found[0]["progress"]) if found else None
    of_pass = (F.col("pass") == pass_number) & (F.col("kind") == Kind.PROGRESS.value)
    # Delta knows which files have no captured_to at all: of a pass of many files one is left
    rows = spark.table(str(layout.bronze)).where(of_pass & F.col("captured_to").isNotNull())
    found = few_rows(rows.select("progress"))
    return Progress.from_json(found[0]["progress"]) if found else None
