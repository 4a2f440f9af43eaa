"""A real standby: what its snapshots have seen, what it waits for, and what it refuses."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.fixtures_standby import setting_on
from tests.postgres.counting import Counting, Written, write
from walhouse.config.filters import TableFilter
from walhouse.config.replica_identity import IdentityRules, parse_identities
from walhouse.errors import (
    PromotedError,
    PublicationMissingError,
    ReadOnlySourceError,
    RecoveryConflictError,
    StandbyIdleError,
    StandbyNotStillError,
    StandbyNotStreamingError,
)
from walhouse.lsn import PAGE_SIZE, Lsn
from walhouse.names import TableName
from walhouse.pgoutput.copy_text import images_of_copy
from walhouse.postgres import standby
from walhouse.postgres.catalog import read_relations
from walhouse.postgres.check import check_source
from walhouse.postgres.connection import connect, source_errors
from walhouse.postgres.exported import exported_snapshot
from walhouse.postgres.finding import Finding, Severity
from walhouse.postgres.heartbeat import beat
from walhouse.postgres.key_chunks import KeyChunk, keyed_table, read_chunk
from walhouse.postgres.publication import drop_publication, ensure_publication
from walhouse.postgres.signal_table import ensure_signal_table
from walhouse.postgres.slot import advance, create_slot, created_slot, drop_slot, find_slot
from walhouse.postgres.snapshot import imported_snapshot
from walhouse.postgres.standby import ReplayState, Seen, is_standby, replay_state, seen_between
from walhouse.postgres.standby_health import takes_no_writes
from walhouse.postgres.visibility import SeenBefore
from walhouse.postgres.wal import above_all_running, flushed_lsn, insert_lsn, oldest_running, wait_flushed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fixtures_standby import Followed
    from walhouse.postgres.connection import Connection

pytestmark = pytest.mark.server

L = Lsn(5 * PAGE_SIZE + 1000)


@pytest.fixture
def table(followed: Followed) -> Followed:
    followed.primary.execute("CREATE TABLE t (id int PRIMARY KEY)", "CREATE PUBLICATION p FOR TABLE t")
    followed.catch_up()
    return followed


@pytest.fixture
def connection(table: Followed) -> Iterator[Connection]:
    with closing(connect(table.standby.settings)) as opened:
        yield opened


def test_a_database_whose_transactions_are_serializable_is_read_on_a_standby_all_the_same(followed: Followed) -> None:
    """Which refuses such a transaction, that of the session's settings, too."""
    isolation = "default_transaction_isolation = 'serializable'"
    followed.primary.execute(f"ALTER DATABASE {followed.primary.name} SET {isolation}")
    followed.catch_up()
    with closing(connect(followed.standby.settings)) as connection:
        assert connection.execute("SHOW transaction_isolation").fetchone() == ("read committed",)


def read_all(connection: Connection) -> tuple[set[int], Seen]:
    """One chunk over all of the table, and what its snapshot has seen."""
    relations = read_relations(connection, "p", TableFilter())
    [relation] = relations.values()
    chunk = KeyChunk(keyed_table(connection, relation, ["id"], publication="p", condition=None), 0, None, ("1000000",))
    rows: set[int] = set()
    seen: Seen | None = None
    for snapshot, blocks in read_chunk(connection, chunk, on_standby=True):
        rows |= {int(image.as_py()) for image in images_of_copy(blocks, 1)}
        assert isinstance(snapshot.visibility, SeenBefore)
        seen = Seen(snapshot.visibility.lsn, snapshot.lsn)
    assert seen is not None
    return rows, seen


def delayed_at(connection: Connection, written: Written) -> ReplayState:
    """The state of a standby that has received a commit, has replayed all before it, and waits with the commit."""
    deadline = time.monotonic() + 30
    while True:
        state = replay_state(connection)
        has_come = (state.received or 0) >= written.latest.page_aligned()
        if has_come and state.position.page_aligned() >= written.earliest.page_aligned():
            return state
        assert time.monotonic() < deadline, f"the standby does not get to {written}: {state}"
        time.sleep(0.01)


def test_a_connection_knows_whether_its_server_is_a_standby(connection: Connection, table: Followed) -> None:
    assert is_standby(connection)
    with closing(connect(table.primary.settings)) as other:
        assert not is_standby(other)


def test_positions_of_a_standby_are_those_of_its_replay(connection: Connection, table: Followed) -> None:
    table.primary.execute("INSERT INTO t VALUES (1)")
    table.catch_up()
    replayed = replay_state(connection).position
    assert flushed_lsn(connection) == insert_lsn(connection).page_aligned() == replayed.page_aligned()
    assert wait_flushed(connection, replayed) >= replayed.page_aligned()


def test_a_chunk_stands_where_it_has_seen_all_before_and_nothing_later(connection: Connection, table: Followed) -> None:
    """Whatever is replayed meanwhile."""
    with Counting(table) as writer:
        read: list[tuple[set[int], Seen]] = []
        while len(read) < 100 or len(writer.written) < 200:
            read.append(read_all(connection))
    for rows, seen in read:
        assert writer.contradicts(rows, seen.seen_to, seen.upto) == []
    assert len({len(rows) for rows, _ in read}) > 10, "the snapshots are of many moments"


def test_a_chunk_of_a_standby_that_does_nothing_is_exact(connection: Connection, table: Followed) -> None:
    table.primary.execute("INSERT INTO t SELECT generate_series(1, 10)")
    table.catch_up()
    read = [read_all(connection) for _ in range(5)]
    assert all(len(rows) == 10 for rows, _ in read)
    assert any(seen.is_exact for _, seen in read), "but for what the server itself may write just now"


def test_what_is_received_and_not_replayed_makes_a_chunk_doubtful_and_a_proof_wait(
    connection: Connection, table: Followed
) -> None:
    with setting_on(table.standby, recovery_min_apply_delay="10min"):
        with table.primary.connect(autocommit=False) as primary:
            written = write(primary, 1)
        state = delayed_at(connection, written)
        rows, seen = read_all(connection)
        assert rows == set()
        assert state.position.page_aligned() <= seen.seen_to < seen.upto
        assert seen.seen_to < written.latest, "nobody says that the commit is seen"
        with pytest.raises(StandbyNotStillError), exported_snapshot(table.standby.settings, still_seconds=0.3):
            pass
    table.catch_up()
    assert flushed_lsn(connection) >= seen.upto, "replay gets there"


def test_a_proofs_snapshot_is_exactly_at_its_lsn_whatever_is_written(table: Followed) -> None:
    with Counting(table) as writer:
        read: list[tuple[set[int], Lsn]] = []
        while len(read) < 5 or len(writer.written) < 100:
            with (
                exported_snapshot(table.standby.settings) as snapshot,
                imported_snapshot(table.standby.settings, snapshot.name) as reading,
            ):
                rows = {row[0] for row in reading.execute("SELECT id FROM public.t")}
                read.append((rows, snapshot.insert_lsn))
    assert [found for rows, lsn in read for found in writer.contradicts(rows, lsn, lsn)] == []


def test_a_proofs_snapshot_is_never_older_than_what_bronze_has(connection: Connection, table: Followed) -> None:
    later = Lsn(insert_lsn(connection) + 2**30)
    with (
        pytest.raises(StandbyNotStillError),
        exported_snapshot(table.standby.settings, not_before=later, still_seconds=0.2),
    ):
        pass


def test_a_bound_above_all_that_run_is_above_those_that_the_standby_has_seen_begin(
    connection: Connection, table: Followed
) -> None:
    """Its snapshots end before one that began after the last that ended."""
    with table.primary.connect(autocommit=False) as running:
        [(xid,)] = running.execute("INSERT INTO t VALUES (1) RETURNING pg_current_xact_id()::text::int8").fetchall()
        table.catch_up()
        bound = above_all_running(connection)
        assert bound > xid
        assert oldest_running(connection) <= xid
        running.commit()
    table.catch_up()
    assert oldest_running(connection) >= bound


def test_a_standby_whose_replay_is_paused_gives_exact_snapshots_though_more_has_come(
    connection: Connection, table: Followed
) -> None:
    table.server.pause()
    try:
        table.primary.execute("INSERT INTO t VALUES (1)")
        with exported_snapshot(table.standby.settings) as snapshot:
            assert snapshot.insert_lsn == replay_state(connection).position.page_aligned()
        rows, seen = read_all(connection)
        assert rows == set()
        assert seen.is_exact
    finally:
        table.server.resume()


def state(
    position: Lsn = L, received: Lsn | None = L, receiver: int | None = 1, *, paused: bool = False
) -> ReplayState:
    return ReplayState(True, position, paused, received, receiver)


@pytest.mark.parametrize(
    ("before", "after", "seen"),
    [
        (state(), state(), Seen(L, L)),
        (state(), state(received=Lsn(L + 8)), Seen(L, Lsn(L + 8))),
        (state(), state(received=Lsn(L + PAGE_SIZE)), Seen(L, Lsn(L + 48))),
        (state(), state(Lsn(L + 8), Lsn(L + 8)), Seen(L, Lsn(L + 8))),
        (state(), state(paused=True, received=Lsn(L + PAGE_SIZE), receiver=None), Seen(L, L)),
    ],
    ids=["idle", "a little is there", "much is there", "something was replayed", "paused"],
)
def test_what_may_be_seen_ends_where_the_record_that_may_be_replayed_has_begun(
    before: ReplayState, after: ReplayState, seen: Seen
) -> None:
    assert seen_between(before, after) == seen


@pytest.mark.parametrize("start", [PAGE_SIZE - 8, PAGE_SIZE - 16, 0, 24, 40, 48])
def test_a_record_that_begins_after_a_pages_header_may_be_seen(start: int) -> None:
    position = Lsn(8 * PAGE_SIZE + start)
    begins = position if start % PAGE_SIZE else Lsn(position + 40)
    seen = seen_between(state(position, position), state(position, Lsn(position + PAGE_SIZE)))
    assert seen.seen_to <= begins < seen.upto


@pytest.mark.parametrize(
    "after",
    [state(received=None), state(receiver=None), state(receiver=2), state(Lsn(L + 8), L)],
    ids=["nothing received", "no receiver", "another receiver", "replayed from elsewhere"],
)
def test_without_one_receiver_nobody_can_tell_what_was_seen(after: ReplayState) -> None:
    with pytest.raises(StandbyNotStreamingError):
        seen_between(state(), after)


def test_a_snapshot_that_may_be_of_another_timeline_is_none() -> None:
    with pytest.raises(PromotedError):
        seen_between(state(), ReplayState(False, Lsn(L + 500), False, L, None))


@pytest.mark.parametrize("temporary", [False, True])
def test_a_slots_snapshot_is_exactly_at_its_point(temporary: bool, table: Followed) -> None:
    settings = table.standby.settings
    with Counting(table) as writer:
        while len(writer.written) < 20:
            time.sleep(0.01)
        with (
            table.telling_what_runs(),
            created_slot(settings, f"s_{table.standby.name}", temporary=temporary) as exported,
            imported_snapshot(settings, exported.name) as reading,
        ):
            rows = {row[0] for row in reading.execute("SELECT id FROM public.t")}
    assert len(rows) >= 20
    assert writer.contradicts(rows, exported.consistent_point, exported.consistent_point) == []


def test_a_slot_is_given_up_where_the_primary_does_not_say_what_runs(
    connection: Connection, table: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standby, "STARTING_POINT_SECONDS", 0.5)
    name = f"s_{table.standby.name}"
    # what runs the primary may tell at any moment, by itself; with this transaction under way it is not enough
    with table.primary.connect(autocommit=False) as primary:
        primary.execute("INSERT INTO t VALUES (1)")
        table.catch_up()
        with pytest.raises(StandbyIdleError, match="pg_log_standby_snapshot"):
            create_slot(connection, name)
        with (
            pytest.raises(StandbyIdleError, match="pg_log_standby_snapshot"),
            created_slot(table.standby.settings, name),
        ):
            pass
    assert find_slot(connection, name) is None


def test_what_would_write_is_refused_by_name(connection: Connection, table: Followed) -> None:
    none_of_it = TableFilter()
    with pytest.raises(PublicationMissingError):
        ensure_publication(connection, "other", "disabled", none_of_it)
    with pytest.raises(ReadOnlySourceError, match="CREATE PUBLICATION"):
        ensure_publication(connection, "other", "filtered", none_of_it)
    with pytest.raises(ReadOnlySourceError, match="DROP PUBLICATION"):
        drop_publication(connection, "p")
    with pytest.raises(ReadOnlySourceError, match="CREATE TABLE"):
        ensure_signal_table(connection, TableName("public", "signals"), "p")
    with pytest.raises(ReadOnlySourceError, match="INSERT"):
        beat(connection, "INSERT INTO public.t VALUES (1)")
    assert ensure_publication(connection, "p", "filtered", none_of_it).published


def test_a_reader_that_replay_waits_for_too_long_is_told_so(connection: Connection, table: Followed) -> None:
    with setting_on(table.standby, max_standby_streaming_delay="50ms"):
        connection.execute("BEGIN; LOCK TABLE public.t IN ACCESS SHARE MODE")
        table.primary.execute("TRUNCATE t")
        with pytest.raises(RecoveryConflictError), source_errors():
            connection.execute("SELECT pg_sleep(20)")


def check(followed: Followed, mode: str = "disabled", identities: IdentityRules | None = None) -> dict[str, Finding]:
    """What there is to say of the standby as a source, by subject."""
    settings = followed.standby.settings
    with closing(connect(settings)) as connection:
        findings = check_source(
            connection, settings, slot="s", publication="p", mode=mode, selection=TableFilter(), identities=identities
        )
    return {finding.subject: finding for finding in findings}


def test_a_standby_that_is_set_up_is_no_fault(table: Followed) -> None:
    found = check(table)
    assert [each for each in found.values() if each.severity is Severity.ERROR] == []
    assert {"standby", "hot_standby_feedback"} <= set(found)


def test_a_standby_that_gives_no_feedback_or_has_no_slot_is_found_before_its_own_slot_is_lost(table: Followed) -> None:
    with setting_on(table.standby, hot_standby_feedback="off"):
        assert check(table)["hot_standby_feedback"].severity is Severity.ERROR
    with setting_on(table.standby, primary_slot_name=""):
        assert check(table)["primary_slot_name"].severity is Severity.WARNING


def test_what_only_the_primary_can_make_is_found_before_capture_begins(table: Followed) -> None:
    identities = IdentityRules(parse_identities("public.t:FULL"))
    assert (
        "cannot be altered" in check(table, identities=identities)["connector.replica.identity.autoset.values"].problem
    )
    table.primary.execute("CREATE TABLE other (id int PRIMARY KEY)")
    table.catch_up()
    assert check(table, "filtered")["publication p"].severity is Severity.ERROR
    table.primary.execute("DROP PUBLICATION p")
    table.catch_up()
    assert "takes no writes" in check(table, "filtered")["publication p"].problem


def test_a_source_is_not_written_to_if_that_is_asked_for_though_the_user_might(followed: Followed) -> None:
    settings = replace(followed.primary.settings, read_only=True)
    with closing(connect(settings)) as connection:
        assert takes_no_writes(connection)
        with pytest.raises(ReadOnlySourceError):
            ensure_publication(connection, "p", "all_tables", TableFilter())
        create_slot(connection, name := f"s_{followed.primary.name}")
        advance(connection, name, flushed_lsn(connection))
        assert drop_slot(connection, name)
