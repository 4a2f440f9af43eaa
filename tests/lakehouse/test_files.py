"""What a file's statistics say is so of its rows: a reader that believes them misses none."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from walhouse.lakehouse.files import FileWriter
from walhouse.lakehouse.layout import LakeLayout, Writer

SCHEMA: Final = pa.schema([("n", pa.int64()), ("t", pa.string()), ("other", pa.binary())])

ROWS = st.lists(
    st.tuples(
        st.none() | st.integers(-(2**63), 2**63 - 1),
        st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=80),
        st.none() | st.binary(max_size=8),
    ),
    max_size=30,
)


@given(st.lists(ROWS, min_size=1, max_size=4))
def test_statistics_are_those_of_all_rows_however_they_were_written(parts: list[list[tuple[object, ...]]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        writer = FileWriter(Path(folder), SCHEMA, ("n", "t"))
        for part in parts:
            rows = [dict(zip(SCHEMA.names, row, strict=True)) for row in part]
            writer.write(pa.Table.from_pylist(rows, SCHEMA))
        file = writer.close()
        rows = pq.read_table(Path(folder) / file.path).to_pylist()
        assert file.size == (Path(folder) / file.path).stat().st_size
    assert [tuple(row.values()) for row in rows] == [row for part in parts for row in part]
    stats = json.loads(file.stats)
    assert stats["numRecords"] == file.rows == len(rows)
    for name in ("n", "t"):
        values = [row[name] for row in rows if row[name] is not None]
        assert stats["nullCount"][name] == len(rows) - len(values)
        # by the bytes of their UTF-8, as Delta's readers compare them
        order = (lambda value: value.encode()) if name == "t" else None
        assert stats["minValues"].get(name) == min(values, key=order, default=None)
        assert stats["maxValues"].get(name) == max(values, key=order, default=None)
    assert "other" not in stats["nullCount"]


def test_a_file_that_is_given_up_is_removed(tmp_path: Path) -> None:
    writer = FileWriter(tmp_path, SCHEMA, ())
    writer.write(pa.Table.from_pylist([{"n": 1}], SCHEMA))
    assert list(tmp_path.iterdir())
    writer.discard()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("layout", "writes"),
    [
        (LakeLayout(path=Path("/lake")), True),
        (LakeLayout(path=Path("/a lake, 100 % é")), True),
        (LakeLayout(path=Path("/lake"), writer=Writer.SPARK), False),
        (LakeLayout(catalog="main"), False),
        (LakeLayout(path=Path("/a%20lake")), False),
    ],
)
def test_files_are_written_by_tasks_where_a_folder_is_local_and_delta_rs_finds_it(
    layout: LakeLayout,
    writes: bool,
) -> None:
    assert layout.writes_files is writes
