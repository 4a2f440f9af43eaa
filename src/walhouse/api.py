"""The Python API: what the commands do, as functions. Notebooks and jobs use this.

    from walhouse.api import Walhouse

    with Walhouse.open("walhouse.yml") as house:
        house.run()
        for proof in house.verify():
            print(proof.table, proof.equal)

Invariant: everything that writes to the lake does so inside the lake's write lock.
"""

from __future__ import annotations

import json
import uuid
from contextlib import ExitStack, contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

from walhouse.bronze.capture import Capture
from walhouse.bronze.progress import Position, read_whole_position
from walhouse.bronze.readable import ensure_readable
from walhouse.bronze.requests.channels import ensure_signals, give_signal
from walhouse.bronze.requests.following import follow
from walhouse.bronze.requests.signals import Signal, snapshot_data
from walhouse.bronze.table import ensure_bronze, new_generation, require_form
from walhouse.changes.epochs import Layer
from walhouse.changes.relations import RelationCatalog
from walhouse.config.configuration import Configuration, load
from walhouse.config.values import AutocreateMode
from walhouse.errors import LakeLockedError, NothingAppliedError, NotStreamingError
from walhouse.gold.cut import gold_cut, sql_at
from walhouse.gold.key import lacking_key
from walhouse.gold.unresolved import Unresolved, unresolved_keys
from walhouse.lakehouse.lock import WriteLock
from walhouse.lakehouse.refusal import on_lake
from walhouse.lakehouse.session import require_usable
from walhouse.lakehouse.tables import register_tables, table_exists
from walhouse.names import TableName, Tables, table_names
from walhouse.ops.reporting import Reporter, Silent
from walhouse.ops.retry import Retry, despite_passing
from walhouse.ops.status import Status, read_status
from walhouse.postgres.connection import connect, is_alive
from walhouse.postgres.publication import drop_publication
from walhouse.postgres.signal_table import ensure_signal_table
from walhouse.postgres.slot import drop_slot, find_slot
from walhouse.postgres.sole_writer import SoleWriter
from walhouse.postgres.wal import flushed_lsn
from walhouse.proof.verify import Proof, Verification
from walhouse.rounds import Rounds, applied_report
from walhouse.silver.records.events import EventLines, events
from walhouse.wiring import capture_settings, events_settings, findings, layers_of, layout_of, session_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import TracebackType

    from pyspark.sql import DataFrame, SparkSession

    from walhouse.bronze.progress import Progress
    from walhouse.bronze.requests.notifications import Notification
    from walhouse.bronze.settings import CaptureSettings
    from walhouse.changes.epochs import Cut
    from walhouse.changes.layers import Layers
    from walhouse.lakehouse.layout import LakeLayout
    from walhouse.lsn import Lsn
    from walhouse.postgres.connection import Connection
    from walhouse.postgres.finding import Finding


class Walhouse:
    """One source and one lake. Use it as a context manager; nothing is connected or started before it is needed."""

    def __init__(
        self, configuration: Configuration, spark: SparkSession | None = None, *, lasting: bool = False
    ) -> None:
        self.configuration = configuration
        self._given_spark = spark
        self._lasting = lasting
        self._connection: Connection | None = None

    @classmethod
    def open(
        cls, configuration: Configuration | Path | str, spark: SparkSession | None = None, *, lasting: bool = False
    ) -> Self:
        """``configuration``: one that is loaded, or its file. ``spark``: a session to use; else one is found or made,
        ``lasting``: for work of many minutes. Raises ConfigurationError.
        """
        known = configuration if isinstance(configuration, Configuration) else load(Path(configuration))
        return cls(known, spark, lasting=lasting)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection to the source. The Spark session stays."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    # What everything needs --------------------------------------------------------------------------------------------

    @cached_property
    def spark(self) -> SparkSession:
        """The session, with the lake's tables registered."""
        register_tables(self._session, self.layout)
        return self._session

    @cached_property
    def _session(self) -> SparkSession:
        return session_of(self.configuration.lake, self.layout, self._given_spark, lasting=self._lasting)

    @cached_property
    def layout(self) -> LakeLayout:
        """Names and folders of the lake."""
        return layout_of(self.configuration.lake)

    @cached_property
    def _capture_settings(self) -> CaptureSettings:
        return capture_settings(self.configuration)

    def _connect(self) -> Connection:
        if self._connection is None or not is_alive(self._connection):
            self._connection = connect(self._capture_settings.connection)
        return self._connection

    @cached_property
    def _relations(self) -> RelationCatalog:
        return RelationCatalog(self._session, self.layout)

    def _capture(self) -> Capture:
        self._lock.regain()
        return Capture(self._session, self.layout, self._capture_settings, self._relations, self._connect())

    @cached_property
    def _layers(self) -> Layers:
        ensure_bronze(self._session, self.layout)
        return layers_of(self.configuration, self._session, self.layout, self._relations, self._lock.require_held)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Hold the lake's lock. What is remembered of the lake is read anew where it may have become untrue."""
        require_usable(self._session)
        with on_lake(), self._lock.hold() as undisturbed:
            if not undisturbed:
                self._forget()
            with ExitStack() as unless_done:
                unless_done.callback(self._forget)
                yield
                unless_done.pop_all()

    @cached_property
    def _lock(self) -> WriteLock:
        return WriteLock(self.layout, lambda: SoleWriter(self._capture_settings.connection, str(self.layout.bronze)))

    def _forget(self) -> None:
        """Read again, at the next use, how far each layer is: somebody else wrote, or our own writing failed."""
        self.__dict__.pop("_layers", None)
        self.__dict__.pop("_relations", None)

    # Commands ---------------------------------------------------------------------------------------------------------

    def check(self) -> list[Finding]:
        """Pre-flight: what on the source would keep capture from working, and what to do about it."""
        return findings(self.configuration, self._capture_settings, self.layout, self._connect())

    def capture(self, progress: Reporter | None = None, *, start_new_generation: bool = False) -> Progress:
        """Bring bronze up to the source's flushed LSN of now. The first time: the initial snapshot, then the stream.

        ``start_new_generation``: bronze was restored to an earlier version; count appends anew.
        """
        with self._writing():
            if start_new_generation:
                new_generation(self._session, self.layout)
            return self._rounds(progress or Silent()).bronze()

    def silver(self, progress: Reporter | None = None) -> int:
        """Apply to silver what bronze has. Returns the number of bronze rows applied."""
        with self._writing():
            return self._apply((Layer.SILVER,), self._position(), progress or Silent())

    def gold(self, progress: Reporter | None = None) -> int:
        """Apply to gold what bronze has. Returns the number of bronze rows applied."""
        with self._writing():
            return self._apply((Layer.GOLD,), self._position(), progress or Silent())

    def run(self, *, continuous: bool = False, progress: Reporter | None = None) -> None:
        """Capture, silver and gold until the source's LSN of now is applied; ``continuous``: and go on, until stopped.

        A continuous run tries again what ``walhouse.ops.retry`` lists; any other error ends it.
        """
        reporter = progress or Silent()
        with self._writing():
            rounds = self._rounds(reporter)
            rounds.without_end() if continuous else rounds.once()

    def rebuild(self, layer: Literal["silver", "gold"], tables: Tables, progress: Reporter | None = None) -> int:
        """Make tables of silver or gold anew from all that bronze has of them, up to where the layer is.

        For a column that became another type, a handling mode that was changed, a table that somebody else changed.
        Where bronze's older changes lack the key of today, gold has the later ones, and an incremental snapshot is
        asked for. Returns the number of bronze rows looked at. Raises RequestRefusedError, and what applying raises.
        """
        with self._writing():
            chosen, named = Layer(layer), table_names(tables)
            reached = self._layers.applied_to(chosen).to_lsn
            rows = self._layers.rebuild(chosen, named, applied_report(reached, progress or Silent()))
            known = self._relations.by_table()
        if lacking := [table for table in named if chosen is Layer.GOLD and lacking_key(known[table])]:
            self.snapshot(lacking)
        return rows

    def status(self) -> Status:
        """How far bronze, silver and gold are, per table; the lag; what the slot keeps on the server."""
        conn, slot = self._connect(), self._capture_settings.slot
        return read_status(
            self._session,
            self.layout,
            conn,
            source_lsn=flushed_lsn(conn),
            slot_name=slot,
            slot=find_slot(conn, slot),
            chunk_rows=self._capture_settings.chunk_rows,
        )

    def signal(self, kind: str, data: Mapping[str, object], signal_id: str | None = None) -> str:
        """Put a signal into ``ops.signals``: the next capture, or the one that runs, follows it. Returns its id.

        ``kind`` and ``data`` as Debezium has them: ``execute-snapshot`` with ``data-collections``, for instance. What
        becomes of it is told in ``ops.notifications``.
        """
        return give_signal(self._session, self.layout, Signal(signal_id or str(uuid.uuid4()), kind, json.dumps(data)))

    def snapshot(self, tables: Tables, where: str | None = None, signal_id: str | None = None) -> str:
        """Ask for an incremental snapshot of these tables; ``where``: SQL that their rows must fulfil. Returns its id.

        It is read by the next capture, or by the one that runs, while streaming goes on. Raises NotStreamingError.
        """
        if not self._capture_settings.snapshots.mode.streams():
            raise NotStreamingError("snapshot.mode does not stream: nobody would follow the request.")
        return self.signal("execute-snapshot", snapshot_data(table_names(tables), where), signal_id)

    def follow(
        self, request: str, progress: Reporter | None = None, *, poll_seconds: float = 2.0
    ) -> list[Notification]:
        """Wait until a request has come to its end; what was told of it. A local lake that nobody works on is run here.

        Raises RequestRefusedError, TableNotReadError.
        """

        def work() -> None:
            with suppress(LakeLockedError):  # whoever works on it follows the request, too
                if self.layout.path is not None:
                    self.run(progress=progress)

        return follow(self._session, self.layout, request, work, poll_seconds)

    def init_signals(self) -> list[str]:
        """Make ``ops.signals`` and, if there is to be one, the source's signal table. Returns their names."""
        ensure_signals(self._session, self.layout)
        made = [str(self.layout.ops("signals"))]
        settings = self._capture_settings
        if settings.signals.table is not None:
            ensure_signal_table(self._connect(), settings.signals.table, settings.publication)
            made.append(str(settings.signals.table))
        return made

    def verify(self, tables: Tables | None = None, progress: Reporter | None = None, limit: int = 10) -> list[Proof]:
        """Compare gold with the source, row by row, at one LSN. ``limit``: how many differing keys to keep.

        Raises NothingAppliedError if nothing was captured yet: what proves a lake does not begin one.
        """
        reporter, chosen = progress or Silent(), None if tables is None else table_names(tables)
        with self._writing():
            if not table_exists(self._session, self.layout, self.layout.bronze):
                raise NothingAppliedError(
                    "Nothing was captured yet, so that there is nothing to prove.",
                    safe="No slot and no table was made.",
                )
            capture = self._capture()
            despite_passing(capture.begin)
            verification = Verification(
                self._session,
                self.layout,
                settings=capture.settings,
                relations=self._relations,
                capture=capture,
                layers=self._layers,
                conn=self._connect(),
                threads=self.configuration.lake.parallel_tables,
            )
            return despite_passing(lambda: verification.run(chosen, reporter, limit))

    def events(
        self,
        tables: Tables | None = None,
        from_lsn: Lsn | None = None,
        to_lsn: Lsn | None = None,
        *,
        schemas: bool = False,
        keep_nulls: bool = False,
    ) -> EventLines:
        """Silver as Debezium would have sent it: JSON lines {"destination", "key", "value", "headers"}, in order.

        The range is over commit LSNs and half-open. ``schemas``: each key and value with its schema, as the JSON
        converter prints them with ``schemas.enable``. ``keep_nulls``: a NULL stays null, as that converter prints it
        with ``replace.null.with.default=false``; by default it prints the column's default in its place.
        """
        settings = events_settings(self.configuration.connector, schemas=schemas, keep_nulls=keep_nulls)
        position = self._position()
        if position is None:
            return EventLines(iter(()))
        relations = RelationCatalog(self._session, self.layout)
        relations.refresh(position.pass_number)
        known = relations.by_table()
        only = None if tables is None else table_names(tables)
        return events(self._session, self.layout, settings, known, only=only, from_lsn=from_lsn, to_lsn=to_lsn)

    def cut(self, at: Lsn | None = None) -> Cut:
        """The last position that all of gold's tables are at, or the last one up to ``at``, and their versions there.

        While a run merges one table after another, a query over several may see a transaction in one of them alone; at
        a cut it does not. Raises NothingAppliedError.
        """
        return gold_cut(self._session, self.layout, at)

    def sql(self, query: str, *, cut: Cut | None = None) -> DataFrame:
        """Ask the lake. Tables: ``bronze.wal_readable`` (``bronze.wal`` with its images as maps from column to text),
        ``silver.<schema>_<table>``, ``gold.<schema>_<table>``, ``ops.*``.

        ``cut``: ask gold at this position instead; its tables stand in braces, as ``{<schema>_<table>}``. Raises
        NothingAppliedError if one of them was not there.
        """
        if self.layout.path is not None:  # a local catalog has forgotten the view; elsewhere, readers may not make any
            ensure_readable(self.spark, self.layout)
        return self.spark.sql(query) if cut is None else sql_at(self.spark, self.layout, query, cut)

    def drop(self) -> None:
        """Drop the publication, unless it is not ours to make (``disabled``), and the slot. The lake stays."""
        conn, settings = self._connect(), self._capture_settings
        with conn.transaction():  # the slot only if the publication may be dropped, and that only if the slot is free
            if settings.publication_mode is not AutocreateMode.DISABLED:
                drop_publication(conn, settings.publication)
            drop_slot(conn, settings.slot)

    # How they work ----------------------------------------------------------------------------------------------------

    def _rounds(self, reporter: Reporter) -> Rounds:
        connector, lake = self.configuration.connector, self.configuration.lake

        def apply(progress: Progress) -> None:
            if not progress.is_open:
                self._apply(tuple(Layer), Position(progress.pass_number, progress.captured_to), reporter)

        def incomplete(table: TableName, after: tuple[int, int] | None) -> Unresolved:
            return unresolved_keys(self._session, self.layout, self._relations.by_table()[table], after)

        def forget() -> None:
            self.close()
            self._forget()

        return Rounds(
            open_capture=self._capture,
            apply=apply,
            incomplete=incomplete,
            gold_has=lambda captured: self._layers.applied_to(Layer.GOLD).to_pass >= captured.pass_number,
            forget=forget,
            reporter=reporter,
            slot_retry=Retry(connector.slot_retry_delay_ms / 1000, connector.slot_max_retries),
            idle_seconds=lake.idle_commit_seconds,
            idle_bytes=lake.idle_commit_bytes,
        )

    def _apply(self, layers: tuple[Layer, ...], position: Position | None, reporter: Reporter) -> int:
        if position is None:
            return 0
        return self._layers.run(layers, *position, applied_report(position.captured_to, reporter))

    def _position(self) -> Position | None:
        if not table_exists(self._session, self.layout, self.layout.bronze):
            return None
        require_form(self._session, self.layout)
        return read_whole_position(self._session, self.layout)
