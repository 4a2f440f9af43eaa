"""How to reach the source: all that a connection needs, resolved, ready to be sent to a task.

Invariant: neither repr nor error shows a password; it leaves through ``parameters()``, which goes to the driver's
``connect`` and nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from walhouse.errors import ConfigurationError

if TYPE_CHECKING:
    from walhouse.config.secrets import Secret


_NOT_ASKED: Final = "-"
"""A private key's password where none is given. Any text will do: without one OpenSSL asks for it at the terminal, in
tasks, too, and a command that is started there waits."""


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """Where the server is and who asks. Files are absolute paths. Can be pickled."""

    host: str
    port: int
    user: str
    password: Secret | None
    database: str
    sslmode: str = "prefer"
    sslcert: str | None = None
    sslkey: str | None = None
    sslpassword: Secret | None = None
    sslrootcert: str | None = None
    application_name: str = "walhouse"
    read_only: bool = False
    """Whether the server is to refuse whatever would write (``read.only``)."""
    initial_statements: tuple[str, ...] = field(default=(), repr=False)
    """SQL to run after each connect, in order (``database.initial.statements``); may hold what nobody is to see."""
    server_since: str | None = None
    """Since when the only server runs that a session may be on; None: on whichever answers."""

    def parameters(self) -> dict[str, str | int]:
        """libpq's connection parameters (PostgreSQL documentation, "Parameter Key Words"), the password among them."""
        given: dict[str, str | int | None] = {
            # an IPv6 address as JDBC, thus Debezium, wants it
            "host": ",".join(host.removeprefix("[").removesuffix("]") for host in self.host.split(",")),
            "port": self.port,
            "user": self.user,
            "password": None if self.password is None else self.password.reveal(),
            "dbname": self.database,
            "sslmode": self.sslmode,
            "sslcert": self.sslcert,
            "sslkey": self.sslkey,
            "sslpassword": _NOT_ASKED if self.sslpassword is None else self.sslpassword.reveal(),
            "sslrootcert": self.sslrootcert,
            "application_name": self.application_name,
        }
        return {name: value for name, value in given.items() if value is not None}

    def require_files(self) -> None:
        """Raises ConfigurationError if a file is named that is not there, where this process runs: without that of the
        authority libpq would take any server for the right one, and without that of the certificate show none.
        """
        named = {"sslrootcert": self.sslrootcert, "sslcert": self.sslcert, "sslkey": self.sslkey}
        for name, file in named.items():
            if file is not None and not Path(file).exists():
                raise ConfigurationError(
                    f"The file {file} of database.{name} is not there.",
                    safe="No connection was made without it.",
                    todo="Correct the path, which is relative to the configuration file; tasks on other machines need"
                    " the file at the same place.",
                    path=f"connector.database.{name}",
                )
