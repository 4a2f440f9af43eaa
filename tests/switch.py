"""An address that leads to one server, and from some moment on to another one, as a virtual IP or a proxy does."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


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
            self.opened.append(client)
            self.lead_on(client)

    def lead_on(self, client: socket.socket) -> None:
        """Connect a client to the server."""
        server = socket.create_connection(("127.0.0.1", self.to_port))
        self.opened.append(server)
        for one, other in ((client, server), (server, client)):
            self.beside(partial(_pass_on, one, other))

    def beside(self, work: Callable[[], None]) -> None:
        """Do it in a thread of its own, which ``close`` waits for."""
        self.passing_on.append(threading.Thread(target=work, daemon=True))
        self.passing_on[-1].start()

    def lose_all(self) -> None:
        """End all connections as a machine does that goes away."""
        for each in self.opened:
            with suppress(OSError):  # its other end has left
                each.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End what it passes on."""
        self.lose_all()
        for thread in self.passing_on:
            thread.join()
        for each in self.opened:
            each.close()


S = TypeVar("S", bound=Switch)


def _pass_on(one: socket.socket, other: socket.socket) -> None:
    with suppress(OSError):  # one end broke off, which the other is told
        while some := one.recv(65536):
            other.sendall(some)
    with suppress(OSError):
        other.shutdown(socket.SHUT_WR)


@contextmanager
def switch_to(port: int) -> Iterator[Switch]:
    """One that leads there for now."""
    with serving(Switch(port)) as switch:
        yield switch


@contextmanager
def serving(switch: S) -> Iterator[S]:
    """It listens meanwhile."""
    accepting = threading.Thread(target=switch.serve, daemon=True)
    accepting.start()
    try:
        yield switch
    finally:
        switch.listener.shutdown(socket.SHUT_RDWR)
        switch.listener.close()
        accepting.join()
        switch.close()
