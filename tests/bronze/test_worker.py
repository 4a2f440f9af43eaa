"""What the Python process of a task loads."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from walhouse.bronze.source import by_part
from walhouse.lakehouse.answers import few_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

_LATER = """
import sys
import pyarrow as pa
import walhouse.bronze.files
from walhouse.bronze.worker import without_pandas

def as_usual():
    import pandas as pd
    floats, days = pd.Series([1.0, float("nan")]), pd.Series(pd.to_datetime(["2026-01-01"]).tz_localize("UTC"))
    return [pa.array(floats).null_count, str(pa.array(days).type), str(pa.array(pd.Categorical(["a"])).type)]

if sys.argv[1] == "without":
    without_pandas()
    assert pa.array([1, 2]).to_pylist() == [1, 2]
    assert "pandas" not in sys.modules
    pa.array([1, 2]).to_pandas()
print(as_usual())
"""


@pytest.mark.spark
def test_a_task_of_our_own_session_does_not_load_pandas(spark: SparkSession) -> None:
    def loaded(part: int) -> Iterator[pa.RecordBatch]:
        del part
        assert pa.array([0]).to_pylist() == [0], "it asks whether this is of pandas"
        found = [name for name in ("pandas", "pyarrow") if name in sys.modules]
        yield pa.RecordBatch.from_arrays([pa.array(found)], ["module"])

    assert [row["module"] for row in few_rows(by_part(spark, 1, loaded, "module string"))] == ["pyarrow"]


def test_a_function_that_comes_to_the_process_later_converts_from_and_to_pandas_as_in_any_other() -> None:
    without, anew = (
        subprocess.run([sys.executable, "-c", _LATER, how], check=True, capture_output=True, text=True).stdout
        for how in ("without", "anew")
    )
    assert without == anew != ""
