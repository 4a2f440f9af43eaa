"""What capture needs to know, taken from the configuration once.

Invariant: a plain value that can be pickled and printed; the secret within ``connection`` does not show.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from walhouse.bronze.requests.channels import SignalSettings
    from walhouse.bronze.snapshots.modes import SnapshotPolicy
    from walhouse.config.connection import ConnectionSettings
    from walhouse.config.filters import NameFilter, TableFilter
    from walhouse.config.masks import Masks
    from walhouse.config.replica_identity import IdentityRules
    from walhouse.config.values import AutocreateMode


@dataclass(frozen=True, slots=True)
class SnapshotSettings:
    """When whole tables are read, which, and how."""

    mode: SnapshotPolicy
    tables: NameFilter
    """Which of the captured tables an initial snapshot reads."""
    order: tuple[NameFilter, ...]
    """The tables of the first are read first."""
    statements: Mapping[str, str] = field(repr=False)
    """A SELECT in place of all rows, by ``schema.table``."""
    chunk_pages: int
    """Pages of a table that one task reads at once."""
    pass_pages: int
    """Pages that one Delta commit holds, about."""
    parallelism: int
    """Chunks read side by side at most; 0: as many as Spark has cores for."""
    workers: int
    """The same with 0 made the number of cores."""
    lock_seconds: float
    """How long to wait for a table's lock."""
    delay_seconds: float
    """How long to wait before an initial snapshot."""
    streaming_delay_seconds: float
    """How long to wait after it."""


@dataclass(frozen=True, slots=True)
class CaptureSettings:
    """Source, slot, publication, selection and limits of capture."""

    connection: ConnectionSettings
    slot: str
    failover: bool
    """Whether a slot that is made is to survive a failover of its server."""
    publication: str
    publication_mode: AutocreateMode
    via_partition_root: bool
    identities: IdentityRules
    """Which replica identity captured tables get when capture begins."""
    selection: TableFilter
    messages: NameFilter
    """Which prefixes of logical messages are captured."""
    tells_xmin: bool
    """Whether each change tells the slot's ``catalog_xmin``."""
    heartbeat_query: str | None
    """What is run on the source before its position is taken, if heartbeats are wanted."""
    heartbeat_seconds: float
    """At most once in so many seconds."""
    transactions: bool
    """Whether each transaction gets a row of its own."""
    masks: Masks
    """Columns whose values are hidden before they land."""
    snapshots: SnapshotSettings
    max_pass_bytes: int
    """Bytes of WAL that one pass reads at most."""
    chunk_rows: int
    """Rows of a chunk that has a snapshot of its own."""
    chunks_in_a_pass: int
    signals: SignalSettings
    connector: str
    """The connector's name in notifications."""
    flush_timeout_seconds: float
    """How long to wait for the server to flush its WAL up to a wanted position."""
