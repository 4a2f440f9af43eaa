"""The commands on a real server: what they print, and the exit codes that a scheduler sees."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.fixtures_house import logged_in_as, write_configuration
from tests.fixtures_server import login_role
from walhouse.cli.app import run
from walhouse.names import TableName

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.fixtures_server import Database
    from walhouse.lakehouse.layout import LakeLayout

pytestmark = [pytest.mark.server, pytest.mark.spark]

SHOP = (
    "CREATE TABLE orders (id int PRIMARY KEY, note text, amount numeric(10,2))",
    "INSERT INTO orders VALUES (1, 'first', 1.50), (2, NULL, 2)",
)


@pytest.fixture
def configure(database: Database, lake: LakeLayout, tmp_path: Path) -> Callable[..., str]:
    def write(**overrides: object) -> str:
        return str(write_configuration(tmp_path, database, lake, **overrides))

    return write


def slots(database: Database) -> list[str]:
    rows = database.execute(f"SELECT slot_name FROM pg_replication_slots WHERE database = '{database.name}'")
    return [name for (name,) in rows]


def test_check_names_what_is_missing_and_ends_with_exit_code_3(
    database: Database, configure: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    database.execute(*SHOP)
    conf = configure()
    assert run(["check", "--conf", conf, "--format", "json"]) == 0
    findings = json.loads(capsys.readouterr().out)
    assert {"severity": "ok", "subject": "wal_level", "problem": "logical", "todo": ""} in findings

    conf = configure(publication_autocreate_mode="disabled")
    assert run(["check", "--conf", conf]) == 3
    out, err = capsys.readouterr()
    assert "publication walhouse_test" in out
    assert "1 of " in err
    assert slots(database) == []


@pytest.mark.parametrize("form", ["table", "json"])
def test_a_check_that_found_an_error_says_so_by_its_exit_code_even_if_nobody_reads_what_it_prints(
    form: str, database: Database, configure: Callable[..., str]
) -> None:
    database.execute(*SHOP)
    conf = configure(publication_autocreate_mode="disabled")
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "walhouse.cli", "check", "--conf", conf, "--format", form],
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        env={"PYTHONPATH": ":".join(sys.path), "PATH": os.environ["PATH"]},
        check=False,
    )
    os.close(writer)
    assert done.returncode == 3
    assert "1 of " in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("mode", ["no_data", "initial_only"])
def test_check_tells_of_a_slot_that_is_gone_where_a_lake_goes_on_from_it(
    mode: str, database: Database, configure: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    database.execute(*SHOP)
    conf = configure(snapshot_mode=mode)

    def of_the_slot() -> list[str]:
        capsys.readouterr()
        assert run(["check", "--conf", conf, "--format", "json"]) == 0
        findings = json.loads(capsys.readouterr().out)
        return [each["severity"] for each in findings if each["subject"].startswith("slot ")]

    assert of_the_slot() == ["ok"]
    assert run(["capture", "--conf", conf]) == 0
    for name in slots(database):
        database.execute(f"SELECT pg_drop_replication_slot('{name}')")
    assert of_the_slot() == ["warning" if mode == "no_data" else "ok"]


def test_check_tells_of_a_slot_that_another_reader_moved_past_what_bronze_has(
    database: Database, configure: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    """As the lake's copy does, or another lake on the same slot."""
    database.execute(*SHOP)
    conf = configure(snapshot_mode="no_data")
    assert run(["capture", "--conf", conf]) == 0
    assert run(["check", "--conf", conf]) == 0
    (slot,) = slots(database)
    database.execute("INSERT INTO orders VALUES (3, 'third', 3)")
    database.execute(f"SELECT pg_replication_slot_advance('{slot}', pg_current_wal_lsn())")
    capsys.readouterr()
    assert run(["check", "--conf", conf]) == 0, "with when_needed the next run reads all anew"
    assert "later than bronze" in " ".join(capsys.readouterr().out.split())


def test_a_server_that_is_not_there_and_a_wrong_password_are_exit_code_3_without_a_traceback(
    configure: Callable[..., str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    conf = configure(database_port=1)
    assert run(["status", "--conf", conf]) == 3
    assert "SourceUnreachableError" in capsys.readouterr().err

    conf = configure()
    (tmp_path / "password").write_text("hunter2")
    assert run(["check", "--conf", conf, "--log-format", "json"]) == 3
    err = capsys.readouterr().err
    assert json.loads(err.splitlines()[-1])["error"] == "AuthenticationError"
    assert "hunter2" not in err
    assert "Traceback" not in err


def test_the_whole_path_by_commands(
    spark: SparkSession,
    database: Database,
    lake: LakeLayout,
    configure: Callable[..., str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    database.execute(*SHOP)
    conf = configure()

    def walhouse(*arguments: str, code: int = 0) -> str:
        assert run([*arguments, "--conf", conf]) == code, capsys.readouterr().err
        return capsys.readouterr().out

    def failing(code: int, *arguments: str) -> str:
        assert run([*arguments, "--conf", conf]) == code
        return capsys.readouterr().err

    assert walhouse("run") == ""
    database.execute("UPDATE orders SET note = 'changed' WHERE id = 1", "DELETE FROM orders WHERE id = 2")
    for command in ("capture", "silver", "gold"):
        assert walhouse(command) == ""

    status = json.loads(walhouse("status", "--format", "json"))
    assert [table["table"] for table in status["tables"]] == ["public.orders"]
    assert "public.orders" in walhouse("status")
    database.execute("CREATE TABLE of_nobody (id int)")
    assert "need not hold a change" in walhouse("status"), "a lag where nobody writes puzzles"
    metrics = walhouse("status", "--format", "prometheus")
    orders = f'walhouse_table_count{{count="silver_events",slot="{status["slot"]}",table="public.orders"}}'
    (told,) = [line for line in metrics.splitlines() if line.startswith(orders)]
    (counted,) = [table["counts"] for table in status["tables"] if table["table"] == "public.orders"]
    assert float(told.split()[-1]) == counted["silver_events"] > 0

    rows = walhouse("sql", "--format", "json", f"SELECT id, note, amount FROM {lake.gold_schema}.public_orders")
    assert [json.loads(line) for line in rows.splitlines()] == [{"id": 1, "note": "changed", "amount": 1.5}]

    count = ("sql", "--format", "csv", "SELECT count(*) AS n FROM {public_orders}", "--at")
    assert walhouse(*count, "last").split() == ["n", "1"]
    assert "NothingAppliedError" in failing(5, *count, "0/1")
    assert "public_nobody" in failing(2, "sql", f"SELECT * FROM {lake.gold_schema}.public_nobody")
    assert "Syntax error" in failing(2, "sql", "SELEC 1")
    assert "{{" in failing(2, "sql", "SELECT '{'", "--at", "last")
    assert "with AS" in failing(2, "sql", "--format", "json", "SELECT 1 AS a, 2 AS a")
    for form in ("table", "json", "csv"):
        refused = failing(2, "sql", "--format", form, f"SELECT CAST(note AS INT) FROM {lake.gold_schema}.public_orders")
        assert "CAST_INVALID_INPUT" in refused
        assert "'changed'" not in refused

    events = [json.loads(line) for line in walhouse("events", "--table", "public.orders").splitlines()]
    assert [event["value"] and event["value"]["op"] for event in events] == ["r", "r", "u", "d", None]
    assert {event["destination"] for event in events} == {"test.public.orders"}
    assert all("__debezium.context.connectorName" in event["headers"] for event in events)
    assert walhouse("events", "--to", "0/1") == ""
    configure(extended_headers_enabled=False)
    assert '"headers":{}' in walhouse("events", "--table", "public.orders").splitlines()[0]

    proofs = json.loads(walhouse("verify", "--format", "json"))
    assert [(proof["table"], proof["equal"]) for proof in proofs] == [("public.orders", True)]

    spark.sql(f"DELETE FROM {lake.gold_schema}.public_orders")
    database.execute("INSERT INTO orders VALUES (3, 'third', 3)")
    shown = walhouse("verify", code=6)
    assert "different" in shown
    assert "'changed'" in shown
    assert "no such row" in shown

    files = list((lake.schema_folder(lake.silver_schema) / "public_orders").rglob("part-*.parquet"))
    assert files
    for file in files:
        file.unlink()
    lost = failing(5, "sql", "--format", "csv", f"SELECT key.id FROM {lake.silver_schema}.public_orders")
    assert "UnreadableFileError" in lost
    assert "FAILED_READ_FILE" in lost


@pytest.mark.slow
def test_a_snapshot_is_asked_for_held_shown_and_waited_for(
    spark: SparkSession,
    database: Database,
    lake: LakeLayout,
    configure: Callable[..., str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    database.execute(*SHOP)
    conf = configure(snapshot_mode="no_data", signal_poll_interval_ms=1)

    def walhouse(*arguments: str, code: int = 0) -> str:
        assert run([*arguments, "--conf", conf]) == code, capsys.readouterr().err
        return "".join(capsys.readouterr())

    assert "ops" in walhouse("init-signals")
    walhouse("run")
    walhouse("snapshot", "public.orders", "--id", "all")
    walhouse("signal", "pause-snapshot", "--id", "hold")
    walhouse("capture")
    (held,) = json.loads(walhouse("status", "--format", "json").splitlines()[0])["snapshots"]
    assert (held["request"], held["table"], held["state"], held["chunks"]) == ("all", "public.orders", "paused", 0)
    assert "paused" in walhouse("status")
    walhouse("signal", "resume-snapshot")
    assert "no captured table" in walhouse("snapshot", "public.nobody", "--wait", code=2)
    walhouse("signal", "resume-snapshot", "--data", "{", code=2)
    said = walhouse("snapshot", "public.orders", "--where", "id = 1", "--wait")
    assert "total_rows_scanned=1" in said
    assert "maximum_key" not in said, "keys are values of rows"
    assert spark.table(str(lake.gold(TableName("public", "orders")))).count() == 2


@pytest.mark.parametrize("mode", ["filtered", "disabled"])
def test_drop_by_one_who_may_not_drop_the_publication_drops_nothing_unless_it_is_not_ours(
    mode: str, database: Database, configure: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    database.execute(
        *SHOP,
        f"SELECT pg_create_logical_replication_slot('s_{database.name}', 'pgoutput')",
        "CREATE PUBLICATION walhouse_test FOR TABLE orders",
    )
    with login_role(database, "REPLICATION") as reader:
        conf = configure(publication_autocreate_mode=mode, **logged_in_as(reader))
        assert run(["drop", "--conf", conf, "--yes"]) == (3 if mode == "filtered" else 0)
    assert len(slots(database)) == (1 if mode == "filtered" else 0)
    assert database.execute("SELECT pubname FROM pg_publication") == [("walhouse_test",)]
    assert ("and the publication" in capsys.readouterr().err) is False


def test_drop_asks_first_and_removes_slot_and_publication_but_nothing_else(
    database: Database,
    configure: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    database.execute(
        *SHOP,
        f"SELECT pg_create_logical_replication_slot('s_{database.name}', 'pgoutput')",
        "SELECT pg_create_logical_replication_slot('another', 'pgoutput')",
        "CREATE PUBLICATION walhouse_test FOR TABLE orders",
        "CREATE PUBLICATION another FOR TABLE orders",
    )
    conf = configure()
    for answer in ("", "n\n", "maybe\n"):
        monkeypatch.setattr("sys.stdin", io.StringIO(answer))
        assert run(["drop", "--conf", conf]) == 1
    assert len(slots(database)) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert f"Remove the slot s_{database.name} and the publication walhouse_test" in err

    assert run(["drop", "--conf", conf, "--yes"]) == 0
    assert slots(database) == ["another"]
    assert database.execute("SELECT pubname FROM pg_publication") == [("another",)]
