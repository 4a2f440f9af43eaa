"""What capture needs to know, taken from the configuration once.

Invariant: a plain value that can be pickled and printed; the secret within ``connection`` does not show.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from walhouse.bronze.requests.channels import SignalSettings
    from walhouse.config.connection import ConnectionSettings
    from walhouse.config.connector import AutocreateMode, SnapshotMode
    from walhouse.config.filters import NameFilter, TableFilter
    from walhouse.config.masks import Masks
    from walhouse.config.replica_identity import IdentityRules


@dataclass(frozen=True, slots=True)
class CaptureSettings:
    """Source, slot, publication, selection and limits of capture."""

    connection: ConnectionSettings
    slot: str
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
    snapshot_mode: SnapshotMode
    max_pass_bytes: int
    """Bytes of WAL that one pass reads at most."""
    snapshot_chunk_pages: int
    """Pages of a table that one snapshot chunk covers."""
    snapshot_parallelism: int
    """Chunks read side by side at most; 0: as many as Spark has cores for."""
    snapshot_workers: int
    """The same with 0 made the number of cores."""
    chunk_rows: int
    """Rows of a chunk that has a snapshot of its own."""
    chunks_in_a_pass: int
    signals: SignalSettings
    connector: str
    """The connector's name in notifications."""
    flush_timeout_seconds: float
    """How long to wait for the server to flush its WAL up to a wanted position."""
