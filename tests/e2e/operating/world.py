"""One source and one lake, and what its operators know of them.

Nothing is modelled that can be asked for: a step looks at the catalog and takes what is there, so that any part of a
sequence is a sequence, too. What the operators have to remember is what the documents ask of them: which tables have
rows that changed without a change in the WAL, and what was lost.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

import psycopg

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import SparkSession

    from fixtures.server import EmbeddedServer
    from tests.fixtures_server import Database
    from walhouse.api import Walhouse
    from walhouse.lakehouse.layout import LakeLayout

SCHEMA: Final = (
    "CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy')",
    "CREATE TABLE a (id int PRIMARY KEY, v text, n numeric(10,2))",
    "CREATE TABLE b (k mood, m numeric(6,2), v text, PRIMARY KEY (m, k))",
    "CREATE TABLE c (w text, n int)",
    "ALTER TABLE c REPLICA IDENTITY FULL",
    "CREATE TABLE d (id int PRIMARY KEY, body text, v int)",
    "ALTER TABLE d ALTER body SET STORAGE EXTERNAL",
    "CREATE TABLE p (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)",
    "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (MINVALUE) TO (15)",
    "CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (15) TO (MAXVALUE)",
    "CREATE TABLE signals (id varchar(42) PRIMARY KEY, type varchar(32), data varchar(2048))",
    "INSERT INTO a SELECT n, 'a' || n, n / 4.0 FROM generate_series(1, 20) n",
    "INSERT INTO b SELECT (enum_range(NULL::mood))[1 + n % 3], n, 'b' FROM generate_series(1, 12) n",
    "INSERT INTO c SELECT 'w' || n % 3, n % 2 FROM generate_series(1, 12) n",
    "INSERT INTO d SELECT n, repeat('d', 3000), n FROM generate_series(1, 12) n",
    "INSERT INTO p SELECT n, 'p' FROM generate_series(5, 25) n",
)
SETTINGS: Final[Mapping[str, Any]] = {
    "table_exclude_list": None,
    "column_exclude_list": None,
    "column_mask_with_6_chars": None,
    "decimal_handling_mode": "precise",
    "incremental_snapshot_chunk_size": 4,
    "lake_snapshot_pass_rows": 12,
    "lake_snapshot_pass_pages": 1,
    "snapshot_mode": "initial",
    "snapshot_lock_timeout_ms": 400,
    "signal_data_collection": "public.signals",
}
PUBLICATIONS: Final = (None, "FOR ALL TABLES", "FOR ALL TABLES WITH (publish_via_partition_root)")
"""None: walhouse makes one of the captured tables."""


@dataclass(frozen=True)
class Column:
    name: str
    type: str
    is_key: bool
    labels: tuple[str, ...]
    is_null: bool


@dataclass(frozen=True)
class Table:
    name: str
    columns: tuple[Column, ...]
    is_parted: bool
    is_leaf: bool


@dataclass
class World:
    server: EmbeddedServer
    database: Database
    spark: SparkSession
    lake: LakeLayout
    make: Callable[..., Walhouse]
    publication: str | None = None
    settings: dict[str, Any] = field(default_factory=lambda: dict(SETTINGS))
    began: float = field(default_factory=time.monotonic)
    open: list[psycopg.Connection[Any]] = field(default_factory=list)
    """Sessions in a transaction."""
    unread: dict[str, str] = field(default_factory=dict)
    """Tables of which rows changed without a change, and what the documents ask for: part, whole or rebuild."""
    untold: set[str] = field(default_factory=set)
    """Tables of which silver has no event of some changes, as the documents have it."""
    rekeyed: set[str] = field(default_factory=set)
    retyped: set[str] = field(default_factory=set)
    lost: set[str] = field(default_factory=set)
    """slot, publication: what an operator took away."""
    set_back: set[tuple[Literal["silver", "gold"], str]] = field(default_factory=set)
    """Tables of a layer that somebody else has changed, and that are to be made anew."""
    _house: Walhouse | None = None

    @property
    def house(self) -> Walhouse:
        if self._house is None:
            self._house = self.make(**{name: value for name, value in self.settings.items() if value is not None})
        return self._house

    def anew(self) -> None:
        """Whoever uses the house next is another process, as far as the house can tell."""
        if self._house is not None:
            self._house.close()
        self._house = None

    def configure(self, **settings: Any) -> None:
        self.settings.update(settings)
        self.say(f"settings {settings}")
        self.anew()

    def say(self, what: str) -> None:
        """What was done, and after how many seconds, for whoever reads of a failure."""
        print(f"{time.monotonic() - self.began:6.1f} {what}", flush=True)

    def sql(self, *statements: str, conn: psycopg.Connection[Any] | None = None) -> bool:
        """Whether the server did it: what it refuses, or would wait for, is no step. All in one transaction."""
        text = "; ".join(statements)
        try:
            if conn is None:
                with self.database.connect(autocommit=False) as once:
                    once.execute("SET LOCAL lock_timeout = '300ms'")
                    for statement in statements:
                        once.execute(statement.encode())
            else:
                with conn.transaction():
                    for statement in statements:
                        conn.execute(statement.encode())
        except psycopg.Error as error:
            self.say(f"refused: {_short(text)}: {str(error).splitlines()[0]}")
            return False
        self.say(_short(text) if conn is None else f"in session {self.open.index(conn)}: {_short(text)}")
        return True

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        with self.database.connect() as conn:
            return conn.execute(query.encode()).fetchall()

    def tables(self) -> list[Table]:
        """Those of schema public, but for the signals'."""
        rows = self.ask(
            "SELECT c.relname, c.relkind = 'p', c.relispartition, a.attname, format_type(a.atttypid, a.atttypmod),"
            " coalesce(a.attnum = ANY(i.indkey), false), NOT a.attnotnull,"
            " array(SELECT enumlabel::text FROM pg_enum WHERE enumtypid = a.atttypid ORDER BY enumsortorder)"
            " FROM pg_class c JOIN pg_attribute a ON attrelid = c.oid AND attnum > 0 AND NOT attisdropped"
            " LEFT JOIN pg_index i ON i.indrelid = c.oid AND i.indisprimary"
            " WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND relname <> 'signals'"
            " ORDER BY relname, attnum"
        )
        found: dict[str, list[tuple[Any, ...]]] = {}
        for row in rows:
            found.setdefault(row[0], []).append(row)
        return [
            Table(name, tuple(Column(r[3], r[4], r[5], tuple(r[7]), r[6]) for r in of), of[0][1], of[0][2])
            for name, of in found.items()
        ]

    def published(self) -> set[str]:
        """Names of the tables that the publication has, as it sends them."""
        rows = self.ask("SELECT tablename FROM pg_publication_tables WHERE pubname = 'walhouse_test'")
        return {name for (name,) in rows}

    def leave(self, table: str, how: str) -> None:
        """Its rows changed unseen: silver does not tell of it, and gold not before it is read."""
        order = ("rebuild", "part", "whole")
        self.unread[table] = max(how, self.unread.get(table, how), key=order.index)
        self.untold.add(table)

    def end_sessions(self, *, commit: bool = True) -> None:
        while self.open:
            conn = self.open.pop()
            with suppress(psycopg.Error):
                conn.commit() if commit else conn.rollback()
            conn.close()
        for (name,) in self.ask("SELECT gid FROM pg_prepared_xacts WHERE database = current_database()"):
            with self.database.connect() as once:
                once.execute(f"{'COMMIT' if commit else 'ROLLBACK'} PREPARED '{name}'".encode())
        self.say(f"all sessions {'commit' if commit else 'roll back'}")


def _short(text: str) -> str:
    return text if len(text) < 400 else f"{text[:400]}…"
