"""Bronze's files on a local lake, written by the tasks that read PostgreSQL.

Invariant: rows never pass through Java. What a task gives Spark is a line for each file; the driver makes them part of
bronze in one commit, or of nothing. A row that is too long for a task to write as well is left to Spark's writer.
"""

from __future__ import annotations

import json
from collections import Counter
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSource, DataSourceReader

from walhouse.bronze.failure import in_task, on_driver
from walhouse.bronze.source import LARGE, REGISTERING, Part
from walhouse.bronze.table import SKIPPING
from walhouse.lakehouse.answers import few_rows
from walhouse.lakehouse.files import ROW_GROUP, FileWriter, NewFile
from walhouse.names import TableName
from walhouse.pgoutput.row import ROW, Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import InputPartition

    from walhouse.bronze.source import Plan

ROWS_PER_FILE: Final = 200_000
"""A range is read from the slot by one task; in several files the layers after bronze can read it with many."""

_GROUP_BYTES: Final = 16 * 2**20
_SORTED_BYTES: Final = 64 * 2**20
"""Rows of several tables are gathered up to this, or to a file's rows, and sorted."""

_ORDER: Final = [(name, "ascending") for name in ("schema_name", "table_name", "commit_lsn", "seq")]
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

    class FilesSource(DataSource):
        @classmethod
        def name(cls) -> str:
            return "walhouse_files"

        def schema(self) -> str:
            return "line string"

        def reader(self, schema: Any) -> DataSourceReader:
            del schema
            return _Writing(plan, folder, by_table=by_table)

    with REGISTERING:
        spark.dataSource.register(FilesSource)
        lines = spark.read.format(FilesSource.name()).load()
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


class _Writing(DataSourceReader):
    def __init__(self, plan: Plan, folder: Path, *, by_table: bool) -> None:
        self._plan = plan
        self._folder = folder
        self._by_table = by_table

    def partitions(self) -> Sequence[InputPartition]:
        return [Part(number) for number in range(self._plan.parts)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Part)
        lines: list[dict[str, Any] | None] = []
        with in_task(), self._all_or_none(lines):
            lines.extend(_written(self._plan.batches(partition.number), self))
        yield pa.RecordBatch.from_pydict({"line": [json.dumps(line) for line in lines]}, schema=_LINES)

    @contextmanager
    def _all_or_none(self, lines: list[dict[str, Any] | None]) -> Iterator[None]:
        """Remove the files again if a later one fails."""
        try:
            yield
        except BaseException:
            for line in lines:
                if line is not None:
                    (self._folder / line["file"]["path"]).unlink(missing_ok=True)
            raise

    def new_file(self) -> _File:
        return _File(self._folder)

    @property
    def by_table(self) -> bool:
        return self._by_table


def _written(batches: Iterator[pa.RecordBatch], writing: _Writing) -> Iterator[dict[str, Any] | None]:
    """A line for each file of a task; None, and no more, if a row is too long."""
    file: _File | None = None
    try:
        for rows in _gathered(batches, writing):
            if rows is None:
                yield None
                return
            file = file or writing.new_file()
            file.write(rows.sort_by(_ORDER) if writing.by_table else rows)
            if file.is_full or writing.by_table:
                line, file = file.close(), None
                yield line
        if file is not None:
            line, file = file.close(), None
            yield line
    finally:
        if file is not None:
            file.discard()


def _gathered(batches: Iterator[pa.RecordBatch], writing: _Writing) -> Iterator[pa.Table | None]:
    """Small batches together: each comes to a group of rows of its file, or to all of a file that is to be sorted."""
    most_rows, most_bytes = (ROWS_PER_FILE, _SORTED_BYTES) if writing.by_table else (ROW_GROUP, _GROUP_BYTES)
    gathered: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if batch.nbytes >= LARGE:
            yield None
            return
        if gathered and (rows + batch.num_rows > most_rows or size + batch.nbytes > most_bytes):
            yield pa.Table.from_batches(gathered)
            gathered, rows, size = [], 0, 0
        gathered.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
    if rows:
        yield pa.Table.from_batches(gathered)


class _File:
    """A file of bronze while it is written."""

    def __init__(self, folder: Path) -> None:
        self._writer = FileWriter(folder, ROW, SKIPPING)
        self._read: Counter[tuple[str, str]] = Counter()

    @property
    def is_full(self) -> bool:
        return self._writer.rows >= ROWS_PER_FILE

    def write(self, rows: pa.Table) -> None:
        self._writer.write(rows)
        self._read.update(dict(_rows_of_snapshots(rows)))

    def close(self) -> dict[str, Any]:
        file = asdict(self._writer.close())
        return {"file": file, "read": [[*table, rows] for table, rows in self._read.items()]}

    def discard(self) -> None:
        self._writer.discard()


def _rows_of_snapshots(rows: pa.Table) -> Iterable[tuple[tuple[str, str], int]]:
    names = ["schema_name", "table_name"]
    read = rows.select(names).filter(pc.equal(rows["kind"], Kind.SNAPSHOT.value))
    for each in read.group_by(names).aggregate([([], "count_all")]).to_pylist():
        yield (each["schema_name"], each["table_name"]), each["count_all"]
