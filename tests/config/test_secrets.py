from __future__ import annotations

import base64
import json
import pickle
import threading
import traceback
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import parse_qs, urlparse

import pytest

from walhouse.config.secrets import Secret, SecretReference, parse_secret, resolve_secret
from walhouse.errors import SecretError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

VALUE = "correct horse battery staple"


def reference(text: str) -> SecretReference:
    parsed = parse_secret(text)
    assert isinstance(parsed, SecretReference)
    return parsed


def test_a_secret_shows_itself_to_reveal_only() -> None:
    secret = Secret(VALUE)
    assert secret.reveal() == VALUE
    shown = f"{secret} {secret!r} {secret:>5} {[secret]} {(secret,)!r}" + "%s" % secret  # noqa: UP031  each way is tried
    assert VALUE not in shown
    assert "***" in shown


def test_a_secret_survives_the_way_to_a_task() -> None:
    assert pickle.loads(pickle.dumps(Secret(VALUE))).reveal() == VALUE


def test_a_literal_is_a_secret_and_a_reference_is_shown_as_it_was_written() -> None:
    literal = parse_secret(VALUE)
    assert isinstance(literal, Secret)
    assert str(reference("${secret:scope/a/b}")) == "${secret:scope/a/b}"


@pytest.mark.parametrize("text", ["${vault:x}", "${env:}", "${env:X", "${secret:scope}", "${secret:/key}", "${ENV:X}y"])
def test_what_looks_like_a_reference_but_is_none_is_refused_without_its_text(text: str) -> None:
    with pytest.raises(ValueError, match="expected") as caught:
        parse_secret(text)
    assert text not in str(caught.value)


def test_an_environment_variable_is_read_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = reference("${env:WALHOUSE_TEST_SECRET}")
    with pytest.raises(SecretError, match="WALHOUSE_TEST_SECRET"):
        found.resolve(tmp_path)
    monkeypatch.setenv("WALHOUSE_TEST_SECRET", VALUE)
    assert found.resolve(tmp_path).reveal() == VALUE


@pytest.mark.parametrize("ending", ["", "\n", "\r\n"])
def test_a_files_or_variables_last_line_break_is_not_part_of_the_secret(
    tmp_path: Path, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WALHOUSE_TEST_SECRET", f"{VALUE}{ending}")
    assert reference("${env:WALHOUSE_TEST_SECRET}").resolve(tmp_path).reveal() == VALUE
    (tmp_path / "password").write_bytes(f" {VALUE} {ending}".encode())
    secret = resolve_secret(reference("${file:password}"), tmp_path)
    assert secret is not None
    assert secret.reveal() == f" {VALUE} "


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(SecretError, match="No such file") as caught:
        reference("${file:missing}").resolve(tmp_path)
    assert caught.value.exit_code == 2
    assert caught.value.fields == {"reference": "${file:missing}"}
    (tmp_path / "binary").write_bytes(b"\xff" + VALUE.encode())
    with pytest.raises(SecretError, match="not UTF-8") as caught:
        reference("${file:binary}").resolve(tmp_path)
    assert VALUE not in "".join(traceback.format_exception(caught.value))
    (tmp_path / "empty").write_text("\n")
    with pytest.raises(SecretError, match="empty"):
        reference("${file:empty}").resolve(tmp_path)


class Workspace(BaseHTTPRequestHandler):
    """As much of a Databricks workspace as a secret needs."""

    secrets: ClassVar[dict[tuple[str, str], str]] = {
        ("walhouse", "postgres"): VALUE,
        ("walhouse", "of_echo"): f"{VALUE}\n",
        ("walhouse", "empty"): "\n",
    }
    mangled: ClassVar[bool] = False

    def do_GET(self) -> None:
        url = urlparse(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        if url.path != "/api/2.0/secrets/get":
            return self.answer(404, {"error_code": "NOT_FOUND"})
        if self.mangled:
            return self.answer(400, {"error_code": "BAD_REQUEST", "message": f"cannot serve {VALUE}"})
        value = self.secrets.get((query["scope"], query["key"]))
        if value is None:
            return self.answer(404, {"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "no such secret"})
        return self.answer(200, {"key": query["key"], "value": base64.b64encode(value.encode()).decode()})

    def answer(self, status: int, body: dict[str, str]) -> None:
        payload = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the name that http.server gives
        """Say nothing."""


@pytest.fixture
def workspace(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Workspace)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    monkeypatch.setenv("DATABRICKS_HOST", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("DATABRICKS_TOKEN", "a-token-for-a-test")
    monkeypatch.setenv("DATABRICKS_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    yield
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.usefixtures("workspace")
def test_a_secret_scope_is_asked_through_the_databricks_sdk(tmp_path: Path) -> None:
    assert reference("${secret:walhouse/postgres}").resolve(tmp_path).reveal() == VALUE
    assert reference("${secret:walhouse/of_echo}").resolve(tmp_path).reveal() == VALUE
    with pytest.raises(SecretError, match="key empty of scope walhouse is empty"):
        reference("${secret:walhouse/empty}").resolve(tmp_path)


@pytest.mark.usefixtures("workspace")
def test_a_scope_that_does_not_answer_is_an_error_that_names_scope_and_key_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SecretError, match="key missing of scope walhouse"):
        reference("${secret:walhouse/missing}").resolve(tmp_path)
    monkeypatch.setattr(Workspace, "mangled", True)
    with pytest.raises(SecretError, match="key postgres of scope walhouse") as caught:
        reference("${secret:walhouse/postgres}").resolve(tmp_path)
    assert VALUE not in "".join(traceback.format_exception(caught.value))
    assert caught.value.__cause__ is None
