"""How to reach the source: all that a connection needs, resolved, ready to be sent to a task.

Invariant: neither repr nor error shows a password; it leaves through ``parameters()``, which goes to the driver's
``connect`` and nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass

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
    initial_statements: tuple[str, ...] = ()
    """SQL to run after each connect, in order (``database.initial.statements``)."""

    def parameters(self) -> dict[str, str | int]:
        """libpq's connection parameters (PostgreSQL documentation, "Parameter Key Words"), the password among them."""
        given: dict[str, str | int | None] = {
            "host": self.host,
            "port": self.port,
            "user": self.user,
            "password": self.password and self.password.reveal(),
            "dbname": self.database,
            "sslmode": self.sslmode,
            "sslcert": self.sslcert,
            "sslkey": self.sslkey,
            "sslpassword": self.sslpassword and self.sslpassword.reveal(),
            "sslrootcert": self.sslrootcert,
            "application_name": self.application_name,
        }
        return {name: value for name, value in given.items() if value is not None}
