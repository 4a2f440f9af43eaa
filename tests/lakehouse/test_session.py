"""The local session: Delta's two jars on the class path, and settings that queries depend on."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import AnalysisException

from walhouse.errors import ConfigurationError
from walhouse.lakehouse import session as sessions
from walhouse.lakehouse.session import DELTA_VERSION, _delta_jars, get_session, require_names, require_usable
from walhouse.names import quote, string_literal

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


def test_a_folder_without_delta_is_answered_with_what_to_fetch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WALHOUSE_IVY", str(tmp_path))
    settings = _delta_jars()
    assert settings["spark.jars.packages"].endswith(f":{DELTA_VERSION}")
    assert settings["spark.jars.ivy"] == str(tmp_path)
    assert "spark.driver.extraClassPath" not in settings


def test_of_a_folder_with_jars_of_many_versions_just_the_two_that_fit_are_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fetched jars go onto the class path, which starts three seconds sooner than resolving them again."""
    monkeypatch.setenv("WALHOUSE_IVY", str(tmp_path))
    monkeypatch.delenv("SPARK_HOME", raising=False)
    wanted = _delta_jars()["spark.jars.packages"].split(":")[1]
    (tmp_path / "jars").mkdir()
    fitting = {f"io.delta_{wanted}-{DELTA_VERSION}.jar", f"io.delta_delta-storage-{DELTA_VERSION}.jar"}
    others = {f"io.delta_{wanted}-9.9.9.jar", "io.delta_delta-spark_3.5_2.12-4.4.0.jar", "org.antlr_antlr4-runtime.jar"}
    for name in fitting | others:
        (tmp_path / "jars" / name).touch()
    settings = _delta_jars()
    assert set(settings) == {"spark.driver.extraClassPath"}
    *delta, spark = settings["spark.driver.extraClassPath"].split(":")
    assert {path.rpartition("/")[2] for path in delta} == fitting
    assert spark.endswith("/pyspark/jars/*")


_TOO_MUCH = """
import sys
from walhouse.api import Walhouse
spark = Walhouse.open(sys.argv[1]).spark
print(spark.conf.get("spark.driver.memory"), flush=True)
spark.range(1).selectExpr("size(array_sort(sequence(1L, id + 200000000L)))").collect()
print("went on")
"""


_LITTLE_MEMORY = """
connector: {topic.prefix: t, database.hostname: h, database.user: u, database.password: p, database.dbname: d}
lake: {path: lake, local_memory: 512MiB}
"""


@pytest.mark.spark
def test_a_session_beyond_the_memory_it_is_given_ends_and_does_not_leave_python_waiting(tmp_path: Path) -> None:
    conf = tmp_path / "walhouse.yml"
    conf.write_text(_LITTLE_MEMORY)
    done = subprocess.run(
        [sys.executable, "-c", _TOO_MUCH, str(conf)], check=False, capture_output=True, encoding="utf-8", timeout=120
    )
    assert done.returncode == 1
    memory, ended = done.stdout.splitlines()
    assert memory == "512m"
    assert "java.lang.OutOfMemoryError" in ended


_WRITES = """
import sys
from walhouse.lakehouse.session import local_session
spark = local_session(memory=512 * 2**20)
for _ in range(2):
    spark.range(3).coalesce(1).write.format("delta").mode("append").save(sys.argv[1])
print(spark.read.format("delta").load(sys.argv[1]).count())
"""


@pytest.mark.spark
def test_writing_a_table_starts_a_process_for_a_file_that_is_made_and_none_to_look_at_one(tmp_path: Path) -> None:
    """Hadoop without its native library asks programs: each takes milliseconds, and there were hundreds in a round."""
    log, programs, lake = tmp_path / "asked", tmp_path / "programs", tmp_path / "lake"
    log.touch()
    programs.mkdir()
    for name in ("chmod", "ls", "readlink", "stat"):
        program = programs / name
        program.write_text(f'#!/bin/sh\necho "{name} $*" >> "{log}"\nexec {shutil.which(name)} "$@"\n')
        program.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-c", _WRITES, str(lake)],
        env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"},
        check=True,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
    )
    asked = [line.split() for line in log.read_text().splitlines() if str(lake) in line]
    assert done.stdout.splitlines()[-1] == "6"
    assert {program for program, *_ in asked} == {"chmod"}
    assert len(asked) == len({path for *_, path in asked})


@pytest.mark.spark
def test_a_session_that_is_there_is_used_and_its_zone_is_utc(spark: SparkSession) -> None:
    assert get_session(memory=2**30) is spark
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.sql("SELECT current_timezone()").head(1)[0][0] == "UTC"


def test_a_session_without_delta_is_refused_by_name() -> None:
    script = (
        "from pyspark.sql import SparkSession\n"
        "from walhouse.lakehouse.session import require_usable\n"
        "require_usable(SparkSession.builder.master('local[1]').config('spark.ui.enabled', 'false').getOrCreate())"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, encoding="utf-8", timeout=120, check=False
    )
    assert done.stderr.splitlines()[-1].startswith(
        "walhouse.errors.usage.ConfigurationError: The Spark session that is active in this process does not know"
    )


@pytest.mark.spark
def test_where_spark_puts_variables_into_queries_texts_keep_what_looks_like_one_and_columns_with_it_are_refused(
    spark: SparkSession,
) -> None:
    require_names(spark, ["${id}"])
    asking = spark.newSession()
    asking.conf.set("spark.sql.variable.substitute", "true")
    assert asking.sql("SELECT 1 AS `${id}`").columns != ["${id}"]
    text = "${id} $\\{id} ${user.name}$"
    assert asking.sql(f"SELECT {string_literal(text)} AS found").head(1)[0]["found"] == text
    kept = ["id", "$", "${", "${}", "${a b}", "$id", "{id}"]
    assert asking.sql(f"SELECT {', '.join(f'1 AS {quote(name)}' for name in kept)}").columns == kept
    require_names(asking, kept)
    with pytest.raises(ConfigurationError, match=r"the column a\$\{id\}b would lose its name"):
        require_names(asking, [*kept, "a${id}b"])


def test_compute_that_does_not_tell_a_setting_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def not_available(name: str, _: str) -> str:
        raise AnalysisException(f"[CONFIG_NOT_AVAILABLE] Configuration {name} is not available. SQLSTATE: 42K0I")

    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "client.4.1")
    serverless: Any = SimpleNamespace(conf=SimpleNamespace(get=not_available))
    assert require_usable(serverless) is serverless


def test_a_catalog_of_databricks_is_not_looked_for_in_a_local_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "SparkSession", SimpleNamespace(getActiveSession=lambda: None))
    monkeypatch.delenv("DATABRICKS_RUNTIME_VERSION", raising=False)
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    with pytest.raises(ConfigurationError, match=r"lake\.catalog is main"):
        get_session(memory=2**30, catalog="main")
