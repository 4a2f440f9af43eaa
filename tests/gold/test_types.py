"""Every text is converted without loss, or kept as it is: through a real Delta table and back by the proof's rules."""

from __future__ import annotations

import math
import random
import struct
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
import pytest
from pyspark.sql import functions as F

from tests.gold.changelog import change, column, epoch_of, numeric, relation
from walhouse.gold.apply import apply_gold
from walhouse.gold.columns import gold_columns
from walhouse.gold.types import TEXT, gold_type
from walhouse.proof.text import gold_texts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from walhouse.lakehouse.layout import LakeLayout
    from walhouse.pgoutput.column import ColumnDescription

SEED = 7
RANDOM = 150

TRAPS = [
    "0044-03-15 BC", "2024-01-01 garbage", "infinity", "-infinity", "1.23456", "1e400", "-1e400", "1e-400", " 12",
    "12 ", "+5", "1_000", "٣", "1\n", "", "0x1F", "1d", "1f", "inf", "nan", "INFINITY", "12:00", "10000-01-01",
    "0000-01-01",
    "2024-02-30", "2024-13-01", "2024-1-1", "2024-01-01T00:00:00", "2024-01-01 24:00:00", "2024-01-01 23:59:60",
    "2024-01-01 00:00:00.1234567", "2024-01-01 00:00:00.10", "2024-01-01 00:00:00+01", "2024-01-01 00:00:00 Z", "true",
    "TRUE", "y", "\\xABCD", "\\xabc", "abcd", "99999999999999999999", "-0.00", "1,5", "$1", "null", "-",
]  # fmt: skip


EDGES = [
    "0001-01-01 00:00:00", "1582-10-04 23:00:00", "1582-10-10 00:00:00", "1582-10-15 00:00:00", "1899-12-31 23:59:59",
    "1969-12-31 23:59:59.999999", "1970-01-01 00:00:00", "2024-02-29 12:00:00.1", "2023-03-26 02:30:00",
    "9999-12-31 23:59:59.999999",
]  # fmt: skip


def floats(pack: str, generator: random.Random) -> Iterator[float]:
    size = struct.calcsize(pack)
    while True:
        (value,) = struct.unpack(pack, generator.randbytes(size))
        if math.isfinite(value):
            yield value


def integers(bits: int, generator: random.Random) -> list[str]:
    edges = [0, 1, -1, 2 ** (bits - 1) - 1, -(2 ** (bits - 1))]
    return [str(n) for n in edges] + [str(generator.randrange(-(2 ** (bits - 1)), 2 ** (bits - 1))) for _ in range(20)]


def decimals(precision: int, scale: int, generator: random.Random) -> list[str]:
    top = 10**precision - 1
    numbers = [0, 1, -1, top, -top, *(generator.randint(-top, top) for _ in range(30))]
    return [fixed(n, scale) if scale else str(n) for n in numbers]


def fixed(unscaled: int, scale: int) -> str:
    """Digits with a point before the last ``scale`` of them, by string alone."""
    digits = str(abs(unscaled)).rjust(scale + 1, "0")
    return ("-" if unscaled < 0 else "") + digits[:-scale] + "." + digits[-scale:]


def moments(generator: random.Random) -> list[str]:
    """Timestamps as PostgreSQL prints them: no zeros at the fraction's end."""
    first = datetime(1, 1, 1, tzinfo=UTC)
    span = (datetime(9999, 12, 31, tzinfo=UTC) - first) // timedelta(microseconds=1)
    some = [(first + timedelta(microseconds=generator.randrange(span))).replace(tzinfo=None) for _ in range(RANDOM)]
    return EDGES + [t.isoformat(" ").rstrip("0").rstrip(".") if t.microsecond else t.isoformat(" ") for t in some]


def samples() -> dict[ColumnDescription, list[str]]:
    """For each type, texts that PostgreSQL prints and that its native type must take."""
    generator = random.Random(SEED)
    doubles, singles = floats(">d", generator), floats(">f", generator)
    days = [date(1, 1, 1), date(1582, 10, 4), date(1582, 10, 15), date(1970, 1, 1), date(9999, 12, 31)]
    stamps = moments(generator)
    special = ["0", "-0", "NaN", "Infinity", "-Infinity"]
    return {
        column("b", "bool"): ["t", "f"],
        column("i2", "int2"): integers(16, generator),
        column("i4", "int4"): integers(32, generator),
        column("i8", "int8"): integers(64, generator),
        column("o", "oid"): ["0", "1", "4294967295"],
        column("f8", "float8"): [
            *special, "5e-324", "1.7976931348623157e+308", "2.2250738585072014e-308", "1e+20", "1e-05", "0.1", "1e+15",
            *(repr(next(doubles)) for _ in range(RANDOM)),
        ],
        column("f4", "float4"): [
            *special, "1e-45", "3.4028235e+38", "1.1754944e-38", "1e+20", "0.1", "16777216",
            *(str(np.float32(next(singles))) for _ in range(RANDOM)),
        ],
        numeric("n5", 5, 0): decimals(5, 0, generator),
        numeric("n10", 10, 2): decimals(10, 2, generator),
        numeric("n20", 20, 10): decimals(20, 10, generator),
        numeric("n38", 38, 38): decimals(38, 38, generator),
        numeric("n38whole", 38, 0): decimals(38, 0, generator),
        column("d", "date"): [*map(str, days), *(t[:10] for t in stamps)],
        column("ts", "timestamp"): stamps,
        column("tz", "timestamptz"): [f"{t}+00" for t in stamps],
        column("by", "bytea"): ["\\x", "\\x00", "\\xdeadbeef", "\\x" + "5c" * 100_000],
    }  # fmt: skip


AS_TEXT = {
    column("u", "uuid"): ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"],
    column("j", "json"): ['{"a" : 1, "a": 2}'],
    column("t", "time"): ["24:00:00", "12:00:00.5"],
    column("iv", "interval"): ["-1 years -2 mons +3 days -04:05:06.789"],
    column("ar", "_text"): ['{a,"b,c",NULL,"NULL"}'],
    column("mood", "mood"): ["très content"],
    column("ch", "bpchar"): ["a    "],
    column("nn", "numeric"): ["1.10", "1.1", "NaN", "9" * 60, "-0.00"],
    numeric("wide", 39, 2): ["1.00"],
    numeric("negative", 5, -2): ["1200"],
    numeric("fraction", 2, 5): ["0.00012"],
}


@pytest.mark.spark
def test_every_text_that_postgres_prints_comes_back_the_same_and_every_other_text_is_kept(
    spark: SparkSession, lake: LakeLayout
) -> None:
    valid = {**samples(), **AS_TEXT}
    texts = {c: [*t, *TRAPS] for c, t in valid.items()}
    columns = [column("id", "int4"), *texts]
    described = relation(columns, key=("id",))
    count = max(map(len, texts.values()))
    rows = [(str(i), *(t[i] if i < len(t) else None for t in texts.values())) for i in range(count)]

    apply_gold(
        spark, lake, epoch_of(spark, [change("c", 1, i, described, after=r) for i, r in enumerate(rows)], [described])
    )

    gold = spark.table(str(lake.gold(described.name)))
    written = gold_texts(gold_columns((described,)), gold.schema).alias("texts")
    native = F.array(*(F.col(c.name).isNotNull() for c in columns)).alias("native")
    found = {row["id"]: row for row in gold.select("id", written, native, "_rescued").collect()}
    assert len(found) == count
    problems = []
    for position, (described_column, all_texts) in enumerate(texts.items(), start=1):
        for i, text in enumerate(all_texts):
            converted, rescued = found[i]["native"][position], (found[i]["_rescued"] or {}).get(described_column.name)
            must = i < len(valid[described_column])
            if converted == (rescued is not None) or (must and not converted):
                problems.append((described_column.name, text[:60], "converted" if converted else "rescued", rescued))
            expected = bits(described_column, text) if converted else text
            if found[i]["texts"][position] != expected:
                problems.append((described_column.name, text[:60], found[i]["texts"][position][:60], expected[:60]))
    assert problems == [], f"seed {SEED}"


def bits(described: ColumnDescription, text: str) -> str:
    """What the proof compares: the text, or a float's IEEE bits, here made by Python."""
    if described.base_type == "float8":
        return "7ff8000000000000" if text == "NaN" else struct.pack(">d", float(text)).hex()
    if described.base_type == "float4":
        return "7fc00000" if text == "NaN" else struct.pack(">f", np.float32(text)).hex()
    return text


def test_a_type_that_the_catalog_was_never_asked_about_is_text_unless_it_is_built_in() -> None:
    unknown = relation([column("a", "int4"), column("b", "mood")]).columns
    stripped = [type(c)(c.name, c.type_oid, c.typmod, c.identity) for c in unknown]
    assert gold_type(stripped[0]).spark_type.simpleString() == "int"
    assert gold_type(stripped[1]) is TEXT
