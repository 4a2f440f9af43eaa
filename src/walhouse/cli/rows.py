"""Rows of a query on standard output: a table, JSON lines, or CSV.

Invariant: rows are streamed, never gathered; values are rendered by Spark, and none loses anything on the way: a time
has its microseconds, and bytes are base64.
"""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType

from walhouse.cli.options import RowsFormat
from walhouse.cli.tables import print_table
from walhouse.errors import QueryError
from walhouse.names import quote

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame

TABLE_ROWS: Final = 1000

_JSON: Final = {
    "ignoreNullFields": "false",
    # by default Spark cuts them to milliseconds
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}


def print_rows(frame: DataFrame, form: RowsFormat) -> None:
    """Print the rows; a statement without columns prints nothing."""
    if not frame.columns:
        return
    match form:
        case RowsFormat.JSON:
            _print_json(frame)
        case RowsFormat.CSV:
            sys.stdout.write(_csv_line(frame.columns))
            for row in _texts(frame).toLocalIterator():
                sys.stdout.write(_csv_line(row))
        case RowsFormat.TABLE:
            print_table(frame.columns, _texts(frame.limit(TABLE_ROWS)).toLocalIterator())


def _print_json(frame: DataFrame) -> None:
    if twice := sorted({name for name, count in Counter(frame.columns).items() if count > 1}):
        raise QueryError(
            f"The answer has several columns of the name {', '.join(twice)}, and an object of JSON has each name once.",
            todo="Give them names of their own, with AS.",
        )
    every = F.struct(*(F.col(quote(column)) for column in frame.columns))
    for row in frame.select(F.to_json(every, _JSON)).toLocalIterator():
        sys.stdout.write(f"{row[0]}\n")


def _csv_line(texts: Iterable[str | None]) -> str:
    """RFC 4180, and as PostgreSQL has it: nothing for NULL, quotes for an empty text. Python's csv knows no difference
    before 3.12."""
    return ",".join("" if text is None else _csv_field(text) for text in texts) + "\n"


def _csv_field(text: str) -> str:
    is_plain = text and not any(sign in text for sign in ',"\r\n')
    return text if is_plain else '"' + text.replace('"', '""') + '"'


def _texts(frame: DataFrame) -> DataFrame:
    positions = [f"c{position}" for position in range(len(frame.columns))]
    binary = [isinstance(field.dataType, BinaryType) for field in frame.schema.fields]
    return frame.toDF(*positions).select(
        *(
            F.base64(position) if is_binary else F.col(position).cast("string")
            for position, is_binary in zip(positions, binary, strict=True)
        )
    )
