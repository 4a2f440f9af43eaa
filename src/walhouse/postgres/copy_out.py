"""The raw blocks of a COPY ... TO STDOUT.

Invariant: if the iterator ends without an error, the server has said that the COPY is complete.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import psycopg
from psycopg import generators, pq
from psycopg.waiting import Wait

from walhouse.pgoutput.blocks import Blocks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from psycopg import sql
    from psycopg.abc import PQGen

    from walhouse.postgres.connection import Connection

BLOCKS: Final = 20_000
"""At most so many blocks in one run."""

BYTES: Final = 16 * 1024 * 1024
"""A run ends with the block that reaches so many bytes."""


def copied_blocks(connection: Connection, statement: sql.Composed) -> Iterator[Blocks]:
    """Run the COPY and hand out its blocks in runs that are bounded by count and bytes. Raises psycopg.Error.

    libpq is used directly: at hundreds of thousands of rows a second the driver's own COPY would be half of the cost.
    """
    pgconn = connection.pgconn
    pgconn.send_query(statement.as_bytes(connection))
    _require(connection.wait(generators.execute(pgconn)), pq.ExecStatus.COPY_OUT)
    blocks = Blocks()
    while True:
        length, data = pgconn.get_copy_data(1)
        if length > 0:
            blocks.octets += data
            blocks.ends.append(len(blocks.octets))
            del data  # psycopg's copy of it
            if len(blocks.octets) >= BYTES or len(blocks.ends) >= BLOCKS:
                yield blocks
                blocks = Blocks()
        elif length == 0:
            connection.wait(_received(pgconn))
        else:
            break
    _require(connection.wait(generators.fetch_many(pgconn)), pq.ExecStatus.COMMAND_OK)
    yield blocks


def _received(pgconn: pq.abc.PGconn) -> PQGen[None]:
    """More from the server. Not the driver's ``copy_from``: at the COPY's end it suffers no statement behind it, as the
    transaction's end is one, and whether it or we come upon that is a matter of time."""
    while not (yield Wait.R):
        pass
    pgconn.consume_input()


def _require(results: list[pq.abc.PGresult], status: pq.ExecStatus) -> None:
    if not results:
        raise psycopg.OperationalError("the server closed the connection")
    if results[-1].status != status:
        raise psycopg.errors.error_from_result(results[-1])
