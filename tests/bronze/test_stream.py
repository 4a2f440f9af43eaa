"""One pass over the WAL: whole, however the server decodes it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.bronze.test_capture import ADVANCE, begun, ids, nothing, rows
from walhouse.bronze import stream
from walhouse.lsn import PAGE_SIZE
from walhouse.postgres.pieces import cut

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.fixtures_house import MakeHouse
    from tests.fixtures_server import Database
    from walhouse.lakehouse.layout import LakeLayout

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
