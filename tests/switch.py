"""An address that leads to one server, and from some moment on to another one, as a virtual IP or a proxy does."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass
class Switch:
    """Where new connections are led to; those that are there stay where they are."""

    to_port: int
    listener: socket.socket = field(default_factory=lambda: socket.create_server(("127.0.0.1", 0)))
    opened: list[socket.socket] = field(default_factory=list)
    passing_on: list[threading.Thread] = field(default_factory=list)

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.listener.getsockname()[1])

    def serve(self) -> None:
        """Until the listener is closed."""
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self.to_port))
            self.opened += (client, server)
            for one, other in ((client, server), (server, client)):
                self.passing_on.append(threading.Thread(target=_pass_on, args=(one, other), daemon=True))
                self.passing_on[-1].start()

    def close(self) -> None:
        """End what it passes on."""
        for each in self.opened:
            with suppress(OSError):  # its other end has left
                each.shutdown(socket.SHUT_RDWR)
        for thread in self.passing_on:
            thread.join()
        for each in self.opened:
            each.close()


def _pass_on(one: socket.socket, other: socket.socket) -> None:
    with suppress(OSError):  # one end broke off, which the other is told
        while some := one.recv(65536):
            other.sendall(some)
    with suppress(OSError):
        other.shutdown(socket.SHUT_WR)


@contextmanager
def switch_to(port: int) -> Iterator[Switch]:
    """One that leads there for now."""
    switch = Switch(port)
    serving = threading.Thread(target=switch.serve, daemon=True)
    serving.start()
    try:
        yield switch
    finally:
        switch.listener.shutdown(socket.SHUT_RDWR)
        switch.listener.close()
        serving.join()
        switch.close()
