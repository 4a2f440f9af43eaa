"""TLS before a server that has none: certificates of a test's own, an address that speaks TLS as PostgreSQL does."""

from __future__ import annotations

import datetime as dt
import select
import socket
import ssl
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.switch import Switch, serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SSL_REQUEST: Final = (8).to_bytes(4, "big") + (80877103).to_bytes(4, "big")
"""PostgreSQL documentation, "Message Formats": what a client sends first that would like TLS."""


@dataclass(frozen=True)
class Authority:
    """Signs certificates; its own is in ``file``."""

    file: Path
    key: ec.EllipticCurvePrivateKey
    name: x509.Name

    @classmethod
    def make(cls, file: Path) -> Authority:
        key, name = ec.generate_private_key(ec.SECP256R1()), _name(file.stem)
        authority = cls(file, key, name)
        file.write_bytes(_pem(authority._signed(name, key, x509.BasicConstraints(ca=True, path_length=None))))
        return authority

    def certificate(self, file: Path, host: str, *, days: int = 1, password: bytes | None = None) -> Path:
        """A certificate for a host, and beside it, as .key, its key in PEM, as .pk8 the same in DER."""
        key = ec.generate_private_key(ec.SECP256R1())
        file.write_bytes(_pem(self._signed(_name(host), key, x509.SubjectAlternativeName([x509.DNSName(host)]), days)))
        hidden = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
        for suffix, encoding in ((".key", serialization.Encoding.PEM), (".pk8", serialization.Encoding.DER)):
            file.with_suffix(suffix).touch(mode=0o600)
            form = serialization.PrivateFormat.PKCS8
            file.with_suffix(suffix).write_bytes(key.private_bytes(encoding, form, hidden))
        return file

    def _signed(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, extension: x509.ExtensionType, days: int = 1
    ) -> x509.Certificate:
        now = dt.datetime.now(dt.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(days=10))
            .not_valid_after(now + dt.timedelta(days=days))
            .add_extension(extension, critical=isinstance(extension, x509.BasicConstraints))
            .sign(self.key, hashes.SHA256())
        )


def _name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


class EncryptedAddress(Switch):
    """What comes by TLS goes on in the clear to the server, on this machine; without TLS nothing does."""

    def __init__(self, to_port: int, context: ssl.SSLContext) -> None:
        super().__init__(to_port)
        self._context = context

    def lead_on(self, client: socket.socket) -> None:
        """In a thread of its own: the handshake waits for the client."""
        self.beside(partial(self._decrypted, client))

    def _decrypted(self, client: socket.socket) -> None:
        with suppress(OSError), client:  # one end broke off, or refuses the other's certificate
            if client.recv(len(SSL_REQUEST)) != SSL_REQUEST:
                return
            client.sendall(b"S")
            with (
                self._context.wrap_socket(client.dup(), server_side=True) as encrypted,
                socket.create_connection(("127.0.0.1", self.to_port)) as server,
            ):
                _pass_on(encrypted, server)


def _pass_on(encrypted: ssl.SSLSocket, server: socket.socket) -> None:
    while True:
        ready = [encrypted] if encrypted.pending() else select.select([encrypted, server], [], [])[0]
        for one, other in ((encrypted, server), (server, encrypted)):
            if one in ready:
                some = one.recv(65536)
                if not some:
                    return
                other.sendall(some)


@contextmanager
def encrypted_address(port: int, certificate: Path) -> Iterator[EncryptedAddress]:
    """One that leads to the server at this port and shows this certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, certificate.with_suffix(".key"))
    with serving(EncryptedAddress(port, context)) as address:
        yield address
