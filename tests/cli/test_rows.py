from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING

import pytest

from walhouse.cli.options import RowsFormat
from walhouse.cli.rows import print_rows
from walhouse.cli.tables import print_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERY = """
SELECT * FROM VALUES
  (1, 'plain', array(1, NULL), named_struct('a b', DATE '2024-02-29'), CAST(1.50 AS decimal(5,2))),
  (2, NULL, NULL, NULL, NULL),
  (3, 'a,"b"\nc [red]', array(), named_struct('a b', NULL), 0.00)
AS t(id, text, list, record, amount)
"""


@pytest.mark.spark
def test_json_is_one_object_a_line_with_nulls_and_nested_values(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    print_rows(spark.sql(QUERY), RowsFormat.JSON)
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert rows == [
        {"id": 1, "text": "plain", "list": [1, None], "record": {"a b": "2024-02-29"}, "amount": 1.5},
        {"id": 2, "text": None, "list": None, "record": None, "amount": None},
        {"id": 3, "text": 'a,"b"\nc [red]', "list": [], "record": {"a b": None}, "amount": 0},
    ]


@pytest.mark.spark
def test_csv_quotes_what_needs_it_and_has_a_header(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    print_rows(spark.sql(QUERY), RowsFormat.CSV)
    rows = list(csv.reader(io.StringIO(capsys.readouterr().out)))
    assert rows[0] == ["id", "text", "list", "record", "amount"]
    assert rows[1] == ["1", "plain", "[1, null]", "{2024-02-29}", "1.50"]
    assert rows[3][1] == 'a,"b"\nc [red]'


@pytest.mark.spark
def test_times_keep_their_microseconds_and_bytes_are_base64_in_every_form(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    query = spark.sql(
        "SELECT TIMESTAMP_NTZ '2024-02-29 01:02:03.000004' AS a, TIMESTAMP '2024-02-29 01:02:03.123456Z' AS b,"
        " X'DEADBEEF' AS c, named_struct('t', TIMESTAMP '2024-02-29 01:02:03Z', 'x', X'') AS d"
    )
    print_rows(query, RowsFormat.JSON)
    assert json.loads(capsys.readouterr().out) == {
        "a": "2024-02-29T01:02:03.000004",
        "b": "2024-02-29T01:02:03.123456Z",
        "c": "3q2+7w==",
        "d": {"t": "2024-02-29T01:02:03.000000Z", "x": ""},
    }
    for form in (RowsFormat.CSV, RowsFormat.TABLE):
        print_rows(query, form)
        out = capsys.readouterr().out
        assert "2024-02-29 01:02:03.000004" in out
        assert "2024-02-29 01:02:03.123456" in out
        assert "3q2+7w==" in out


@pytest.mark.spark
def test_csv_tells_null_from_an_empty_text(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    print_rows(spark.sql("SELECT NULL AS `a,b`, '' AS c, ' x ' AS d, NULL AS e"), RowsFormat.CSV)
    assert capsys.readouterr().out == '"a,b",c,d,e\n,"", x ,\n'
    print_rows(spark.sql("SELECT '\r' AS a, '\"' AS b"), RowsFormat.CSV)
    assert capsys.readouterr().out == 'a,b\n"\r",""""\n'


@pytest.mark.spark
def test_a_table_shows_the_text_as_it_is_and_columns_of_one_name_both(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    print_rows(spark.sql("SELECT 'x [red]y' AS a, 2 AS a, 1234567 AS b"), RowsFormat.TABLE)
    head, line, row = (text for text in capsys.readouterr().out.splitlines() if text.strip())
    assert head.split() == ["a", "a", "b"]
    assert set(line.strip()) == {"─"}
    assert row.split() == ["x", "[red]y", "2", "1234567"]


@pytest.mark.spark
def test_a_statement_without_columns_prints_nothing(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    print_rows(spark.sql("CREATE SCHEMA IF NOT EXISTS default"), RowsFormat.TABLE)
    assert capsys.readouterr().out == ""


def test_a_table_is_as_wide_as_its_content_where_nobody_looks_at_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("name", "rows"), [("x" * 300, 1_000_000), ("y", None)])
    out = capsys.readouterr().out
    assert "x" * 300 in out
    assert "1,000,000" in out
