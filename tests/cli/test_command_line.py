"""What the command line does before anything is connected to."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest
import typer

from walhouse import errors
from walhouse.cli.app import run
from walhouse.cli.failure import EXIT_CODES
from walhouse.cli.options import parse_lsn, parse_table
from walhouse.lsn import Lsn
from walhouse.names import TableName

CONF = """
connector:
  topic.prefix: shop
  database.hostname: 127.0.0.1
  database.port: 1
  database.user: walhouse
  database.password: hunter2
  database.dbname: shop
lake:
  path: lake
"""
COMMANDS = ["init", "check", "drop", "capture", "silver", "gold", "run", "status", "verify", "events", "sql"]
NEED_A_CONFIGURATION = [[name] for name in COMMANDS if name not in {"init", "sql"}] + [["sql", "SELECT 1"]]


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("WALHOUSE_CONF", "WALHOUSE_LOG_FORMAT", "WALHOUSE_DEBUG", "PGPASSWORD"):
        monkeypatch.delenv(name, raising=False)


def write(text: str) -> str:
    Path("walhouse.yml").write_text(text)
    return "walhouse.yml"


def imported_by(*arguments: str) -> tuple[int, set[str], str]:
    """Exit code, imported modules and standard error of a command in a process of its own."""
    script = (
        "import sys\nfrom walhouse.cli.app import run\n"
        f"code = run({list(arguments)!r})\nprint('\\nMODULES', *sys.modules)\nsys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": ":".join(sys.path)},
        check=False,
    )
    return done.returncode, set(done.stdout.rpartition("MODULES ")[2].split()), done.stderr


# Help ----------------------------------------------------------------------------------------------------------------


def test_help_names_every_command_and_every_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    shown = capsys.readouterr().out
    assert [name for name in COMMANDS if f" {name} " not in shown] == []
    assert [code for code in EXIT_CODES if f"{code}: " not in shown] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([command, "--help"]) == 0
    assert f"walhouse {command}" in capsys.readouterr().out


def test_help_is_quick_since_it_imports_neither_spark_nor_the_configuration() -> None:
    code, modules, _ = imported_by("--help")
    assert code == 0
    assert not modules & {"pyspark", "pydantic", "yaml", "psycopg", "numpy", "pyarrow", "databricks"}


def test_every_error_of_walhouse_ends_in_a_documented_exit_code() -> None:
    kinds = [
        kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.WalhouseError)
    ]
    assert len(kinds) > 20
    assert {kind.exit_code for kind in kinds} <= set(EXIT_CODES)


@pytest.mark.parametrize(
    "arguments",
    [
        ["captur"],
        ["events", "--from", "x"],
        ["verify", "--table", "a"],
        ["sql"],
        ["status", "--format", "xml"],
        ["signal", "log", "--data", "{"],
        ["signal", "log", "--data", "[" * 20_000],
        ["signal", "log", "--data", "9" * 5000],
    ],
)
def test_a_wrong_command_line_is_exit_code_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_the_version_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out.startswith("walhouse ")


# The configuration ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", NEED_A_CONFIGURATION, ids=lambda arguments: arguments[0])
def test_an_unknown_key_stops_every_command_with_file_path_nearest_name_and_exit_code_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    conf = write(CONF.replace("topic.prefix", "topic.prefx"))
    assert run([*arguments, "--conf", conf]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "walhouse.yml" in err
    assert "connector.topic.prefx (line 3): unknown property; did you mean topic.prefix?" in err
    assert "Traceback" not in err


def test_a_missing_secret_stops_before_spark_or_the_source_are_touched() -> None:
    conf = write(CONF.replace("hunter2", "${env:WALHOUSE_NO_SUCH_VARIABLE}"))
    code, modules, err = imported_by("capture", "--conf", str(Path(conf).absolute()))
    assert code == 2
    assert "${env:WALHOUSE_NO_SUCH_VARIABLE} cannot be resolved" in err
    assert "Nothing was read from the source and nothing was written." in err
    assert not modules & {"pyspark", "psycopg"}


def test_a_machine_without_java_is_told_so_and_not_that_the_query_is_wrong() -> None:
    conf = write(CONF)
    done = subprocess.run(
        [sys.executable, "-m", "walhouse.cli", "sql", "SELECT 1", "--conf", conf],
        env={**os.environ, "JAVA_HOME": str(Path.cwd() / "no-java")},
        check=False,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
    )
    assert done.returncode == 1
    assert "JAVA_GATEWAY_EXITED" in done.stderr
    assert "set JAVA_HOME" in done.stderr
    assert "QueryError" not in done.stderr


def test_without_a_configuration_the_error_says_how_to_get_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["status"]) == 2
    assert "walhouse init" in capsys.readouterr().err


@pytest.mark.parametrize("place", ["before", "after", "environment"])
def test_the_configuration_may_be_named_before_or_after_the_command_or_by_the_environment(
    place: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    conf = write("lake: {}\n")
    arguments = {"before": ["--conf", conf, "status"], "after": ["status", "--conf", conf], "environment": ["status"]}
    if place == "environment":
        monkeypatch.setenv("WALHOUSE_CONF", conf)
    assert run(arguments[place]) == 2
    assert "connector.topic.prefix: required, but missing" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--log-format", "json", "status"], ["status", "--log-format", "json"]])
def test_errors_are_json_lines_if_asked_for(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    conf = write(CONF.replace("topic.prefix", "topic.prefx"))
    assert run([*arguments, "--conf", conf]) == 2
    line = json.loads(capsys.readouterr().err)
    assert line["error"] == "ConfigurationError"
    assert line["exit_code"] == 2
    assert line["fields"]["path"] == "connector.topic.prefx"
    assert "did you mean topic.prefix?" in line["problem"]
    assert line["message"] == f"{line['error']}: {line['problem']}"
    assert datetime.fromisoformat(line["ts"]).tzinfo is not None  # as every other line of the log has it


def test_help_is_broken_where_the_terminal_ends_alone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run(["check", "--help"]) == 0
    paragraph = capsys.readouterr().out.split("Looks at")[1].split("╭")[0].strip().splitlines()
    assert all(len(line.strip()) > 60 for line in paragraph[:-1]), paragraph


@pytest.mark.parametrize("command", ["--help", "check --help"])
def test_a_reader_that_has_enough_is_no_error(command: str) -> None:
    program = f"{sys.executable} -m walhouse.cli {command} | true"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", program],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": ":".join(sys.path), "PATH": os.environ["PATH"]},
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


# init ----------------------------------------------------------------------------------------------------------------


def test_init_writes_a_configuration_that_check_can_start_from(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["init"]) == 0
    assert "walhouse check --conf walhouse.yml" in capsys.readouterr().err
    assert run(["status", "--conf", "walhouse.yml"]) == 2  # only the password is missing
    assert "PGPASSWORD" in capsys.readouterr().err


def test_init_overwrites_nothing_unless_it_is_forced(capsys: pytest.CaptureFixture[str]) -> None:
    write("mine")
    assert run(["init"]) == 2
    assert "is there already" in capsys.readouterr().err
    assert Path("walhouse.yml").read_text() == "mine"
    assert run(["init", "--force"]) == 0
    assert "connector:" in Path("walhouse.yml").read_text()


def test_init_takes_over_a_kafka_connect_connector_without_its_password(capsys: pytest.CaptureFixture[str]) -> None:
    config = {"topic.prefix": "shop", "database.hostname": "db", "database.user": "u", "database.password": "hunter2"}
    Path("connector.json").write_text(json.dumps({"name": "shop", "config": {**config, "database.dbname": "shop"}}))
    assert run(["init", "shop.yml", "--from-connector", "connector.json"]) == 0
    text = Path("shop.yml").read_text()
    assert "topic.prefix: shop" in text
    assert "hunter2" not in text + capsys.readouterr().err
    assert "database.password: ${env:PGPASSWORD}" in text


def test_init_says_at_once_what_is_to_be_changed(capsys: pytest.CaptureFixture[str]) -> None:
    connector = {"database.server.name": "shop", "database.hostname": "${env:HOST}", "signal.enabled.channels": "kafka"}
    mark_of_windows = b"\xef\xbb\xbf"
    Path("connector.json").write_bytes(mark_of_windows + json.dumps({"name": "shop", "config": connector}).encode())
    assert run(["init", "shop.yml", "--from-connector", "connector.json"]) == 0
    said = capsys.readouterr().err
    assert "warning: The configuration" in said
    assert re.search(r"connector\.database\.hostname \(line \d+\): is to be filled in", said)
    assert "'kafka' is no channel here" in said


@pytest.mark.parametrize(("content", "said"), [("{", "is not JSON"), (None, "No such file")])
def test_init_says_what_is_wrong_with_a_connector(
    content: str | None, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if content is not None:
        Path("connector.json").write_text(content)
    assert run(["init", "--from-connector", "connector.json"]) == 2
    assert said in capsys.readouterr().err
    assert not Path("walhouse.yml").exists()


# Arguments -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("shop.orders", TableName("shop", "orders")),
        ('"my.shop".Orders', TableName("my.shop", "Orders")),
        ('shop."a ""b"".c"', TableName("shop", 'a "b".c')),
        ('"".message', TableName("", "message")),
    ],
)
def test_a_table_is_named_with_its_schema_and_quoted_where_a_name_holds_a_dot(text: str, name: TableName) -> None:
    assert parse_table(text) == name


@pytest.mark.parametrize("text", ["orders", "a.b.c", ".a", "a.", '"a.b"', ""])
def test_what_names_no_table_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter, match=r"expected SCHEMA\.TABLE"):
        parse_table(text)


def test_an_lsn_is_given_as_postgresql_writes_it() -> None:
    assert parse_lsn("16/B374D848") == Lsn.parse("16/B374D848")
    with pytest.raises(typer.BadParameter, match="16/B374D848"):
        parse_lsn("12")
