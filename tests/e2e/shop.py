"""A small shop in a database of its own, and a configuration file that names it and an empty lake."""

from __future__ import annotations

import os
import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import psycopg
import yaml
from psycopg import sql
from psycopg.conninfo import make_conninfo

from fixtures.shop.rows import Scale, create_shop
from walhouse.lakehouse.session import SMALL_TABLES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fixtures_server import Server

SMALL: Final = Scale(customers=120, products=40, orders=150)
_SHOWN: Final = ("customers", "orders", "bestsellers")
"""A TOASTed column, ordinary changes, and truncates: what there is to see. The demo has all tables."""


@dataclass(frozen=True)
class SmallShop:
    """Where it is."""

    dsn: str
    conf: Path


@contextmanager
def small_shop(server: Server, folder: Path) -> Iterator[SmallShop]:
    """The shop; its slot and its database are dropped afterwards."""
    name = f"shop_{uuid.uuid4().hex[:12]}"
    settings = server.settings(name)
    dsn = make_conninfo(server.dsn, dbname=name)
    password = folder / "password"
    password.write_text("" if settings.password is None else settings.password.reveal())
    connector = {
        "topic.prefix": "shop",
        "database.hostname": settings.host,
        "database.port": settings.port,
        "database.user": settings.user,
        "database.password": "${file:password}",
        "database.dbname": name,
        "slot.name": name,
        "publication.name": name,
        "publication.autocreate.mode": "filtered",
        "table.include.list": ",".join(f"shop.{table}" for table in _SHOWN),
    }
    conf = folder / "shop.yml"
    conf.write_text(yaml.safe_dump({"connector": connector, "lake": {"path": "lake"}}))
    with psycopg.connect(server.dsn, autocommit=True) as admin:
        admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        try:
            create_shop(dsn, SMALL)
            yield SmallShop(dsn, conf)
        finally:
            drop = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s"
            admin.execute(drop, [name])
            admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def environment(spark_conf: Path | None = None, **more: str) -> dict[str, str]:
    """This process's environment for a child that uses the sources as they are here.

    ``spark_conf``: a folder that tells the child's Spark how small its tables are.
    """
    root = Path(__file__).resolve().parents[2]
    if spark_conf is not None:
        lines = (f"{name} {value}\n" for name, value in SMALL_TABLES.items())
        (spark_conf / "spark-defaults.conf").write_text("".join(lines))
        more["SPARK_CONF_DIR"] = str(spark_conf)
    return {**os.environ, "PYTHONPATH": f"{root}:{root / 'src'}", **more}
