"""One pass over the WAL: whole, however the server decodes it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from tests.bronze.test_capture import ADVANCE, begun, ids, nothing, rows
from walhouse.bronze import stream
from walhouse.bronze.progress import read_progress
from walhouse.errors import SlotGapError
from walhouse.lsn import PAGE_SIZE
from walhouse.postgres.pieces import cut

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.fixtures_house import MakeHouse
    from tests.fixtures_server import Database
    from walhouse.lakehouse.layout import LakeLayout
    from walhouse.lsn import Lsn

pytestmark = [pytest.mark.server, pytest.mark.spark]


def test_a_pass_in_pieces_has_each_commit_message_and_description_once(
    spark: SparkSession, table: Database, lake: LakeLayout, make_house: MakeHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each piece tells the table's description anew; also when the slot did not move and all of it comes again."""
    monkeypatch.setattr(stream, "cut", partial(cut, size=PAGE_SIZE))
    monkeypatch.setattr(ADVANCE, lambda *_: None)
    capture = begun(make_house())
    for first in range(0, 40, 20):
        for number in range(first, first + 20):
            table.execute(f"INSERT INTO t VALUES ({number}, repeat('x', {number * 97}))")
            table.execute(f"SELECT pg_logical_emit_message(false, 'lone', 'm{number}')")
        table.execute(f"UPDATE t SET v = 'last' WHERE id = {first}")  # its commit flushes the message before it
        capture.run(capture.target(), nothing)
    assert ids(spark, lake) == [str(number) for number in (*range(20), 0, *range(20, 40), 20)]
    contents = [bytes(row["message"]["content"]).decode() for row in rows(spark, lake, "message")]
    assert contents == [f"m{number}" for number in range(40)]
    assert len(rows(spark, lake, "relation")) == 1


@pytest.mark.parametrize("begins_anew", [False, True])
def test_a_table_that_is_locked_exclusively_keeps_no_other_tables_changes_waiting(
    spark: SparkSession, table: Database, lake: LakeLayout, make_house: MakeHouse, begins_anew: bool
) -> None:
    """As VACUUM FULL does for an hour: a look at the catalog has no need of the table."""
    table.execute(
        "CREATE TABLE other (id int PRIMARY KEY, v text DEFAULT 'a')", "ALTER TABLE t ALTER v SET DEFAULT 'b'"
    )
    capture = begun(make_house())
    table.execute("INSERT INTO t VALUES (1, 'x')")
    with table.connect() as owner, owner.transaction():
        owner.execute("LOCK TABLE t")
        table.execute("INSERT INTO other VALUES (2, 'y')")
        capture = begun(make_house()) if begins_anew else capture
        capture.run(capture.target(), nothing)
    assert ids(spark, lake) == ["1", "2"]


def test_what_another_reader_takes_from_the_slot_just_before_a_pass_reads_it_is_a_gap_and_no_pass_without_it(
    spark: SparkSession, table: Database, lake: LakeLayout, make_house: MakeHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second lake on the slot, or a copy of this one: each moves it when its own pass is written."""
    house = make_house()
    capture = begun(house)
    table.execute("INSERT INTO t VALUES (1, 'taken')")
    before = read_progress(spark, lake)

    def moved_now(*given: Any) -> tuple[Lsn, ...]:
        table.execute(
            "SELECT pg_replication_slot_advance(slot_name, pg_current_wal_flush_lsn())"
            f" FROM pg_replication_slots WHERE database = '{table.name}'"
        )
        table.execute("INSERT INTO t VALUES (2, 'there still')")
        return cut(*given)

    monkeypatch.setattr(stream, "cut", moved_now)
    with pytest.raises(SlotGapError):
        capture.run(capture.target(), nothing)
    assert read_progress(spark, lake) == before, "nothing of a range that was not sent whole"
