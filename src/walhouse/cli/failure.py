"""Errors as a person reads them, and the exit codes.

Invariant: our own errors are shown whole (they hold neither values nor secrets); of any other exception the message is
withheld, since it may quote a row, unless ``--debug`` asks for it.
"""

from __future__ import annotations

import json
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Final

from walhouse.cli.logs import LogFormat, head
from walhouse.errors import WalhouseError
from walhouse.lakehouse.conditions import spark_condition

if TYPE_CHECKING:
    from rich.console import Console

INTERRUPTED: Final = 130

PACKAGE: Final = Path(__file__).parent.parent

EXIT_CODES: Final = {
    0: "done; for verify: everything is equal",
    1: "an unexpected error",
    2: "the configuration or the command line is wrong; nothing was touched",
    3: "the source: PostgreSQL, its slot or its publication",
    4: "the server's frames cannot be decoded",
    5: "the lake",
    6: "not proven: gold differs from the source",
    INTERRUPTED: "interrupted",
}


def stderr_console() -> Console:
    """Standard error, without guesses about what is to be highlighted."""
    from rich.console import Console  # noqa: PLC0415  (a command that fails or shows progress pays for it)

    return Console(stderr=True, highlight=False, soft_wrap=True)


def report(error: BaseException, form: LogFormat, *, debug: bool) -> int:
    """Show an error on standard error; returns the exit code."""
    if debug:
        traceback.print_exception(error)
    known = error if isinstance(error, WalhouseError) else None
    if known is None:
        facts = {"problem": _unexpected(error), "safe": "", "todo": _advice(error)}
    else:
        facts = {"problem": known.problem.rstrip("\n"), "safe": known.safe_text, "todo": known.todo_text}
    fields = {} if known is None else known.fields
    code = 1 if known is None else known.exit_code
    if form is LogFormat.JSON:
        name = type(error).__name__
        line = {**head("error", f"{name}: {facts['problem']}"), "error": name, **facts}
        line |= {"fields": fields, "exit_code": code}
        print(json.dumps(line, default=str, ensure_ascii=False), file=sys.stderr)  # noqa: T201  (the log)
    else:
        _show(type(error).__name__, facts, fields)
    return code


def _show(name: str, facts: dict[str, str], fields: dict[str, object]) -> None:
    from rich.text import Text  # noqa: PLC0415

    console = stderr_console()
    console.print(Text("error ", style="bold red") + Text(name, style="red"))
    for label, text in (("what", facts["problem"]), ("safe", facts["safe"]), ("to do", facts["todo"])):
        if text:
            console.print(Text(f"{label:>6}  ", style="bold") + Text(text.replace("\n", "\n        ")))
    shown = ", ".join(f"{name}={value}" for name, value in fields.items())
    if shown:
        console.print(Text(f"        {shown}", style="dim"))


def _unexpected(error: BaseException) -> str:
    shown = spark_condition(error)
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if Path(frame.filename).is_relative_to(PACKAGE)]
    frame = next(reversed(ours or frames), None)
    place = f" in {Path(frame.filename).name}, line {frame.lineno}" if frame else ""
    name = f"{type(error).__name__}{f' {shown}' if shown else ''}"
    return f"{name}{place}. Its message is withheld, because it may quote data."


def _advice(error: BaseException) -> str:
    if isinstance(error, ModuleNotFoundError) and error.name in {"pyspark", "delta"}:
        return "Outside of Databricks Spark comes with the extra local: pip install 'walhouse[local]'."
    if "JAVA_GATEWAY_EXITED" in str(error):
        return (
            "Spark needs a Java runtime, 17 or newer: install one, or set JAVA_HOME. If there is one, the machine may"
            " not have the memory that lake.local_memory asks for."
        )
    if isinstance(error, (ConnectionError, EOFError)):
        return (
            "Spark's Java process may have ended, most likely for want of memory: run it again with a smaller range, or"
            " give it more (lake.local_memory). --debug shows the whole error."
        )
    return "Run it again: every command goes on where the last one stopped. --debug shows the whole error."
