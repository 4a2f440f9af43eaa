from __future__ import annotations

import json

import pytest
from pyspark.errors import PySparkRuntimeError

from walhouse.cli.failure import report
from walhouse.cli.logs import LogFormat
from walhouse.errors import SlotGapError


def test_our_errors_say_what_is_wrong_what_is_safe_and_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    error = SlotGapError("The slot is ahead of bronze.", todo="Start a new lake.", slot="s", bronze_lsn="0/1")
    assert report(error, LogFormat.TEXT, debug=False) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "error SlotGapError",
        "  what  The slot is ahead of bronze.",
        "  safe  What bronze holds is safe; the slot was not moved by this command.",
        " to do  Start a new lake.",
        "        slot=s, bronze_lsn=0/1",
    ]


def test_any_other_errors_message_is_withheld_because_it_may_quote_data(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="hunter2") as caught:
        int("hunter2")
    assert report(caught.value, LogFormat.TEXT, debug=False) == 1
    err = capsys.readouterr().err
    assert "hunter2" not in err
    assert "ValueError in test_failure.py, line " in err


def test_debug_shows_everything(capsys: pytest.CaptureFixture[str]) -> None:
    report(ValueError("hunter2"), LogFormat.TEXT, debug=True)
    assert "ValueError: hunter2" in capsys.readouterr().err


def test_a_missing_spark_says_how_to_install_it(capsys: pytest.CaptureFixture[str]) -> None:
    report(ModuleNotFoundError("No module named 'pyspark'", name="pyspark"), LogFormat.JSON, debug=False)
    assert "pip install 'walhouse[local]'" in json.loads(capsys.readouterr().err)["todo"]


@pytest.mark.parametrize("error", [ConnectionRefusedError(111, "Connection refused"), EOFError()])
def test_a_java_process_that_ended_is_told_from_other_errors(
    error: Exception, capsys: pytest.CaptureFixture[str]
) -> None:
    report(error, LogFormat.TEXT, debug=False)
    assert "lake.local_memory" in capsys.readouterr().err


def test_a_missing_java_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    report(PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={}), LogFormat.TEXT, debug=False)
    err = capsys.readouterr().err
    assert "JAVA_GATEWAY_EXITED" in err
    assert "JAVA_HOME" in err
