"""The archive of classes: used where it fits, passed over where not, whole or not there."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from walhouse.lakehouse import class_archive
from walhouse.lakehouse.session import archive_path

if TYPE_CHECKING:
    from pathlib import Path

_START: str = """
import sys
from pathlib import Path
from walhouse.lakehouse import session
if sys.argv[1]:
    session.archive_path = lambda: Path(sys.argv[1])
options = [*session.java_options(quick=True), f"-Xlog:class+load:file={sys.argv[2]}"]
spark = session.local_session(memory=512 * 2**20, settings={"spark.driver.extraJavaOptions": " ".join(options)})
print(spark.range(3).count())
"""


def _origin_of_spark(folder: Path, archive: Path | str = "") -> str:
    """Where a session that is started now has Spark's main class from."""
    log = folder / "classes.log"
    started = subprocess.run(
        [sys.executable, "-c", _START, str(archive), str(log)],
        check=True,
        stdout=subprocess.PIPE,
        encoding="utf-8",
        timeout=180,
    )
    assert started.stdout == "3\n"  # the JVM writes there, too, and says nothing of an archive that it passes over
    [line] = [line for line in log.read_text("utf-8").splitlines() if " org.apache.spark.SparkContext " in line]
    return line.partition("source: ")[2]


@pytest.mark.spark
@pytest.mark.locked
def test_a_session_takes_its_classes_out_of_the_archive_that_set_up_made(tmp_path: Path) -> None:
    assert archive_path().is_file(), "make setup makes it, with any Java that can"
    assert _origin_of_spark(tmp_path).startswith("shared objects file")


@pytest.mark.spark
def test_an_archive_that_is_none_is_passed_over_without_a_word(tmp_path: Path) -> None:
    broken = tmp_path / 'a folder\'s é \\ "quoted".jsa'
    broken.write_bytes(b"no archive at all" * 1000)
    assert "spark-core" in _origin_of_spark(tmp_path, broken)


def test_where_spark_does_not_start_there_is_no_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "share" / "classes.jsa"
    target.parent.mkdir()
    target.write_bytes(b"of another version")
    monkeypatch.setattr(class_archive, "archive_path", lambda: target)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "no-java"))
    with pytest.raises(subprocess.CalledProcessError):
        class_archive.make_archive()
    assert list(target.parent.iterdir()) == []
