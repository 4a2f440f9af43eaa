"""Spark reads out of images what was packed into them, and packs as the decoder does."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

from walhouse.changes.images import packed, text_alone, text_at
from walhouse.pgoutput.image import pack_row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

TEXTS = (None, "", "\\", "\\\\N", "\\N", "N", "a", "größe", "🐘|.$", "two\nlines\ttab\r", " ", "x" * 5000)
WIDTH = 4


def rows() -> list[list[str | None]]:
    drawn = random.Random(7)
    return [[None] * WIDTH, [""] * WIDTH, *([drawn.choice(TEXTS) for _ in range(WIDTH)] for _ in range(400))]


def test_every_text_is_read_from_its_place(spark: SparkSession) -> None:
    cases = rows()
    frame = spark.createDataFrame([(number, pack_row(row)) for number, row in enumerate(cases)], "n int, image string")
    image = F.col("image")
    for read in (text_at, text_alone):
        found = frame.select("n", F.array(*(read(image, place) for place in range(WIDTH))).alias("texts")).orderBy("n")
        assert [row["texts"] for row in found.collect()] == cases, read.__name__
    beyond = frame.where(text_at(image, WIDTH).isNotNull())
    assert beyond.isEmpty(), "beyond an image's end there is nothing"


def test_spark_packs_as_the_decoder_does(spark: SparkSession) -> None:
    cases = rows()
    frame = spark.createDataFrame(
        [(number, *row) for number, row in enumerate(cases)], "n int, a string, b string, c string, d string"
    )
    found = frame.select("n", packed(F.col(name) for name in "abcd").alias("image")).orderBy("n")
    assert [row["image"] for row in found.collect()] == [pack_row(row) for row in cases]
