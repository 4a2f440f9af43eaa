"""What a configuration says of the connection, and that it keeps the secrets in it."""

from __future__ import annotations

import pickle
import traceback
from typing import TYPE_CHECKING

import pytest

from tests.config.files import MINIMAL, PASSWORD, read, with_connector
from walhouse.errors import ConfigurationError, SecretError

if TYPE_CHECKING:
    from pathlib import Path


def test_a_written_out_password_works_is_warned_about_and_is_never_shown(tmp_path: Path) -> None:
    conf = read(with_connector(f"database.password: '{PASSWORD}'"), tmp_path)
    settings = conf.connection()
    assert settings.parameters()["password"] == PASSWORD
    assert conf.warnings == (
        "connector.database.password is written out in the file: use ${env:NAME}, ${file:PATH} or ${secret:scope/key}.",
    )
    shown = [repr(conf), str(conf), repr(settings), conf.connector.model_dump_json(), str(conf.connector.model_dump())]
    assert not [text for text in shown if "hunter2" in text]


def test_settings_can_be_sent_to_a_task_with_their_password(tmp_path: Path) -> None:
    settings = read(with_connector(f"database.password: '{PASSWORD}'"), tmp_path).connection()
    assert pickle.loads(pickle.dumps(settings)).parameters()["password"] == PASSWORD


@pytest.mark.parametrize(
    "text",
    [
        with_connector(f"database.password: '{PASSWORD}'\ndatabase.port: x"),
        with_connector(f"database.password: '{PASSWORD}'\n  bad indentation: *hunter2"),
        with_connector("database.password: *hunter2"),
        with_connector("database.password: [hunter2]"),
        with_connector("database.password: {a: hunter2}"),
        with_connector("database.password: '${hunter2}'"),
        with_connector('database.password: "\\hunter2"'),
        with_connector("database.password: @hunter2"),
        with_connector("database.password: !hunter2 [x]"),
    ],
)
def test_no_error_about_a_file_shows_its_password(text: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read(text, tmp_path)
    assert "hunter2" not in "".join(traceback.format_exception(caught.value))


def test_a_reference_is_resolved_when_the_connection_is_asked_for(tmp_path: Path) -> None:
    conf = read(with_connector("database.password: ${file:password}\ndatabase.sslrootcert: root.crt"), tmp_path)
    assert "${file:password}" in conf.connector.model_dump_json()
    with pytest.raises(SecretError):
        conf.connection()
    (tmp_path / "password").write_text("of the file\n")
    assert conf.connection().parameters() == {
        "host": "localhost",
        "port": 5432,
        "user": "walhouse",
        "password": "of the file",
        "dbname": "shop",
        "sslmode": "prefer",
        "sslpassword": "-",
        "sslrootcert": str(tmp_path / "root.crt"),
        "application_name": "walhouse",
    }


@pytest.mark.parametrize(
    ("written", "host"),
    [
        ("'[fd00::1]'", "fd00::1"),
        ("'::1'", "::1"),
        ("/run/postgresql", "/run/postgresql"),
        ("one,two", "one,two"),
        ("'[::1],[fd00::1],two'", "::1,fd00::1,two"),
    ],
)
def test_an_address_may_stand_in_brackets_as_a_connector_has_it(written: str, host: str, tmp_path: Path) -> None:
    conf = read(MINIMAL.replace("localhost", written), tmp_path)
    assert conf.connection().parameters()["host"] == host


def test_initial_statements_are_split_and_never_shown(tmp_path: Path) -> None:
    line = "database.initial.statements: \"SET a = 'hunter2;;x' ; SET b = 1;\""
    conf = read(with_connector(line), tmp_path)
    assert conf.connection().initial_statements == ("SET a = 'hunter2;x'", "SET b = 1")
    assert "hunter2" not in repr(conf) + repr(conf.connection()) + conf.connector.model_dump_json()
