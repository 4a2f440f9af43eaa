"""The mode ``native``, which Debezium lacks: Spark's own types, and nothing lost that they have room for."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, DecimalType, StringType, TimestampNTZType

from tests.silver.bronze_rows import column
from tests.silver.bronze_rows import numeric_typmod as numeric
from walhouse.silver.modes import DecimalMode, HstoreMode, IntervalMode, TimeMode, TypeModes
from walhouse.silver.types.registry import silver_type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from walhouse.pgoutput.column import ColumnDescription

pytestmark = pytest.mark.spark

NATIVE = TypeModes(DecimalMode.NATIVE, TimeMode.NATIVE, interval=IntervalMode.NATIVE, hstore=HstoreMode.NATIVE)


def array(element: str, typmod: int = -1) -> ColumnDescription:
    return column("c", f"_{element}", element_type=element, typmod=typmod)


CASES: list[tuple[ColumnDescription, str, Any]] = [
    (column("c", "numeric", typmod=numeric(10, 2)), "12.50", Decimal("12.50")),
    (column("c", "numeric", typmod=numeric(38, 0)), "9" * 38, Decimal("9" * 38)),
    (column("c", "numeric", typmod=numeric(39, 0)), "9" * 39, "9" * 39),  # Spark has no room
    (column("c", "numeric", typmod=numeric(10, 2)), "NaN", None),
    (column("c", "numeric"), "0.00000000000000000001", "0.00000000000000000001"),
    (column("c", "date"), "2020-02-29", date(2020, 2, 29)),
    (column("c", "date"), "1582-10-10", date(1582, 10, 10)),
    (column("c", "date"), "0044-03-15 BC", None),
    (column("c", "time"), "24:00:00", "24:00:00"),
    (column("c", "timestamp"), "2020-02-29 13:51:30.123456", datetime(2020, 2, 29, 13, 51, 30, 123456)),  # noqa: DTZ001
    (column("c", "timestamp"), "infinity", None),
    (column("c", "interval"), "1 year 2 mons -3 days 04:05:06.78", (14, -3, 14706780000)),
    (column("c", "interval"), "infinity", None),
    (column("c", "hstore"), '"a"=>"1", "b"=>NULL', {"a": "1", "b": None}),
    (array("numeric", numeric(8, 2)), "{1.50,NULL}", [Decimal("1.50"), None]),
    (array("numeric"), "{1.50,NaN}", ["1.50", "NaN"]),
    (array("date"), "{1582-10-10,NULL}", [date(1582, 10, 10), None]),
    (array("time"), "{10:00:00.123456,24:00:00}", ["10:00:00.123456", "24:00:00"]),
    (array("timetz"), "{10:00:00.123456+00}", ["10:00:00.123456Z"]),
    (array("timestamp"), '{"1200-03-01 00:00:00.5"}', [datetime(1200, 3, 1, 0, 0, 0, 500000)]),  # noqa: DTZ001
    (array("timestamptz"), '{"0044-03-15 00:00:00+00 BC",-infinity}', ["-0043-03-15T00:00:00.000000Z", "-infinity"]),
]


@pytest.fixture(scope="module")
def converted(spark: SparkSession) -> list[Any]:
    texts = spark.createDataFrame([([text for _, text, _ in CASES],)], "texts array<string>").repartition(1)
    values = []
    for i, (described, _, _) in enumerate(CASES):
        kind = silver_type(described, NATIVE)
        assert kind is not None
        values.append(F.expr(kind.convert(f"get(texts, {i})")).alias(f"v{i}"))
    row = texts.select(*values).first()
    assert row is not None
    return list(row)


@pytest.mark.parametrize("number", range(len(CASES)), ids=lambda i: f"{CASES[i][0].base_type}-{CASES[i][1][:30]}")
def test_a_text_becomes_sparks_own_value_or_null(converted: list[Any], number: int) -> None:
    assert converted[number] == CASES[number][2]


def test_a_field_has_sparks_own_type() -> None:
    kinds = {base: silver_type(column("c", base, typmod=numeric(10, 2)), NATIVE) for base in ("numeric", "date")}
    kinds["timestamp"] = silver_type(column("c", "timestamp"), NATIVE)
    kinds["time"] = silver_type(column("c", "time"), NATIVE)
    assert {base: kind.spark for base, kind in kinds.items() if kind is not None} == {
        "numeric": DecimalType(10, 2),
        "date": DateType(),
        "timestamp": TimestampNTZType(),
        "time": StringType(),
    }
