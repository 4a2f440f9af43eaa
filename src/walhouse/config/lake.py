"""The ``lake:`` section: where the lake is and how its work is cut.

Invariant: a lake is a local folder or a catalog, never both; ``path`` is absolute once a configuration is loaded.
"""

from __future__ import annotations

import re
from pathlib import Path
from string import Formatter
from typing import Annotated, Final, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    field_validator,
    model_validator,
)

_SIZE: Final = re.compile(r"(\d+)\s*(B|KiB|MiB|GiB|TiB|kB|KB|MB|GB|TB)?")
_UNITS: Final = {"B": 1, "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_BINARY_UNITS: Final = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}


def _bytes(value: object) -> object:
    """A size in bytes out of ``536870912`` or ``512MiB``."""
    if not isinstance(value, str):
        return value
    match = _SIZE.fullmatch(value.strip())
    if match is None:
        raise ValueError("expected a number of bytes, as 536870912 or 512MiB")
    return int(match[1]) * (_UNITS | _BINARY_UNITS)[match[2] or "B"]


def is_url(path: str) -> bool:
    """True for an address of another file system, as ``s3://…`` or ``dbfs:/…``."""
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", path) is not None


SchemaName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9_]{1,255}$")]
Bytes = Annotated[int, BeforeValidator(_bytes), Field(ge=1)]


class Lake(BaseModel):
    """Where the layers are kept, and how much work one step does."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    path: Annotated[Path | None, Field(description="the folder of a local lake, relative to this file")] = None
    catalog: Annotated[
        str | None,
        StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,255}$"),
        Field(description="the catalog that holds the schemas (Unity Catalog); instead of `path`"),
    ] = None
    bronze: Annotated[SchemaName, Field(description="schema of the raw changes")] = "bronze"
    silver: Annotated[SchemaName, Field(description="schema of Debezium's events, a table for each source table")] = (
        "silver"
    )
    gold: Annotated[SchemaName, Field(description="schema of the current rows, a table for each source table")] = "gold"
    ops: Annotated[SchemaName, Field(description="schema of epochs, proofs, signals and notifications")] = "ops"
    table_name: Annotated[
        str,
        Field(
            description="a source table's name in silver and gold; may hold {schema}, {table} and {digest}: eight"
            " characters that tell names apart of which other characters than a-z, 0-9 and _ are left out."
            " Changed later: `rebuild` both layers"
        ),
    ] = "{schema}_{table}"
    case_sensitive_filters: Annotated[
        bool,
        Field(description="lists of names, masks and `message.key.columns` tell `Users` from `users`; Debezium cannot"),
    ] = False
    max_pass_bytes: Annotated[Bytes, Field(description="WAL that one capture pass reads at most")] = 2**30
    idle_commit_seconds: Annotated[
        float, Field(ge=0, description="without changes, commit progress at most this often")
    ] = 60
    idle_commit_bytes: Annotated[
        Bytes, Field(description="without changes, commit progress at the latest after this much WAL")
    ] = 16 * 2**20
    flush_timeout_seconds: Annotated[
        float, Field(gt=0, description="how long to wait until the server has flushed its WAL")
    ] = 10
    parallel_tables: Annotated[int, Field(ge=1, description="tables merged side by side")] = 8
    snapshot_parallelism: Annotated[
        int,
        Field(ge=0, description="snapshot chunks read side by side; 0: one for each core of this machine"),
    ] = 0
    snapshot_chunk_pages: Annotated[
        int, Field(ge=1, description="pages of 8 KiB in one chunk of a table's snapshot")
    ] = 8192
    snapshot_pass_pages: Annotated[
        int, Field(ge=1, description="pages of 8 KiB in one commit of a snapshot: as much is read again at most")
    ] = 131_072
    snapshot_pass_rows: Annotated[
        int, Field(ge=1, description="rows that one pass of an incremental snapshot reads, in many chunks")
    ] = 2_000_000
    writer: Annotated[
        Literal["arrow", "spark"] | None,
        Field(
            description="what writes bronze and ops: `arrow`, the tasks that read PostgreSQL (local folders only, and"
            " their default), or `spark`, Spark's own writer, slower (a catalog takes no other)"
        ),
    ] = None
    local_memory: Annotated[
        Bytes,
        Field(ge=512 * 2**20, description="heap of a local Spark's Java process; a platform's session has its own"),
    ] = 2 * 2**30

    @field_validator("path", mode="before")
    @classmethod
    def _no_url(cls, value: object) -> object:
        if isinstance(value, str) and is_url(value):
            raise ValueError("a local folder is expected, not a URL; for object storage give catalog instead")
        if isinstance(value, str) and not value.strip():
            raise ValueError("is empty: name a folder")
        return value

    @field_validator("table_name")
    @classmethod
    def _known_placeholders(cls, value: str) -> str:
        try:
            parts = list(Formatter().parse(value))
        except ValueError as error:
            raise ValueError(f"not a template: {error}") from None
        fields = {field for _, field, _, _ in parts if field is not None}
        if unknown := sorted(fields - {"schema", "table", "digest"}):
            raise ValueError(f"{{{unknown[0]}}} is no placeholder: there are {{schema}}, {{table}} and {{digest}}")
        if any(spec or conversion for _, _, spec, conversion in parts):
            raise ValueError("a placeholder takes no format")
        if "table" not in fields:
            raise ValueError("{table} is missing: all tables would share one name")
        return value

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if (self.path is None) == (self.catalog is None):
            raise ValueError("give either path (a local folder) or catalog (Unity Catalog)")
        if self.catalog is not None and self.writer == "arrow":
            raise ValueError("writer arrow takes a local folder (path): tables of a catalog are written by Spark")
        schemas = (self.bronze, self.silver, self.gold, self.ops)
        if len(set(schemas)) < len(schemas):
            raise ValueError("bronze, silver, gold and ops must be different schemas")
        return self
