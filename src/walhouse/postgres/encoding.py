"""The encoding of the source's text.

Invariant: all text that is read is UTF-8. A database that says SQL_ASCII promises no encoding, and the server sends its
bytes as they are, whatever client_encoding says.
Source: PostgreSQL documentation, "Character Set Support".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from walhouse.errors import UnsupportedServerError
from walhouse.postgres.connection import one_row

if TYPE_CHECKING:
    from walhouse.postgres.connection import Connection

_UNKNOWN: Final = "SQL_ASCII"
NO_ENCODING: Final = (
    "The database says SQL_ASCII: its text is bytes of any encoding, which the server sends unconverted."
)
NO_ENCODING_ADVICE: Final = (
    "Move the data into a database with a real encoding; what is not UTF-8 could not be told from what is."
)


def encoding_of(connection: Connection) -> str | None:
    """The database's encoding; None if it has none."""
    (encoding,) = one_row(connection, "SELECT current_setting('server_encoding')")
    return None if encoding == _UNKNOWN else str(encoding)


def require_encoding(connection: Connection) -> None:
    """Raises UnsupportedServerError for a database whose text has no encoding."""
    if encoding_of(connection) is None:
        raise UnsupportedServerError(NO_ENCODING, safe="Nothing was read from it.", todo=NO_ENCODING_ADVICE)
