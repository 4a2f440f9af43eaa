"""What processes cost: CPU seconds and memory of a process tree, from /proc.

Invariant: a process that ended keeps what it had cost when it was last seen, at most one sample before its end.
"""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from types import TracebackType

_PROC: Final = Path("/proc")
_SECONDS: Final = 0.2
"""Between samples. Each looks at all of /proc, which takes milliseconds of what is measured."""
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_MIB: Final = 2**20


@dataclass(frozen=True)
class Cost:
    """What a phase cost, by kind of process (java, driver, worker, postgres); memory in MiB.

    ``peak_rss`` is the largest that any one process of the kind had; ``peak_tree_rss`` the largest sum of
    all at one moment.
    """

    cpu_seconds: dict[str, float]
    peak_rss: dict[str, float]
    peak_tree_rss: float

    @property
    def cpu(self) -> float:
        """CPU seconds of all of them."""
        return sum(self.cpu_seconds.values())


@dataclass
class _Seen:
    kind: str
    cpu: float = 0.0
    cpu_before: float = 0.0
    peak: float = 0.0


@dataclass
class ProcessMeter:
    """Samples the tree below a process while its ``with`` block runs; ``cost`` is there after it."""

    root: int
    cost: Cost | None = None
    _seen: dict[int, _Seen] = field(default_factory=dict)
    _peak_tree: float = 0.0
    _end: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Self:
        self._sample(first=True)
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end.set()
        self._thread.join()
        self._sample()
        cpu: defaultdict[str, float] = defaultdict(float)
        peak: defaultdict[str, float] = defaultdict(float)
        for process in self._seen.values():
            cpu[process.kind] += process.cpu - process.cpu_before
            peak[process.kind] = max(peak[process.kind], process.peak)
        self.cost = Cost(dict(cpu), dict(peak), self._peak_tree)

    @property
    def measured(self) -> Cost:
        """The cost of the block that has ended."""
        assert self.cost is not None
        return self.cost

    def _watch(self) -> None:
        while not self._end.wait(_SECONDS):
            self._sample()

    def _sample(self, *, first: bool = False) -> None:
        total = 0.0
        for pid in _tree(self.root):
            try:
                cpu, resident = _usage(pid)
                if pid not in self._seen:
                    self._seen[pid] = _Seen(_kind(pid), cpu_before=cpu if first else 0.0)
                    _reset_peak(pid)
                peak = _peak(pid)
            except (OSError, ValueError, IndexError):
                continue  # it ended while it was looked at
            seen = self._seen[pid]
            seen.cpu, seen.peak = cpu, max(seen.peak, peak)
            total += resident
        self._peak_tree = max(self._peak_tree, total)


def can_measure() -> bool:
    """True where there is a /proc to read."""
    return (_PROC / "self" / "stat").exists()


def _tree(root: int) -> list[int]:
    children: defaultdict[int, list[int]] = defaultdict(list)
    for entry in _PROC.iterdir():
        if entry.name.isdigit():
            try:
                children[int(_stat(int(entry.name))[1])].append(int(entry.name))
            except (OSError, ValueError, IndexError):
                continue
    tree, at = [root], 0
    while at < len(tree):
        tree += children[tree[at]]
        at += 1
    return tree


def _stat(pid: int) -> list[str]:
    """Fields from the state on; the name before it may hold blanks and brackets."""
    return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()


def _usage(pid: int) -> tuple[float, float]:
    """CPU seconds and resident MiB."""
    stat = _stat(pid)
    return (int(stat[11]) + int(stat[12])) / _TICKS, int(stat[21]) * _PAGE / _MIB


def _peak(pid: int) -> float:
    status = (_PROC / str(pid) / "status").read_text()
    line = next((line for line in status.splitlines() if line.startswith("VmHWM:")), "VmHWM: 0 kB")
    return int(line.split()[1]) / 1024


def _reset_peak(pid: int) -> None:
    """Let the kernel's peak of the process begin anew, so that it is this phase's."""
    try:
        (_PROC / str(pid) / "clear_refs").write_text("5")
    except OSError:
        return  # another user's process; its peak then covers its life


def _kind(pid: int) -> str:
    command = (_PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    if "postgres" in command.split(" ", 1)[0]:
        return "postgres"
    if "pyspark.daemon" in command or "pyspark/daemon" in command or "pyspark.worker" in command:
        return "worker"
    return "java" if "java" in command.split(" ", 1)[0] else "driver"
