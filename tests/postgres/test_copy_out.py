"""A COPY is read to its end, whenever that comes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg import sql

from tests.pgoutput.decoding import peak_of
from walhouse.postgres import copy_out
from walhouse.postgres.copy_out import copied_blocks

if TYPE_CHECKING:
    from walhouse.postgres.connection import Connection

pytestmark = pytest.mark.server

SLOW_END = "SELECT repeat('x', 20000) FROM generate_series(1, 3) AS n WHERE n < 3 OR pg_sleep(0.3) IS NULL"
"""Each row is sent when it is there, as no buffer of the server's can hold it, and the end some time after the last."""


@pytest.mark.parametrize("behind", ["", "; COMMIT"])
def test_an_end_that_comes_late_is_waited_for_also_with_a_statement_behind_it(
    behind: str, connection: Connection
) -> None:
    if behind:
        connection.execute("BEGIN")
    statement = sql.SQL("COPY ({}) TO STDOUT").format(sql.SQL(SLOW_END)) + sql.SQL("; COMMIT" if behind else "")
    rows = [block for blocks in copied_blocks(connection, statement) for block in blocks]
    assert [len(row) for row in rows] == [20001, 20001]
    assert connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


@pytest.mark.parametrize("behind", ["", "; COMMIT"])
def test_an_error_at_the_end_is_raised(behind: str, connection: Connection) -> None:
    if behind:
        connection.execute("BEGIN")
    failing = SLOW_END.replace("IS NULL", "IS NOT NULL AND 1 / (n - 3) = 0")
    statement = sql.SQL("COPY ({}) TO STDOUT").format(sql.SQL(failing)) + sql.SQL("; COMMIT" if behind else "")
    with pytest.raises(psycopg.errors.DivisionByZero):
        list(copied_blocks(connection, statement))


def test_blocks_are_handed_on_before_the_next_are_received(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A block may be a row of a hundred MiB."""
    monkeypatch.setattr(copy_out, "BLOCKS", 1)
    endless = SLOW_END.replace("pg_sleep(0.3)", "pg_sleep(600)")
    blocks = copied_blocks(connection, sql.SQL("COPY ({}) TO STDOUT").format(sql.SQL(endless)))
    assert [len(next(blocks)), next(blocks).size] == [1, 20001]
    connection.cancel_safe()
    with pytest.raises(psycopg.errors.QueryCanceled):
        next(blocks)


def test_a_run_of_blocks_that_was_taken_is_not_kept_by_who_handed_it_on(connection: Connection) -> None:
    """Of rows of a hundred MiB there would be one more."""
    size = 20 << 20
    statement = sql.SQL("COPY (SELECT repeat('x', {}) FROM generate_series(1, 4)) TO STDOUT").format(sql.Literal(size))
    sizes: list[int] = []

    def read() -> None:
        sizes.extend(len(blocks.take()[0]) for blocks in copied_blocks(connection, statement))

    assert peak_of(read) < 1.2 * size
    assert sizes == [size + 1] * 4 + [0]
