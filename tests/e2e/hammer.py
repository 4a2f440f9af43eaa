"""Writers that do everything to a few tables at once: what a whole-path test is run under."""

from __future__ import annotations

import random
import threading
from typing import TYPE_CHECKING, Any

import psycopg

from walhouse.names import TableName

if TYPE_CHECKING:
    from types import TracebackType

    from tests.fixtures_server import Database

SCHEMA = (
    "CREATE TABLE docs (id int PRIMARY KEY, title text, body text, score double precision, at timestamptz)",
    "ALTER TABLE docs ALTER body SET STORAGE EXTERNAL",
    'CREATE TABLE "Größe, mm" (a int, "B b" text, c numeric(8,3), PRIMARY KEY ("B b", a))',
    "CREATE TABLE full_key (id int PRIMARY KEY, body text, flag boolean)",
    "ALTER TABLE full_key REPLICA IDENTITY FULL",
    "ALTER TABLE full_key ALTER body SET STORAGE EXTERNAL",
    "CREATE TABLE bag (word text, n int, x real)",
    "ALTER TABLE bag REPLICA IDENTITY FULL",
    "CREATE TABLE measured (id int, region text, v numeric(10,2), PRIMARY KEY (id, region)) PARTITION BY LIST (region)",
    "CREATE TABLE measured_north PARTITION OF measured FOR VALUES IN ('north')",
    "CREATE TABLE measured_rest PARTITION OF measured DEFAULT",
    "CREATE TABLE small (id int PRIMARY KEY, d date)",
)
LONG, LONG_SECONDS = 0.02, 1.5
"""How many transactions stay open over several chunks, and for how long at most."""

PREPARED, PREPARED_SECONDS = 0.05, 0.3

TABLES = tuple(TableName("public", name) for name in ("docs", "Größe, mm", "full_key", "bag", "measured", "small"))


class Hammer(threading.Thread):
    """One writer with a seed of its own; several of them meet on the same keys."""

    def __init__(self, database: Database, seed: int, transactions: int, *, pause: float = 0.0) -> None:
        """``pause``: seconds after each transaction, where the machine is needed for what it is tested with."""
        super().__init__(name=f"hammer-{seed}", daemon=True)
        self._database = database
        self._chance = random.Random(seed)
        self._transactions = transactions
        self._pause = pause
        self._stopped = threading.Event()
        self.failure: BaseException | None = None
        self.committed = 0

    def __enter__(self) -> Hammer:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        self.join()
        if self.failure is not None and kind is None:
            raise self.failure

    def run(self) -> None:
        try:
            with self._database.connect(autocommit=False) as connection:
                while self.committed < self._transactions and not self._stopped.is_set():
                    self._transaction(connection)
                    self._stopped.wait(self._pause)
        except BaseException as failure:  # noqa: BLE001  (raised where the thread is waited for)
            self.failure = failure

    def _transaction(self, connection: psycopg.Connection[Any]) -> None:
        try:
            for _ in range(self._chance.randint(1, 4)):
                self._act(connection)
            if self._chance.random() < LONG:
                self._stopped.wait(self._chance.random() * LONG_SECONDS)
            self._end(connection)
        except (
            psycopg.errors.UniqueViolation,
            psycopg.errors.DeadlockDetected,
            psycopg.errors.LockNotAvailable,
            psycopg.errors.SerializationFailure,
        ):  # writers meet on the same keys: that transaction is rolled back
            connection.rollback()

    def _end(self, connection: psycopg.Connection[Any]) -> None:
        """Commit or roll back, some in the two steps of a prepared transaction with a pause between."""
        kept = self._chance.random() >= 0.15
        if self._chance.random() < PREPARED:
            name = f"{self._database.name}_{self.name}_{self.committed}"
            connection.execute(f"PREPARE TRANSACTION '{name}'".encode())
            connection.commit()
            self._stopped.wait(self._chance.random() * PREPARED_SECONDS)
            connection.autocommit = True
            connection.execute(f"{'COMMIT' if kept else 'ROLLBACK'} PREPARED '{name}'".encode())
            connection.autocommit = False
        elif kept:
            connection.commit()
        else:
            connection.rollback()
        self.committed += kept

    def _act(self, connection: psycopg.Connection[Any]) -> None:
        chance = self._chance
        key, other = chance.randint(1, 40), chance.randint(1, 40)
        body = chance.choice("abc") * chance.choice((5, 3000, 9000))
        region = chance.choice(("north", "south", "east"))
        statement, values = chance.choice(
            (
                ("INSERT INTO docs VALUES (%s, %s, %s, %s, clock_timestamp())", (key, "t", body, chance.random())),
                ("INSERT INTO docs VALUES (%s, NULL, %s, 'NaN', 'epoch')", (key, body)),
                ("UPDATE docs SET title = %s WHERE id = %s", (str(other), key)),
                ("UPDATE docs SET id = %s, title = 'moved' WHERE id = %s", (other, key)),
                ("UPDATE docs SET body = %s WHERE id = %s", (body, key)),
                ("DELETE FROM docs WHERE id = %s", (key,)),
                ('INSERT INTO "Größe, mm" VALUES (%s, %s, %s)', (key, f"ü{other % 5}", chance.random() * 100)),
                ('UPDATE "Größe, mm" SET a = a + 50, c = -c WHERE a = %s', (key,)),
                ('DELETE FROM "Größe, mm" WHERE a = %s', (key,)),
                ("INSERT INTO full_key VALUES (%s, %s, true)", (key, body)),
                ("UPDATE full_key SET flag = NOT flag WHERE id = %s", (key,)),
                ("UPDATE full_key SET id = %s WHERE id = %s", (other, key)),
                ("DELETE FROM full_key WHERE id = %s", (key,)),
                ("INSERT INTO bag SELECT %s, g %% 2, '-0' FROM generate_series(1, 3) g", (chance.choice("pq"),)),
                ("UPDATE bag SET n = n + 1 WHERE ctid = (SELECT min(ctid) FROM bag)", ()),
                ("DELETE FROM bag WHERE ctid = (SELECT max(ctid) FROM bag)", ()),
                ("INSERT INTO measured VALUES (%s, %s, %s)", (key, region, chance.random() * 10)),
                ("UPDATE measured SET region = %s, v = v + 1 WHERE id = %s", (region, key)),
                ("DELETE FROM measured WHERE id = %s", (key,)),
                ("INSERT INTO small VALUES (%s, current_date)", (key,)),
                ("SAVEPOINT s; DELETE FROM small; ROLLBACK TO s", ()),
                ("SELECT pg_logical_emit_message(%s, 'hammer', 'x')", (chance.random() < 0.5,)),
            )
        )
        connection.execute(statement.encode(), values or None)
        if chance.random() < 0.02:
            connection.execute("SET LOCAL lock_timeout = '200ms'")
            connection.execute("TRUNCATE small")
