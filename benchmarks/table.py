"""What is measured on: a table of twelve columns, its rows, and changes to it, all made by the server.

Invariant: ``make_changes`` makes exactly as many changes as it says, each of one row.
"""

from __future__ import annotations

import json
from typing import Final, NamedTuple

import psycopg

TABLE: Final = "bench.items"
SIGNALS: Final = "bench.signals"
_TRANSACTION: Final = 1_000

_SCHEMA: Final = """
CREATE SCHEMA bench;
CREATE TABLE bench.signals (id text PRIMARY KEY, type text, data text);
CREATE TABLE bench.items (
    id bigint PRIMARY KEY,
    customer integer NOT NULL,
    kind text NOT NULL,
    amount numeric(12, 2) NOT NULL,
    quantity smallint NOT NULL,
    ratio double precision NOT NULL,
    active boolean NOT NULL,
    created_at timestamptz NOT NULL,
    day date NOT NULL,
    reference uuid NOT NULL,
    payload jsonb NOT NULL,
    note text
);

CREATE FUNCTION bench.item(id bigint) RETURNS bench.items LANGUAGE sql IMMUTABLE AS $$
    SELECT id, (id * 7919 % 100000)::integer, (ARRAY['web', 'app', 'till', 'post'])[1 + id % 4],
        (id * 31 % 1000000)::numeric / 100, (id % 500)::smallint, id / 7.0::double precision, id % 3 = 0,
        timestamptz '2024-01-01 00:00:00+00' + id * interval '1.000001 s', date '2024-01-01' + (id % 1000)::integer,
        md5(id::text)::uuid, jsonb_build_object('n', id, 'tags', ARRAY['a', 'b'], 'text', 'item ' || id),
        CASE WHEN id % 5 > 0 THEN 'a note of some length about item number ' || id END
$$;

-- The rows that live are always those from low to high; inserts go to the end, deletes take the beginning, updates fall
-- in between. Ten rounds a transaction mix the three.
CREATE PROCEDURE bench.change(transactions bigint, each bigint) LANGUAGE plpgsql AS $$
DECLARE
    low bigint; high bigint; start bigint; part bigint := each / 10;
BEGIN
    SELECT min(id), max(id) + 1 INTO low, high FROM bench.items;
    FOR transaction IN 1 .. transactions LOOP
        FOR round IN 1 .. 10 LOOP
            INSERT INTO bench.items
                SELECT item.* FROM generate_series(high, high + part * 2 / 5 - 1) n, bench.item(n) item;
            high := high + part * 2 / 5;
            start := low + part + (transaction * 7919 + round * 104729) % (high - low - part * 17);
            UPDATE bench.items
                SET amount = amount + 1, quantity = (quantity + 1) % 500, created_at = created_at + interval '1 h'
                WHERE id IN (SELECT start + n * 37 FROM generate_series(0, part * 2 / 5 - 1) n);
            DELETE FROM bench.items WHERE id >= low AND id < low + part / 5;
            low := low + part / 5;
        END LOOP;
        COMMIT;
    END LOOP;
END
$$;
"""


class Source(NamedTuple):
    """A database to measure on: its name, and how to reach it as the owner."""

    database: str
    dsn: str


def create_table(source: Source, rows: int) -> None:
    """Create the table with its rows; statistics and hint bits are set, as in a table that lives."""
    with psycopg.connect(source.dsn, autocommit=True) as connection:
        connection.execute(_SCHEMA)
        fill = "INSERT INTO bench.items SELECT item.* FROM generate_series(1, %s) n, bench.item(n) item"
        connection.execute(fill, [rows])
        connection.execute("VACUUM (ANALYZE, FREEZE) bench.items")
        connection.execute("CHECKPOINT")


def make_changes(source: Source, changes: int) -> None:
    """Commit changes in transactions of 1,000: two in five insert, two in five update, one in five deletes."""
    transactions, rest = divmod(changes, _TRANSACTION)
    if rest:
        raise ValueError(f"The number of changes must be a multiple of {_TRANSACTION}.")
    with psycopg.connect(source.dsn, autocommit=True) as connection:
        connection.execute("CALL bench.change(%s, %s)", [transactions, _TRANSACTION])


def count_rows(source: Source) -> int:
    """How many rows the table has now."""
    with psycopg.connect(source.dsn) as connection:
        row = connection.execute(f"SELECT count(*) FROM {TABLE}".encode()).fetchone()
    assert row is not None
    return int(row[0])


def create_slot(source: Source, slot: str, *, signals: bool = False) -> None:
    """A slot from here on, for whoever reads the WAL without a snapshot; with a publication of the table."""
    tables = f"{TABLE}, {SIGNALS}" if signals else TABLE
    with psycopg.connect(source.dsn, autocommit=True) as connection:
        connection.execute(f"DROP PUBLICATION IF EXISTS {slot}".encode())
        connection.execute(f"CREATE PUBLICATION {slot} FOR TABLE {tables}".encode())
        connection.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [slot])


def signal_snapshot(source: Source) -> None:
    """Ask for an incremental snapshot of the table, as Debezium's users do."""
    data = json.dumps({"data-collections": [TABLE.replace(".", "\\.")], "type": "incremental"})
    with psycopg.connect(source.dsn, autocommit=True) as connection:
        connection.execute("DELETE FROM bench.signals")
        connection.execute("INSERT INTO bench.signals VALUES ('bench', 'execute-snapshot', %s)", [data])


def drop_slot(source: Source, slot: str) -> None:
    """Remove it again, so that it holds no WAL while the other one is measured."""
    with psycopg.connect(source.dsn, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s", [slot]
        )
