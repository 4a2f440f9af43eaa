"""What the proof writes for a gold value is what PostgreSQL writes, and for a float the very bits that it holds."""

from __future__ import annotations

import math
import random
import struct
from typing import TYPE_CHECKING

import numpy as np
import pytest
from pyspark.sql import functions as F

from tests.gold.changelog import change, column, epoch_of, numeric, relation
from walhouse.gold.apply import apply_gold
from walhouse.names import quote_postgres
from walhouse.postgres.connection import connect
from walhouse.proof.compare import compare
from walhouse.proof.text import change_text, source_expressions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.fixtures_server import Database
    from walhouse.lakehouse.layout import LakeLayout

SEED = 11


def doubles() -> list[float]:
    generator = random.Random(SEED)
    powers = [math.ldexp(1.0, k) for k in range(-1074, 1024)]
    beside = [math.nextafter(p, way) for p in powers for way in (0.0, math.inf)]
    near = [p + ulps * math.ulp(p) for p in powers for ulps in (-8, 8)]  # the logarithm may be that of the power still
    some = [struct.unpack(">d", generator.randbytes(8))[0] for _ in range(5000)]
    every = [*powers, *beside, *near, *some, 0.0, math.inf]
    return [sign * value for value in every for sign in (1.0, -1.0) if not math.isnan(value)]


def singles() -> list[float]:
    with np.errstate(over="ignore"):
        return [float(value) for value in np.array(doubles(), dtype=np.float32)]


@pytest.mark.spark
@pytest.mark.parametrize(
    ("type_name", "values", "code", "nan"),
    [("float8", doubles(), ">d", "7ff8000000000000"), ("float4", singles(), ">f", "7fc00000")],
    ids=["float8", "float4"],
)
def test_the_bits_of_every_float_are_exact(
    spark: SparkSession, type_name: str, values: list[float], code: str, nan: str
) -> None:
    # as PostgreSQL prints it: of a float4 a text that says no double exactly
    texts = map(str, values if type_name == "float8" else np.array(values, dtype=np.float32))
    expected = [
        (text.replace("inf", "Infinity"), struct.pack(code, value).hex())
        for text, value in zip(texts, values, strict=True)
    ]
    rows = [*expected, ("NaN", nan), (None, None)]
    frame = spark.createDataFrame(rows, "text STRING, bits STRING")
    written = frame.select("text", "bits", change_text(F.col("text"), column("f", type_name)).alias("written"))
    assert written.where(~F.col("written").eqNullSafe(F.col("bits"))).take(5) == [], f"seed {SEED}"


COLUMNS = {
    column("id", "int4"): "int4 PRIMARY KEY",
    column("b", "bool"): "bool",
    column("i2", "int2"): "int2",
    column("i8", "int8"): "int8",
    column("o", "oid"): "oid",
    column("f4", "float4"): "float4",
    column("f8 'x\"", "float8"): "float8",
    numeric("n", 12, 9): "numeric(12,9)",
    numeric("n38", 38, 0): "numeric(38)",
    column("any", "numeric"): "numeric",
    column("d", "date"): "date",
    column("ts", "timestamp"): "timestamp(4)",
    column("tz", "timestamptz"): "timestamptz",
    column("by", "bytea"): "bytea",
    column("c", "bpchar"): "char(5)",
    column("iv", "interval"): "interval",
    column("j", "json"): "jsonb",
    column("a", "_text"): "text[]",
}

ROWS = """
    (1, true, -32768, -9223372036854775808, 4294967295, '3.4028235e38', '5e-324', '0.000000001', '-1e37', '1.10',
     '0001-01-01', '0001-01-01 00:00:00.00009', '0001-01-01 00:00:00+00', '\\x00ff', 'a', '-1 year 2 mons',
     '{"b": 1, "a": null}', '{NULL,"NULL",""}'),
    (2, false, 32767, 9223372036854775807, 0, '1e-45', '1.7976931348623157e308', '-0.1', '1', 'NaN',
     '9999-12-31', '9999-12-31 23:59:59.1', '2024-03-31 02:30:00+02', '', '', '1 us', '[]', '{}'),
    (3, NULL, 0, 0, 1, 'NaN', 'NaN', 'NaN', 'NaN', 'Infinity', 'infinity', '-infinity', 'infinity', '\\x5c', NULL, NULL,
     'null', '{{1,2},{3,4}}'),
    (4, NULL, 1, 1, 1, '-0', '-0', '999.999999999', '0', '-0.00', '0044-03-15 BC', '0044-03-15 12:00:00 BC',
     '10000-01-01 00:00:00+00', NULL, '   a', 'P1Y', '"x"', NULL),
    (5, NULL, NULL, NULL, NULL, '-Infinity', '-Infinity', NULL, NULL, '1e-20', '1582-10-10', '1582-10-10 00:00:00',
     '1582-10-10 00:00:00.000001+00', NULL, NULL, NULL, NULL, NULL),
    (6, NULL, NULL, NULL, NULL, 'Infinity', '0.1', NULL, NULL, '1e40', '20000-01-01', NULL, NULL, NULL, NULL, NULL,
     NULL, NULL)"""


@pytest.mark.server
@pytest.mark.spark
def test_gold_made_of_a_real_servers_texts_equals_what_the_server_prints_for_the_proof(
    spark: SparkSession, lake: LakeLayout, database: Database
) -> None:
    definition = ", ".join(f"{quote_postgres(c.name)} {sql_type}" for c, sql_type in COLUMNS.items())
    database.execute(f"CREATE TABLE public.t ({definition})", f"INSERT INTO public.t VALUES {ROWS}")
    described = relation(list(COLUMNS), key=("id",))
    plain = [quote_postgres(name) for name in described.column_names]
    with connect(database.settings) as connection:

        def rows(expressions: list[str]) -> list[tuple[str | None, ...]]:
            texts = ", ".join(f"CASE WHEN {e} IS NOT NULL THEN format('%s', {e}) END" for e in expressions)
            return connection.execute(f"SELECT {texts} FROM public.t ORDER BY id".encode()).fetchall()

        captured, proof = rows(plain), rows(source_expressions(described))
    changes = [change("r", 1, i - 2**62, described, after=row) for i, row in enumerate(captured)]
    apply_gold(spark, lake, epoch_of(spark, changes, [described]))

    gold = spark.table(str(lake.gold(described.name)))
    source = spark.createDataFrame([(list(row),) for row in proof], "values ARRAY<STRING>")
    comparison = compare(source, gold, described, described.row_key)
    assert comparison.sample == ()
    assert comparison.equal
    assert comparison.source_rows == 6
    # what the proof says must not depend on who looks at it
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        assert compare(source, gold, described, described.row_key).equal
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
