"""``python -m walhouse.lakehouse.class_archive``: make local Spark start sooner, by an archive of its classes.

A JVM reads, checks and links some twenty thousand classes before the first answer; from an archive it maps them. Takes
up to a minute, once, and some 200 MB in the Python environment.

Invariant: the archive is whole or not there, and changes nothing but time: the JVM passes over one that does not fit.
Source: Java documentation, "Class Data Sharing", dynamic archives.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from walhouse.lakehouse.session import QUIET, archive_path, java_option, java_options, local_session
from walhouse.names import string_literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa
    from pyspark.sql import SparkSession


def make_archive() -> Path | None:
    """Make it anew, in place of one that is there; None if this Java makes none.

    Raises CalledProcessError if Spark does not start; there is none then.
    """
    target = archive_path()
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        part = Path(folder) / target.name
        # The JVM writes it when it ends, after Python has; it holds the pipe open until then.
        subprocess.run(  # noqa: S603  (this very interpreter and module)
            [sys.executable, "-m", "walhouse.lakehouse.class_archive", str(part)], check=True, stdout=subprocess.PIPE
        )
        return part.replace(target) if part.is_file() else None


def load_classes(archive: Path) -> None:
    """Do what the commands do, on tables of some rows; the classes that this takes are in the archive."""
    options = [*java_options(quick=True), java_option("-XX:ArchiveClassesAtExit", archive), *QUIET]
    spark = local_session(settings={"spark.driver.extraJavaOptions": " ".join(options)})
    with tempfile.TemporaryDirectory() as folder:
        _write(spark, Path(folder))
        _read(spark)
    spark.stop()


def _write(spark: SparkSession, folder: Path) -> None:
    spark.sql(f"CREATE SCHEMA lake LOCATION {string_literal(str(folder / 'lake'))}")
    spark.sql(
        "CREATE TABLE lake.items (id BIGINT, note STRING, tags ARRAY<STRING>, at TIMESTAMP) USING delta"
        " TBLPROPERTIES ('delta.enableDeletionVectors' = 'true', 'delta.columnMapping.mode' = 'name')"
    )
    rows = spark.range(100).selectExpr(
        "id", "'a' AS note", "array('b', string(id)) AS tags", "current_timestamp() AS at"
    )
    decoded = rows.mapInArrow(_as_they_are, rows.schema)
    decoded.write.format("delta").mode("append").saveAsTable("lake.items")
    spark.sql(
        "MERGE INTO lake.items t USING {changed} s ON t.id = s.id WHEN MATCHED AND s.id < 10 THEN DELETE"
        " WHEN MATCHED THEN UPDATE SET t.note = s.note WHEN NOT MATCHED THEN INSERT *",
        changed=rows.withColumn("id", F.col("id") + 50),
    ).first()


def _read(spark: SparkSession) -> None:
    items = spark.table("lake.items")
    latest = F.row_number().over(Window.partitionBy("note").orderBy("id"))
    spark.sql("DESCRIBE HISTORY lake.items LIMIT 1").first()
    spark.read.option("versionAsOf", 0).table("lake.items").agg(F.max("id")).first()
    items.withColumn("latest", latest).where("latest = 1").join(items, "id").toArrow()
    items.groupBy("note").agg(F.count("id"), F.collect_list("tags")).orderBy("note").toArrow()
    items.select(F.to_json(F.struct("id", "tags", "at")), F.transform("tags", F.length)).toArrow()


def _as_they_are(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


if __name__ == "__main__":
    if sys.argv[1:]:
        load_classes(Path(sys.argv[1]))
    else:
        print(make_archive() or "This Java archives no classes; all works without.")  # noqa: T201  (a command's answer)
