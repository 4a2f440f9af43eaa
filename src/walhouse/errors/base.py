"""What all errors of walhouse share."""

from __future__ import annotations

from typing import ClassVar


class WalhouseError(Exception):
    """Base of all errors. ``fields`` are the condition's identifiers (table, lsn, slot ...), for logs and callers."""

    exit_code: ClassVar[int] = 1
    safe: ClassVar[str] = "Nothing was changed."
    todo: ClassVar[str] = ""

    def __init__(self, problem: str, *, safe: str | None = None, todo: str | None = None, **fields: object) -> None:
        self.problem = problem
        self.safe_text = self.safe if safe is None else safe
        self.todo_text = self.todo if todo is None else todo
        self.fields = {name: value for name, value in fields.items() if value is not None}
        super().__init__(" ".join(part for part in (problem, self.safe_text, self.todo_text) if part))

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.problem, self.safe_text, self.todo_text, self.fields)


def _rebuild(kind: type[WalhouseError], problem: str, safe: str, todo: str, fields: dict[str, object]) -> WalhouseError:
    return kind(problem, safe=safe, todo=todo, **fields)


class WorkerLostError(WalhouseError):
    """A Python process of Spark's died in the midst of a task. Fields: fault, where (its innermost frames)."""

    safe = "Nothing of that task was committed, and the slot was not moved."
    todo = "Run it again. If it dies again and there is memory enough, report it."
