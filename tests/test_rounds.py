"""A continuous run: what comes is applied, what may pass is tried again, and nothing is written for nothing."""

from __future__ import annotations

import time
from collections import deque
from contextlib import ExitStack
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from tests.e2e.witness import gold_rows, source_rows
from tests.postgres.test_sole_writer import end_holders
from walhouse.bronze.requests.notifications import Event, notifications_of
from walhouse.changes.layers import Layers
from walhouse.errors import LakeLockedError, SlotMissingError, SourceUnreachableError
from walhouse.lakehouse.layout import LakeLayout
from walhouse.lakehouse.lock import WriteLock
from walhouse.lakehouse.tables import current_version
from walhouse.lsn import Lsn
from walhouse.names import TableName
from walhouse.ops.retry import POLICY
from walhouse.postgres.sole_writer import SoleWriter
from walhouse.rounds import IDLE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from tests.fixtures_house import MakeHouse
    from tests.fixtures_server import Database
    from walhouse.api import Walhouse

pytestmark = [pytest.mark.server, pytest.mark.spark]

T = TableName("public", "t")


class Pauses:
    """A continuous run's pauses, without the waiting: in each the next thing happens, in the last an interrupt."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *happens: Callable[[], object]) -> None:
        self._happens = deque(happens)
        self.seconds: list[float] = []
        monkeypatch.setattr("walhouse.rounds.time", SimpleNamespace(sleep=self._pause, monotonic=time.monotonic))

    def _pause(self, seconds: float) -> None:
        self.seconds.append(seconds)
        if not self._happens:
            raise KeyboardInterrupt
        self._happens.popleft()()


@pytest.fixture
def source(database: Database) -> Database:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, v text)", "INSERT INTO t VALUES (1, 'read')")
    return database


def as_of_a_catalog(_: LakeLayout, elsewhere: Callable[[], SoleWriter]) -> WriteLock:
    """A local lake's lock, as a catalog's lake has it."""
    return WriteLock(LakeLayout(path=None, catalog="main"), elsewhere)


def slot(database: Database) -> Lsn:
    [(confirmed,)] = database.execute(
        f"SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE database = '{database.name}'"
    )
    return Lsn.parse(confirmed)


def test_what_comes_while_it_runs_is_applied_before_its_next_pause(
    spark: SparkSession, source: Database, lake: LakeLayout, make_house: MakeHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = make_house()
    equal = []

    def compare() -> None:
        equal.append(gold_rows(spark, lake, T) == source_rows(source, T))

    def change(statement: str) -> None:
        compare()
        source.execute(statement)

    pauses = Pauses(
        monkeypatch,
        lambda: change("INSERT INTO t VALUES (2, 'streamed')"),
        lambda: change("UPDATE t SET id = 3 WHERE id = 2"),
        compare,
    )
    with pytest.raises(KeyboardInterrupt):
        house.run(continuous=True)
    assert equal == [True] * 3
    assert pauses.seconds == [IDLE_SECONDS] * 4
    assert all(proof.equal for proof in house.verify())  # interrupted, it left nothing behind that holds others up


@pytest.mark.parametrize(("idle_bytes", "follows"), [(1_000, True), (1 << 30, False)])
def test_the_slot_follows_what_other_tables_write_once_it_is_much_and_little_costs_no_commit(
    idle_bytes: int,
    follows: bool,
    spark: SparkSession,
    source: Database,
    lake: LakeLayout,
    make_house: MakeHouse,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source.execute("CREATE TABLE other (n int)")
    seen: list[tuple[Lsn, int]] = []

    def write() -> None:
        seen.append((slot(source), current_version(spark, lake, lake.bronze)))
        source.execute("INSERT INTO other SELECT generate_series(1, 1000)")

    Pauses(monkeypatch, write, lambda: seen.append((slot(source), current_version(spark, lake, lake.bronze))))
    house = make_house(table_include_list="public.t", lake_idle_commit_bytes=idle_bytes, lake_idle_commit_seconds=3600)
    with pytest.raises(KeyboardInterrupt):
        house.run(continuous=True)
    [(before, first), (after, last)] = seen
    assert (after > before + 1000 * 32) is follows  # a row of one int takes more than this in the WAL
    assert (last > first) is follows


def test_a_source_that_is_gone_for_a_while_is_asked_again_and_nothing_is_missing(
    spark: SparkSession, source: Database, lake: LakeLayout, make_house: MakeHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    def end_sessions() -> None:
        source.execute(
            "INSERT INTO t VALUES (2, 'meanwhile')",
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()",
        )

    pauses = Pauses(monkeypatch, end_sessions, lambda: None)
    with pytest.raises(KeyboardInterrupt):
        make_house().run(continuous=True)
    assert pauses.seconds == [IDLE_SECONDS, POLICY[SourceUnreachableError].delay_seconds, IDLE_SECONDS]
    assert gold_rows(spark, lake, T) == source_rows(source, T)


@pytest.mark.parametrize("another", [False, True])
def test_a_run_that_lost_its_catalogs_lock_applies_nothing_before_it_has_it_again(
    another: bool,
    spark: SparkSession,
    source: Database,
    lake: LakeLayout,
    make_house: MakeHouse,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("walhouse.api.WriteLock", as_of_a_catalog)
    house = make_house()

    with ExitStack() as others:

        def lose() -> None:
            end_holders(source)
            if another:
                others.enter_context(SoleWriter(source.settings, str(lake.bronze)))
            source.execute("INSERT INTO t VALUES (2, 'meanwhile')")

        pauses = Pauses(monkeypatch, lose, lambda: None)
        with pytest.raises(LakeLockedError if another else KeyboardInterrupt):
            house.run(continuous=True)
    assert pauses.seconds[:2] == [IDLE_SECONDS, POLICY[SourceUnreachableError].delay_seconds]
    assert len(gold_rows(spark, lake, T)) == (1 if another else 2)


@pytest.mark.parametrize(
    ("step", "work"),
    [("run", lambda house: house.verify()), ("rebuild", lambda house: house.rebuild("gold", [T]))],
    ids=["verify", "rebuild"],
)
def test_a_proof_and_a_rebuild_apply_nothing_either_where_the_lock_was_lost_before_they_come_to_it(
    step: str,
    work: Callable[[Walhouse], object],
    source: Database,
    make_house: MakeHouse,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A proof's lock idles while the source is read, and a server may end sessions that idle."""
    monkeypatch.setattr("walhouse.api.WriteLock", as_of_a_catalog)
    house = make_house()
    house.run()
    applied = getattr(Layers, step)

    def after_its_loss(*arguments: object) -> object:
        end_holders(source)
        return applied(*arguments)

    monkeypatch.setattr(Layers, step, after_its_loss)
    with pytest.raises(SourceUnreachableError, match="lock of the lake"):
        work(house)
    monkeypatch.undo()
    assert house.verify()[0].equal


def test_what_trying_again_cannot_help_ends_it_at_once(
    source: Database, make_house: MakeHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    def drop_slot() -> None:
        source.execute(
            f"SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = '{source.name}'"
        )
        source.execute("INSERT INTO t VALUES (2, 'lost')")

    pauses = Pauses(monkeypatch, drop_slot)
    with pytest.raises(SlotMissingError):
        make_house().run(continuous=True)
    assert pauses.seconds == [IDLE_SECONDS]


@pytest.mark.slow
def test_a_snapshot_that_is_asked_for_while_it_runs_is_read_and_told(
    spark: SparkSession, source: Database, lake: LakeLayout, make_house: MakeHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    source.execute("INSERT INTO t SELECT n, 'row' FROM generate_series(2, 20) AS n")
    house = make_house(snapshot_mode="no_data", signal_poll_interval_ms=1)
    before = []

    def ask() -> None:
        before.append(gold_rows(spark, lake, T))
        house.snapshot([T], signal_id="asked")

    Pauses(monkeypatch, lambda: source.execute("UPDATE t SET v = 'streamed' WHERE id = 1"), ask)
    with pytest.raises(KeyboardInterrupt):
        house.run(continuous=True)
    assert before == [{(1, "streamed"): 1}]
    assert gold_rows(spark, lake, T) == source_rows(source, T)
    assert notifications_of(spark, lake, "asked")[-1].type is Event.COMPLETED
