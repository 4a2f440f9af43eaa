"""Parquet files for a Delta table, written by whoever has the rows as Arrow, with the statistics that a commit tells.

Invariant: a file is part of no table before a commit names it (``walhouse.lakehouse.commits``), and it is on the disk
then; one that is given up is removed, and one that a killed process leaves is what VACUUM removes.
"""

from __future__ import annotations

import json
import os
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

ROW_GROUP: Final = 20_000
"""Rows: what a reader takes or skips at once."""


class Once(NamedTuple):
    """Under which name and number rows are written: Delta takes those of one number only once."""

    name: str
    number: int


@dataclass(frozen=True, slots=True)
class NewFile:
    """A file that is written to its end. ``path``: within the table's folder; ``size``: bytes."""

    path: str
    size: int
    rows: int
    stats: str
    """Delta's statistics, as JSON."""


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, would outlive a loss of power."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class FileWriter:
    """Writes one file. ``skipping``: the columns, of integers or strings, that get statistics."""

    def __init__(self, folder: Path, schema: pa.Schema, skipping: Sequence[str]) -> None:
        name = f"part-{uuid.uuid4()}.snappy.parquet"
        self._file = folder / name
        # not of others: the least and the greatest of long texts would stand in the file's foot
        self._writer = pq.ParquetWriter(
            self._file,
            schema,
            compression="snappy",
            store_schema=False,
            write_statistics=list(skipping),
        )
        self._skipping = skipping
        self._least: dict[str, Any] = {}
        self._greatest: dict[str, Any] = {}
        self._nulls = dict.fromkeys(skipping, 0)
        self.rows = 0

    def write(self, rows: pa.Table) -> None:
        """Write more rows, in groups of ROW_GROUP at most."""
        self._writer.write_table(rows, ROW_GROUP)
        self.rows += rows.num_rows
        for name in self._skipping:
            self._note(name, rows[name])

    def _note(self, name: str, values: pa.ChunkedArray) -> None:
        self._nulls[name] += values.null_count
        ends = pc.min_max(values).as_py()
        if ends["min"] is not None:
            self._least[name] = min(self._least.get(name, ends["min"]), ends["min"])
            self._greatest[name] = max(self._greatest.get(name, ends["max"]), ends["max"])

    def close(self) -> NewFile:
        """The file, complete, and on the disk."""
        self._writer.close()
        sync(self._file)
        stats = {
            "numRecords": self.rows,
            "minValues": self._least,
            "maxValues": self._greatest,
            "nullCount": self._nulls,
        }
        return NewFile(self._file.name, self._file.stat().st_size, self.rows, json.dumps(stats))

    def discard(self) -> None:
        """Remove what was written."""
        self._writer.close()
        self._file.unlink(missing_ok=True)
