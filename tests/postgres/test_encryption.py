"""TLS on the way to the server: what keeps a connection from being made is told as that, and nothing else is."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.fixtures_server import database_on, server_of_its_own
from tests.postgres.tls import Authority, EncryptedAddress, encrypted_address
from walhouse.config.secrets import Secret
from walhouse.errors import AuthenticationError, ConfigurationError, SourceUnreachableError
from walhouse.postgres.connection import connect, source_errors

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.fixtures_server import Database
    from walhouse.config.connection import ConnectionSettings

pytestmark = pytest.mark.server


@dataclass(frozen=True)
class World:
    """A server that is reached by TLS, as ``localhost``, and who signed its certificate."""

    address: EncryptedAddress
    settings: ConnectionSettings
    authority: Authority


@pytest.fixture
def encrypted(database: Database, tmp_path: Path) -> Iterator[World]:
    authority = Authority.make(tmp_path / "root.crt")
    with encrypted_address(
        database.settings.port, authority.certificate(tmp_path / "server.crt", "localhost")
    ) as address:
        settings = replace(
            database.settings,
            host="localhost",
            port=address.port,
            sslmode="verify-full",
            sslrootcert=str(authority.file),
        )
        yield World(address, settings, authority)


def test_a_server_that_is_the_right_one_is_read(encrypted: World) -> None:
    for replication in (False, True):
        with closing(connect(encrypted.settings, replication=replication)) as connection:
            assert connection.pgconn.ssl_in_use
            assert connection.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.parametrize("wrong", ["host", "authority", "expired"])
def test_a_server_that_may_be_another_one_is_refused(encrypted: World, tmp_path: Path, wrong: str) -> None:
    settings, port = encrypted.settings, encrypted.address.to_port
    if wrong == "host":
        settings = replace(settings, host="127.0.0.1")
    if wrong == "authority":
        settings = replace(settings, sslrootcert=str(Authority.make(tmp_path / "other.crt").file))
    expired = encrypted.authority.certificate(tmp_path / "expired.crt", "localhost", days=-1)
    with encrypted_address(port, expired) as address:
        if wrong == "expired":
            settings = replace(settings, port=address.port)
        with pytest.raises(SourceUnreachableError, match="No encrypted connection") as caught:
            connect(settings)
    assert "database.sslrootcert" in caught.value.todo_text


def test_a_server_that_wants_encryption_is_not_told_of_by_user_and_password_alone() -> None:
    with server_of_its_own() as server:
        database = database_on(server)
        with database.connect() as connection:
            (server.data / "pg_hba.conf").write_text("hostssl all all all scram-sha-256\n")
            connection.execute("SELECT pg_reload_conf()")
        with pytest.raises(AuthenticationError, match="no encryption") as caught:
            connect(replace(database.settings, sslmode="disable"))
    assert "database.sslmode" in caught.value.todo_text


def test_an_encrypted_connection_that_is_lost_is_no_fault_of_its_encryption(encrypted: World) -> None:
    with closing(connect(encrypted.settings)) as connection:
        encrypted.address.lose_all()
        with (
            pytest.raises(SourceUnreachableError, match="does not answer") as caught,
            source_errors(encrypted.settings),
        ):
            connection.execute("SELECT 1")
    assert "ssl" not in caught.value.todo_text


@pytest.mark.parametrize("name", ["sslrootcert", "sslcert", "sslkey"])
def test_a_file_that_is_not_there_is_not_done_without(encrypted: World, name: str) -> None:
    """libpq would: by ``require`` it takes any server without the one, and without the others shows no certificate."""
    settings: Any = encrypted.settings
    settings = replace(settings, sslmode="require", **{name: "/nowhere/client.crt"})
    with pytest.raises(ConfigurationError, match=f"/nowhere/client.crt of database.{name} is not there"):
        connect(settings)


@pytest.mark.parametrize("suffix", [".key", ".pk8"])
def test_a_key_is_taken_in_pem_and_in_the_form_that_java_wants(encrypted: World, tmp_path: Path, suffix: str) -> None:
    own = encrypted.authority.certificate(tmp_path / "client.crt", "client")
    connect(replace(encrypted.settings, sslcert=str(own), sslkey=str(own.with_suffix(suffix)))).close()


def test_the_password_of_a_key_is_never_asked_for_at_the_terminal(encrypted: World, tmp_path: Path) -> None:
    own = encrypted.authority.certificate(tmp_path / "client.crt", "client", password=b"of the key")
    settings = replace(encrypted.settings, sslcert=str(own), sslkey=str(own.with_suffix(".key")))
    connect(replace(settings, sslpassword=Secret("of the key"))).close()
    # What OpenSSL says where it did not ask, and tried another password in its place; where it asked, and nobody
    # answered, "processing error". By chance (1 in 256) another password's last block looks whole: "unsupported".
    with pytest.raises(SourceUnreachableError, match=r"client\.key\S* (bad decrypt|unsupported)") as caught:
        connect(settings)
    assert "sslpassword" in caught.value.todo_text


def test_the_form_of_java_with_a_password_is_refused(encrypted: World, tmp_path: Path) -> None:
    """docs/CONFIGURATION.md says what to do with it."""
    own = encrypted.authority.certificate(tmp_path / "client.crt", "client", password=b"of the key")
    settings = replace(encrypted.settings, sslcert=str(own), sslkey=str(own.with_suffix(".pk8")))
    with pytest.raises(SourceUnreachableError, match="could not load private key file"):
        connect(replace(settings, sslpassword=Secret("of the key")))
