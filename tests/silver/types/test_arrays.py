"""Whether a value has all of its text: Debezium makes elements NULL that it has no value for."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest
from pyspark.sql import functions as F

from tests.silver.bronze_rows import column
from walhouse.silver.modes import DEFAULTS, TimeMode, TypeModes
from walhouse.silver.types.registry import silver_type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


class Case(NamedTuple):
    element: str
    text: str
    lacks: bool | None
    """None: there is no value at all."""
    modes: TypeModes = DEFAULTS


NANOSECONDS = TypeModes(time=TimeMode.NANOSECONDS)

CASES = [
    Case("int4", "{1,2}", False),
    Case("int4", "{}", False),
    Case("int4", "{1,NULL}", False),
    Case("int4", "{NULL,NULL}", False),
    Case("int4", "[2:3]={1,NULL}", False),
    Case("int4", "{{1,2},{3,4}}", True),
    Case("int4", "[0:1][1:2]={{1,2},{3,4}}", True),
    Case("int4", "{1,x}", None),
    Case("text", '{"NULL",NULL}', False),
    Case("isbn", "{0-393-04002-X}", False),
    Case("isbn", "{0-393-04002-X,NULL}", None),
    Case("int2vector", "{}", False),
    Case("int2vector", '{"1 2"}', None),
    Case("text", "{{a}}", None),
    Case("timestamp", '{"2020-01-01 00:00:00",NULL}', False, NANOSECONDS),
    Case("timestamp", '{"2020-01-01 00:00:00","9999-01-01 00:00:00"}', True, NANOSECONDS),
    Case("timestamp", '{NULL,"9999-01-01 00:00:00"}', True, NANOSECONDS),
    Case("timestamp", '{NULL,"9999-01-01 00:00:00"}', False),
]


@pytest.fixture(scope="module")
def lacking(spark: SparkSession) -> list[bool | None]:
    texts = spark.createDataFrame([([case.text for case in CASES],)], "texts array<string>").repartition(1)
    values = []
    for number, (element, _, _, modes) in enumerate(CASES):
        kind = silver_type(column("c", f"_{element}", element_type=element), modes)
        assert kind is not None
        text, value = f"get(texts, {number})", kind.convert(f"get(texts, {number})")
        lacks = "false" if kind.in_part is None else kind.in_part(text, value)
        values.append(F.expr(f"CASE WHEN {value} IS NOT NULL THEN {lacks} END").alias(f"v{number}"))
    row = texts.select(*values).first()
    assert row is not None
    return list(row)


@pytest.mark.parametrize("number", range(len(CASES)), ids=lambda i: f"{CASES[i].element}-{CASES[i].text[:30]}")
def test_an_array_lacks_what_its_text_has_and_its_elements_do_not(lacking: list[bool | None], number: int) -> None:
    assert lacking[number] is CASES[number].lacks
