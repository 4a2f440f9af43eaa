"""What keeps a table of a local lake small that every pass is written to: few files, and a short log.

Each look at a table takes longer for every file that it has, and for every commit that its log has.

Invariant: a table's rows stay as they are, in their order, counted before the old files are let go of, and the commit
says that no data changed. The files that are no part of it any more stay for whoever reads them still, until a VACUUM.
"""

from __future__ import annotations

from contextlib import ExitStack
from itertools import groupby
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq

from walhouse.errors import ForeignCommitError
from walhouse.lakehouse.files import ROW_GROUP, FileWriter

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path
    from typing import Any

    from walhouse.lakehouse.files import NewFile

SHORT_HISTORY: Final = {
    "delta.logRetentionDuration": "interval 1 hour",
    "delta.deletedFileRetentionDuration": "interval 1 hour",
}
"""Of such a table: nobody asks for its earlier versions, and whoever opens it looks at all names in its log. With a
hundred thousand of them, a commit's name each, that takes seconds."""

_SMALL: Final = 4 * 2**20
"""Bytes. Larger files are left as they are."""

_TOGETHER: Final = (16 * 2**20, 200_000)
"""Bytes and rows of the files that become one."""

_AT_ONCE: Final = 16 * 2**20
"""Bytes of rows in memory that are written at once."""


def put_together(folder: Path, facts: pa.Table) -> Iterator[tuple[Sequence[Mapping[str, Any]], NewFile]]:
    """Several of the table's files, oldest first, and one that is written in their place, again and again.

    ``facts``: a line for each file of the table, as ``LocalTable`` has it. Raises ForeignCommitError if files hold
    another number of rows than the table says.
    """
    counted = {name.removeprefix("null_count.") for name in facts.column_names if name.startswith("null_count.")}
    lines = facts.select(["path", "size_bytes", "num_records", "modification_time"]).sort_by("modification_time")
    # one whose rows nobody has counted cannot be compared with what is written in its place
    small = [line for line in lines.to_pylist() if line["size_bytes"] < _SMALL and line["num_records"] is not None]
    # one that is older lacks columns that were added
    for schema, alike in groupby(small, lambda line: pq.read_schema(folder / line["path"])):
        skipping = [each.name for each in schema if each.name in counted and _has_ends(each.type)]
        for lines_of_one in _parts(list(alike)):
            if len(lines_of_one) > 1:
                yield lines_of_one, _one(folder, schema, skipping, lines_of_one)


def _has_ends(kind: pa.DataType) -> bool:
    return bool(pa.types.is_int64(kind) or pa.types.is_string(kind))


def _parts(lines: Sequence[Mapping[str, Any]]) -> Iterator[Sequence[Mapping[str, Any]]]:
    part: list[Mapping[str, Any]] = []
    size = rows = 0
    for line in lines:
        if part and (size + line["size_bytes"] > _TOGETHER[0] or rows + line["num_records"] > _TOGETHER[1]):
            yield part
            part, size, rows = [], 0, 0
        part.append(line)
        size, rows = size + line["size_bytes"], rows + line["num_records"]
    yield part


def _one(folder: Path, schema: pa.Schema, skipping: Sequence[str], lines: Sequence[Mapping[str, Any]]) -> NewFile:
    writer = FileWriter(folder, schema, skipping)
    with ExitStack() as unless_done:
        unless_done.callback(writer.discard)
        for rows in _gathered(folder, lines):
            writer.write(rows)
        _require_all(folder, writer.rows, lines)
        file = writer.close()
        unless_done.pop_all()
    return file


def _require_all(folder: Path, rows: int, lines: Sequence[Mapping[str, Any]]) -> None:
    if rows != (told := sum(line["num_records"] for line in lines)):
        raise ForeignCommitError(f"Files of {folder.name} hold {rows} rows, its log says {told}.", path=str(folder))


def _gathered(folder: Path, lines: Sequence[Mapping[str, Any]]) -> Iterator[pa.Table]:
    gathered: list[pa.RecordBatch] = []
    rows = size = 0
    for line in lines:
        with pq.ParquetFile(folder / line["path"]) as file:
            for batch in file.iter_batches(ROW_GROUP):
                if gathered and (rows + batch.num_rows > ROW_GROUP or size + batch.nbytes > _AT_ONCE):
                    yield pa.Table.from_batches(gathered)
                    gathered, rows, size = [], 0, 0
                gathered.append(batch)
                rows, size = rows + batch.num_rows, size + batch.nbytes
    if gathered:
        yield pa.Table.from_batches(gathered)
