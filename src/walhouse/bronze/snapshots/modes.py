"""``snapshot.mode``: when whole tables are read, whether the stream follows, and what happens when changes are lost.

Invariant: a mode decides, and nothing else does. None leaves out changes without a word: where they are lost, tables
are read whole again and the loss is told, or capture stops.
Source: Debezium 3.6, PostgreSQL connector, ``snapshot.mode`` and ``snapshot.mode.configuration.based.*``.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Final, Protocol, runtime_checkable

from walhouse.errors import ConfigurationError

ENTRY_POINTS: Final = "walhouse.snapshot_modes"
"""The group of entry points that a name of a mode of one's own is looked up in."""


@runtime_checkable
class SnapshotPolicy(Protocol):
    """What ``snapshot.mode: custom`` is to name: a class, or a function, without arguments that gives one of these."""

    def reads_data(self, *, begun: bool, unfinished: bool) -> bool:
        """Whether to read all tables when capture starts. ``begun``: the lake has been begun; ``unfinished``: an
        initial snapshot is not read to its end (True: it goes on; False: capture refuses to start)."""
        ...

    def streams(self) -> bool:
        """Whether the stream is captured after that. Asked once."""
        ...

    def reads_after_loss(self) -> bool:
        """Whether to read all tables anew if changes were lost with the slot; else capture stops with an error."""
        ...


@dataclass(frozen=True, slots=True)
class FixedPolicy:
    """A mode that is described by three answers."""

    first: bool
    """Reads tables when a lake begins."""
    always: bool = False
    """Reads them at every start."""
    follows: bool = True
    after_loss: bool = False

    def reads_data(self, *, begun: bool, unfinished: bool) -> bool:
        """See SnapshotPolicy."""
        return self.always or (self.first and (unfinished or not begun))

    def streams(self) -> bool:
        """See SnapshotPolicy."""
        return self.follows

    def reads_after_loss(self) -> bool:
        """See SnapshotPolicy."""
        return self.after_loss


MODES: Final = {
    "always": FixedPolicy(first=True, always=True),
    "initial": FixedPolicy(first=True),
    "initial_only": FixedPolicy(first=True, follows=False),
    "no_data": FixedPolicy(first=False),
    "when_needed": FixedPolicy(first=True, after_loss=True),
}


def custom_mode(name: str) -> SnapshotPolicy:
    """The mode behind an entry point of the group ``walhouse.snapshot_modes``, or behind ``module:attribute``.

    Raises ConfigurationError if there is none, or if it lacks what a mode must answer.
    """
    found = list(entry_points(group=ENTRY_POINTS, name=name))
    module, _, attribute = name.partition(":")
    try:
        maker = found[0].load() if found else getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise _no_mode(name, f"neither an entry point of {ENTRY_POINTS} nor module:attribute ({error})") from error
    mode = maker() if callable(maker) else maker
    if not isinstance(mode, SnapshotPolicy):
        raise _no_mode(name, "it lacks reads_data, streams or reads_after_loss")
    return mode


def _no_mode(name: str, why: str) -> ConfigurationError:
    return ConfigurationError(
        f"snapshot.mode.custom.name {name} is no snapshot mode: {why}.",
        todo="docs/OPERATIONS.md shows one.",
        path="connector.snapshot.mode.custom.name",
    )
