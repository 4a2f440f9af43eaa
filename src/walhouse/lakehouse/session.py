"""The Spark session: the platform's own where there is one, else a tuned local one with Delta.

Invariant: nothing here changes what a query means, but for the time zone, which is UTC in a session of ours. One that
was there already is left as it is: it is refused if the lake's queries would mean another thing in it.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyspark
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from walhouse.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

SMALL_TABLES: Final = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    # else the first commit of a process to each table rewrites all its small files, be there only two
    "spark.databricks.delta.autoCompact.modifiedPartitionsOnly.enabled": "false",
}
"""For tables of some thousands of rows: compiling or re-planning a query costs more than running it as it is."""

TINY_TABLES: Final = {**SMALL_TABLES, "spark.databricks.delta.merge.deletionVectors.persistent": "false"}
"""For tables of one small file: to write it anew costs less than to mark rows of it, and leaves one file to be read."""

_STARTED_HERE: Final = "spark.walhouse.startedHere"

_NEEDED: Final = {
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
}
"""What silver's and gold's SQL means depends on these: patterns that are not found, or another type of a column."""

DELTA_VERSION: Final = "4.4.0"
SCALA_VERSION: Final = "2.13"

QUIET: Final = ("-Xlog:disable", "-Xlog:all=error:stderr")
"""The JVM's own log: errors alone, and not on standard output."""

_LOGGING: Final = Path(__file__).with_name("log4j2.properties").resolve()

# Without Hadoop's native library, its default classes start a process for each look at a file and each checksum beside
# one: some two hundred of them in a round over two tables, a sixth of its time. These ask Java. Commits are written
# beside their place and renamed as by the default ones.
_LOCAL_FILES: Final = {
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
    "spark.delta.logStore.file.impl": "io.delta.storage.LocalLogStore",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}

_VARIABLES: Final = "spark.sql.variable.substitute"
_VARIABLE: Final = re.compile(r"\$\{\S+?\}", re.ASCII)

_TUNED: Final = {
    # a column may be called ${id}, and before it parses, Spark would put a variable's value there, or nothing
    _VARIABLES: "false",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.session.timeZone": "UTC",
    # the JVM never compiles a method beyond this: wide tables would be interpreted for ever
    "spark.sql.codegen.hugeMethodLimit": "8000",
    # a lake's round has more classes than the default of 100: the wide ones would be compiled anew in each round
    "spark.sql.codegen.cache.maxEntries": "2000",
    "spark.databricks.delta.snapshotPartitions": "1",
    # a MERGE's rows are in a part for each core already: to shuffle them once more took a seventh of gold's time
    "spark.databricks.delta.optimizeWrite.enabled": "false",
    # the first commit of a process rewrites a table's files, however few, that are smaller than half of this
    "spark.databricks.delta.autoCompact.maxFileSize": str(32 * 2**20),
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.python.worker.reuse": "true",
    # a task's process that dies says where
    "spark.python.worker.faulthandler.enabled": "true",
    "spark.sql.execution.pyspark.udf.faulthandler.enabled": "true",
    # INT96, the default, is deprecated, has no statistics, and costs a fourteenth of what writing bronze does
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # else each expression built in Python asks Java six times more, to say in an error which line built it
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.ui.enabled": "false",
    # nobody looks at what was run, and a continuous run would keep the last thousand of everything
    "spark.sql.ui.retainedExecutions": "20",
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "20",
    "spark.ui.retainedTasks": "200",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
"""For tables of a laptop's size."""

# What Delta's jar pulls in beside its own storage jar serves Unity Catalog and Kernel; none of it runs here.
_UNUSED_JARS: Final = (
    "io.delta:delta-kernel-api",
    "io.delta:delta-kernel-defaults",
    "io.delta:delta-kernel-unitycatalog",
    "io.unitycatalog:unitycatalog-client",
    "io.unitycatalog:unitycatalog-hadoop",
    "org.antlr:antlr4-runtime",
)


def on_databricks() -> bool:
    """True on a Databricks runtime, which brings its own session, catalog and Delta."""
    return "DATABRICKS_RUNTIME_VERSION" in os.environ


def get_session(*, memory: int, quick: bool = True, catalog: str | None = None) -> SparkSession:
    """The active session, else the platform's, else a local one, which knows no ``catalog``. Raises ConfigurationError.

    ``quick``: with the first-tier compiler alone, all is done sooner that takes less than some minutes; a continuous
    run, a benchmark or a print of a million events is faster without, by a half or more once it is warm.
    ``memory`` is the heap of a local session's Java process, in bytes.
    """
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    if on_databricks() or "SPARK_REMOTE" in os.environ:
        return SparkSession.builder.getOrCreate()
    if catalog is not None:
        raise ConfigurationError(
            f"lake.catalog is {catalog}, a catalog of Databricks, and this process has no session there.",
            todo="Use a job or a notebook there, or lake.path for a local lake. `check` and `drop` need no session.",
            path="lake.catalog",
        )
    return local_session(memory=memory, quick=quick)


def require_usable(session: SparkSession) -> SparkSession:
    """The session, if queries mean in it what they mean here, and it knows Delta. Raises ConfigurationError."""
    for name, needed in _NEEDED.items():
        if (found := _setting(session, name, otherwise=needed)) != needed:
            raise ConfigurationError(
                f"The Spark session has {name} = {found}, with which the lake's queries would mean another thing.",
                todo=f'Run spark.conf.set("{name}", "{needed}"), or give walhouse a session of its own.',
                path=name,
            )
    is_remote = type(session).__module__.startswith("pyspark.sql.connect")
    if not (on_databricks() or is_remote or "io.delta" in _setting(session, "spark.sql.extensions", otherwise="")):
        raise ConfigurationError(
            "The Spark session that is active in this process does not know Delta.",
            todo="Stop it, so that walhouse starts its own, or make it with Delta's jars and its extension.",
        )
    return session


def require_names(session: SparkSession, columns: Iterable[str]) -> None:
    """Raises ConfigurationError if Spark would replace a part of one of these names, which no quoting stops."""
    found = next(filter(_VARIABLE.search, columns), None)
    if found is not None and _setting(session, _VARIABLES, otherwise="true") == "true":
        raise ConfigurationError(
            f"The Spark session has {_VARIABLES} = true, with which the column {found} would lose its name.",
            safe="Nothing was written of its table.",
            todo=f'Run spark.conf.set("{_VARIABLES}", "false"), or leave the column out.',
            path=_VARIABLES,
        )


def _setting(session: SparkSession, name: str, *, otherwise: str) -> str:
    try:
        return session.conf.get(name, otherwise) or otherwise
    except PySparkException:
        return otherwise  # serverless compute tells some settings only, and lets nobody set the others


def local_session(
    *, memory: int = 2 * 2**30, quick: bool = True, settings: Mapping[str, str] | None = None
) -> SparkSession:
    """Start Spark in this process on all cores, with Delta, tuned for tables of a laptop's size.

    ``memory`` is the Java process's heap, in bytes. ``settings`` are further ones, which win.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # tasks run in this very environment
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    cores = os.cpu_count() or 2
    # one task more than cores: while tasks on all of them read chunks of a snapshot, the stream goes on
    builder = SparkSession.builder.master(f"local[{cores + 1}]").appName("walhouse")
    tuned = {
        **_TUNED,
        "spark.default.parallelism": str(cores),
        "spark.sql.shuffle.partitions": str(cores),
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": str(cores),
        "spark.sql.warehouse.dir": str(Path(tempfile.gettempdir()) / "walhouse-unused-warehouse"),
        "spark.driver.memory": f"{memory // 2**20}m",
        "spark.driver.extraJavaOptions": " ".join(java_options(quick=quick)),
        _STARTED_HERE: "true",
        **_LOCAL_FILES,
        **_delta_jars(),
        **(settings or {}),
    }
    for name, value in tuned.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def started_here(spark: SparkSession) -> bool:
    """Whether it is a local session of ours, in which nobody else's tasks run but those of whoever asks ours."""
    return bool(_setting(spark, _STARTED_HERE, otherwise=""))


def beside(spark: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    """A session on the same tables, beside a local one that was started here, with other settings.

    The session itself if it has these already, or was started by somebody else, whose business it is how it computes.
    """
    if not started_here(spark):
        return spark
    if all(_setting(spark, name, otherwise="") == value for name, value in settings.items()):
        return spark
    found = spark.newSession()
    for name, value in settings.items():
        found.conf.set(name, value)
    return found


def java_options(*, quick: bool) -> list[str]:
    """The driver's, one an element; with the archive of its classes where there is one."""
    # a JVM that goes on after it ran out of memory leaves Python waiting for an answer for ever
    options = ["-XX:+ExitOnOutOfMemoryError", "-Duser.timezone=UTC"]
    options.append(f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}")  # a URI: an escaped path has no blank
    options.append("-XX:+UseSerialGC" if quick else "-XX:+UseParallelGC")
    if quick:
        # With the first tier alone the code cache has 48 MiB; Spark's generated code fills it, and is then interpreted.
        options += ["-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=256m"]
    archive = archive_path()
    if archive.is_file():
        # an archive that does not fit is passed over, which the JVM would tell on standard output
        options += [java_option("-XX:SharedArchiveFile", archive), *QUIET]
    return options


def java_option(name: str, path: Path) -> str:
    """An option whose value is a path, quoted as Spark splits them."""
    text = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{name}={text}"'


def archive_path() -> Path:
    """Where the archive of loaded classes is, if ``walhouse.lakehouse.class_archive`` has made one: a package cache."""
    return Path(sys.prefix) / "share" / "walhouse" / f"spark-{pyspark.__version__}-delta-{DELTA_VERSION}.jsa"


def _spark_home() -> Path:
    """The Spark that PySpark starts."""
    return Path(os.environ.get("SPARK_HOME", Path(pyspark.__file__).parent))


def _delta_jars() -> dict[str, str]:
    """Class path of Delta's two jars and then Spark's own, if an earlier start fetched Delta (2 s faster); else the
    coordinates to fetch.
    """
    spark_line = ".".join(pyspark.__version__.split(".")[:2])
    artifact = f"delta-spark_{spark_line}_{SCALA_VERSION}"
    names = (f"io.delta_{artifact}-{DELTA_VERSION}.jar", f"io.delta_delta-storage-{DELTA_VERSION}.jar")
    ivy = Path(os.environ.get("WALHOUSE_IVY", str(Path.home() / ".ivy2.5.2")))
    jars = [ivy / "jars" / name for name in names]
    if all(jar.is_file() for jar in jars):
        # Spark names one of its jars before all, and again among them. Java 21 takes an archive of classes only if what
        # is named again comes after all else.
        return {"spark.driver.extraClassPath": ":".join([*map(str, jars), str(_spark_home() / "jars" / "*")])}
    return {
        "spark.jars.ivy": str(ivy),
        "spark.jars.packages": f"io.delta:{artifact}:{DELTA_VERSION}",
        "spark.jars.excludes": ",".join(_UNUSED_JARS),
    }
