"""How to reach the source: all that a connection needs, resolved, ready to be sent to a task.

Invariant: neither repr nor error shows a password; it leaves through ``parameters()``, which goes to the driver's
``connect`` and nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from walhouse.config.secrets import Secret


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
            "sslpassword": None if self.sslpassword is None else self.sslpassword.reveal(),
            "sslrootcert": self.sslrootcert,
            "application_name": self.application_name,
        }
        return {name: value for name, value in given.items() if value is not None}
