"""What is wrong with what was asked for: the configuration, a query, a request, a proof that found a difference."""

from __future__ import annotations

from walhouse.errors.base import WalhouseError


class ConfigurationError(WalhouseError):
    """The configuration is wrong: unknown key, wrong type, contradiction. Fields: file, path."""

    exit_code = 2
    safe = "Nothing was read from the source and nothing was written."


class SecretError(ConfigurationError):
    """A reference to a secret cannot be resolved. Fields: reference (never the value)."""


class SnapshotUnfinishedError(ConfigurationError):
    """An initial snapshot was interrupted, and the mode of now forbids to go on with it. Fields: tables."""

    safe = "What bronze holds of it stays, and is not read again."
    todo = "Set snapshot.mode to what it was, or to initial; or begin a new lake."


class NotStreamingError(ConfigurationError):
    """What was asked for needs the stream, and the mode does not capture it."""

    todo = "Set snapshot.mode to one that streams, as initial does."


class NameCollisionError(ConfigurationError):
    """Two source tables would become one lake table. Fields: tables, name."""


class FieldCollisionError(ConfigurationError):
    """Two columns of a table would be printed under one name. Fields: table, columns, name."""

    safe = "Nothing was printed, and the lake is as it was."


class QueryError(WalhouseError):
    """A query that Spark does not understand, that names what is not there, or that a row made fail."""

    exit_code = 2
    todo = "Correct the query. Tables: bronze.wal_readable, silver.<schema>_<table>, gold.<schema>_<table>, ops.*."


class RequestRefusedError(WalhouseError):
    """A signal or a snapshot that was asked for cannot be followed. Fields: id, table."""

    exit_code = 2
    safe = "Nothing was read; streaming goes on."


class NotProvenError(WalhouseError):
    """verify found a difference, or a table that it cannot compare. Fields: tables."""

    exit_code = 6
    safe = "Nothing was changed; the differing keys are listed above."
