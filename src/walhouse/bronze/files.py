"""Bronze's files on a local lake, written by the tasks that read PostgreSQL.

Invariant: rows never pass through Java. What a task gives Spark is a line for each file; the driver makes them part of
bronze in one commit, or of nothing. A row that is too long for a task to write as well is left to Spark's writer.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self

import pyarrow as pa
import pyarrow.compute as pc

from walhouse.bronze.failure import on_driver
from walhouse.bronze.source import LARGE, by_part
from walhouse.bronze.table import SKIPPING
from walhouse.lakehouse.answers import few_rows
from walhouse.lakehouse.files import ROW_GROUP, FileWriter, NewFile
from walhouse.names import TableName
from walhouse.pgoutput.row import ROW, Kind

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from walhouse.bronze.source import Plan

ROWS_PER_FILE: Final = 200_000
"""A range is read from the slot by one task; in several files the layers after bronze can read it with many."""

_STREAMED: Final = (ROW_GROUP, 16 * 2**20)
"""Rows and bytes that are gathered for one group of rows of a file."""

_SORTED: Final = (ROWS_PER_FILE, 32 * 2**20)
"""Rows and bytes that are gathered, sorted, and written as one file."""

_LONG_ROW: Final = 64 * 2**10
"""Bytes. Of rows longer than this no more are gathered than for one group, however they are written."""

BY_TABLE: Final = ("schema_name", "table_name", "commit_lsn", "seq")
"""The order of rows of several tables."""

_LINES: Final = pa.schema([("line", pa.string())])
"""One for each file, as JSON."""


@dataclass(frozen=True, slots=True)
class WrittenFiles:
    """What the tasks wrote, and how many rows of snapshots each table has in it."""

    files: tuple[NewFile, ...] = ()
    read: Counter[TableName] = field(default_factory=Counter)


def write_files(
    spark: SparkSession, plan: Plan, folder: Path, *, by_table: bool, tasks: int = 0
) -> WrittenFiles | None:
    """Write all rows of a plan to files in bronze's folder. None, and no file, if a row is too long for that.

    ``by_table``: the rows of a file are sorted by table; ``tasks``: how many run at once at most, 0: as many as can.
    Raises what reading the plan raises.
    """

    def write(part: int) -> Iterator[pa.RecordBatch]:
        with _TaskFiles(folder, by_table=by_table) as files:
            files.write(plan.batches(part))
        yield pa.RecordBatch.from_pydict({"line": [json.dumps(line) for line in files.lines]}, schema=_LINES)

    lines = by_part(spark, plan.parts, write, "line string")
    with on_driver():
        told = [json.loads(row["line"]) for row in few_rows(lines.coalesce(tasks) if tasks else lines)]
    files = tuple(NewFile(**each["file"]) for each in told if each is not None)
    if len(files) < len(told):
        for file in files:
            (folder / file.path).unlink(missing_ok=True)
        return None
    read: Counter[TableName] = Counter()
    for each in told:
        read.update({TableName(schema, table): rows for schema, table, rows in each["read"]})
    return WrittenFiles(files, read)


class _TaskFiles:
    """The files of one task. If it fails none of them stays."""

    def __init__(self, folder: Path, *, by_table: bool) -> None:
        self._folder = folder
        self._by_table = by_table
        self._file: FileWriter | None = None
        self._read: Counter[tuple[str, str]] = Counter()
        self.lines: list[dict[str, Any] | None] = []
        """What is told of each file; None, and no more, where a row is too long."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if self._file is not None:
            self._file.discard()
        for line in self.lines if kind is not None else ():
            if line is not None:
                (self._folder / line["file"]["path"]).unlink(missing_ok=True)

    def write(self, batches: Iterator[pa.RecordBatch]) -> None:
        """Write all rows, to their end or to one that is too long."""
        for rows in _gathered(batches, *_SORTED if self._by_table else _STREAMED):
            if rows is None:
                self.lines.append(None)
                return
            self._file = self._file or FileWriter(self._folder, ROW, SKIPPING)
            self._file.write(rows.sort_by([(name, "ascending") for name in BY_TABLE]) if self._by_table else rows)
            self._read.update(_rows_of_snapshots(rows))
            if self._by_table or self._file.rows >= ROWS_PER_FILE:
                self._close()
        self._close()

    def _close(self) -> None:
        if self._file is None:
            return
        read = [[*table, rows] for table, rows in self._read.items()]
        self.lines.append({"file": asdict(self._file.close()), "read": read})
        self._file = None
        self._read.clear()


def _gathered(batches: Iterator[pa.RecordBatch], most_rows: int, most_bytes: int) -> Iterator[pa.Table | None]:
    """Small batches together, up to so many rows and bytes; None, and no more, if one is too long."""
    gathered: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if batch.nbytes >= LARGE:
            yield None
            return
        bound = most_bytes if batch.nbytes <= batch.num_rows * _LONG_ROW else min(most_bytes, _STREAMED[1])
        if gathered and (rows + batch.num_rows > most_rows or size + batch.nbytes > bound):
            yield pa.Table.from_batches(gathered)
            gathered, rows, size = [], 0, 0
        gathered.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if size >= bound:
            yield pa.Table.from_batches(gathered)
            gathered, rows, size = [], 0, 0
        del batch
    if rows:
        yield pa.Table.from_batches(gathered)


def _rows_of_snapshots(rows: pa.Table) -> dict[tuple[str, str], int]:
    kinds = pc.unique(rows["kind"]).to_pylist()
    if Kind.SNAPSHOT.value not in kinds:
        return {}
    names = ["schema_name", "table_name"]
    schemas, tables = (pc.unique(rows[name]).to_pylist() for name in names)
    if len(kinds) == len(schemas) == len(tables) == 1:  # as in most files: no need to look at each row
        return {(schemas[0], tables[0]): rows.num_rows}
    read = rows.select(names).filter(pc.equal(rows["kind"], Kind.SNAPSHOT.value))
    counted = read.group_by(names).aggregate([([], "count_all")]).to_pylist()
    return {(each["schema_name"], each["table_name"]): each["count_all"] for each in counted}
