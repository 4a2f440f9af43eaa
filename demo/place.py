"""Where the demo lives: the folder that its configuration names, with the server, the password and the lake in it.

Invariant: nothing is written outside of that folder, and ``clean`` leaves nothing of it.
"""

from __future__ import annotations

import secrets
import shutil
import socket
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from fixtures.server import EmbeddedServer
from fixtures.shop.rows import Scale, create_shop
from walhouse.config.configuration import Configuration, load
from walhouse.config.secrets import SecretReference

_MARK: Final = ".walhouse-demo"
_SETTINGS: Final = {"max_slot_wal_keep_size": "2GB"}
"""As one should: a slot that nobody reads must not fill the disk."""


class DemoError(Exception):
    """Something that the person in front of the demo can mend."""


@dataclass(frozen=True)
class Place:
    """The demo's folder, and the configuration that names it."""

    configuration: Configuration
    folder: Path
    password_file: Path

    @classmethod
    def of(cls, file: Path) -> Self:
        """The place that a configuration describes: a local lake, and a password in a file beside it."""
        configuration = load(file)
        lake, password = configuration.lake.path, configuration.connector.database_password
        if lake is None or not isinstance(password, SecretReference) or password.store != "file":
            raise DemoError(
                f"{file} is no configuration for the demo: it needs lake.path and a ${{file:...}} password."
            )
        return cls(configuration, lake.parent, (configuration.base / password.name).resolve())

    @property
    def is_new(self) -> bool:
        """True before the first run."""
        lake = self.configuration.lake.path
        return lake is None or not lake.exists()

    @property
    def server_folder(self) -> Path:
        """Where the server is."""
        return self.folder / "postgres"

    @property
    def log(self) -> Path:
        """Where the output of Spark goes."""
        return self.folder / "spark.log"

    @property
    def dsn(self) -> str:
        """The shop's database, as walhouse's own user."""
        connector = self.configuration.connector
        return make_conninfo(
            host=connector.database_hostname,
            port=connector.database_port,
            user=connector.database_user,
            password=self.password_file.read_text().strip(),
            dbname=connector.database_dbname,
        )

    def next_run(self) -> int:
        """The number of this run, from 1; it is written down, so that each run's workload is another one."""
        file = self.folder / "runs"
        number = int(file.read_text()) + 1 if file.exists() else 1
        file.write_text(str(number))
        return number

    def start_server(self) -> EmbeddedServer:
        """Start the server, or find it running. Raises DemoError if its port belongs to somebody else."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / _MARK).touch()
        _forget_stale_server(self.server_folder / "data")
        port = self.configuration.connector.database_port
        if not (self.server_folder / "data" / "postmaster.pid").exists() and not _is_free(port):
            raise DemoError(f"Port {port} is taken by another program: set another database.port in {self._file_name}.")
        return EmbeddedServer.start(self.server_folder, port=port, settings=_SETTINGS)

    def ensure_shop(self, server: EmbeddedServer, scale: Scale) -> bool:
        """Make the user, the database and the shop in it, where they are missing. True if the shop is new."""
        connector = self.configuration.connector
        user, database = connector.database_user, connector.database_dbname
        with psycopg.connect(server.dsn(), autocommit=True) as admin:
            self._ensure_user(admin, user)
            if admin.execute("SELECT FROM pg_database WHERE datname = %s", [database]).rowcount == 0:
                create = sql.SQL("CREATE DATABASE {} OWNER {}").format(sql.Identifier(database), sql.Identifier(user))
                admin.execute(create)
        with psycopg.connect(self.dsn) as connection:
            if connection.execute("SELECT to_regclass('shop.bestsellers')").fetchone() != (None,):
                return False
        create_shop(self.dsn, scale)
        return True

    def clean(self) -> None:
        """Stop the server and remove the folder."""
        if not self.folder.exists():
            return
        if not (self.folder / _MARK).exists():
            raise DemoError(f"{self.folder} was not made by the demo, so it is left alone.")
        data = self.server_folder / "data"
        if data.exists():
            _forget_stale_server(data)
            EmbeddedServer(self.server_folder).stop("immediate")
        shutil.rmtree(self.folder)
        if self.folder.parent.name == ".walhouse" and not any(self.folder.parent.iterdir()):
            self.folder.parent.rmdir()

    @property
    def _file_name(self) -> str:
        return str(self.configuration.file)

    def _ensure_user(self, admin: psycopg.Connection[tuple[object, ...]], user: str) -> None:
        """An ordinary user that may replicate; it owns the shop and nothing else."""
        if not self.password_file.exists():
            self.password_file.touch(mode=0o600)
            self.password_file.write_text(secrets.token_urlsafe(24))
        password = sql.Literal(self.password_file.read_text().strip())
        exists = admin.execute("SELECT FROM pg_roles WHERE rolname = %s", [user]).rowcount > 0
        verb = sql.SQL("ALTER" if exists else "CREATE")
        admin.execute(sql.SQL("{} ROLE {} LOGIN REPLICATION PASSWORD {}").format(verb, sql.Identifier(user), password))


def _forget_stale_server(data: Path) -> None:
    """Remove the pid file of a server that is gone, as after a restart of the machine: its pid may be another's now."""
    file = data / "postmaster.pid"
    if file.exists() and "postgres" not in _command(int(file.read_text().split(maxsplit=1)[0])):
        file.unlink()


def _command(pid: int) -> str:
    """The command line of a process, empty if there is none."""
    if Path("/proc/self").exists():
        file = Path(f"/proc/{pid}/cmdline")
        return file.read_bytes().decode(errors="replace") if file.exists() else ""
    return subprocess.run(["ps", "-p", str(pid), "-o", "command="], capture_output=True, text=True, check=False).stdout


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
