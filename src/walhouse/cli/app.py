"""The entry point ``walhouse``.

Invariant: however a command ends, its exit code is one of ``walhouse.cli.failure.EXIT_CODES``.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import TYPE_CHECKING, Annotated

import typer

from walhouse import __version__
from walhouse.cli import answers, options, requests, setup, work
from walhouse.cli.failure import EXIT_CODES, INTERRUPTED, report
from walhouse.cli.logs import log

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

_EPILOG = "Exit codes:\n\n" + "\n\n".join(f"{code}: {meaning}" for code, meaning in EXIT_CODES.items())


def _paragraphs(text: str) -> str:
    """A docstring as help: a line ends where the terminal's does, not where the source's did."""
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))


app = typer.Typer(
    name="walhouse",
    help="PostgreSQL's write-ahead log into a Delta lakehouse, with Debezium's semantics.\n\n"
    "Begin with init, check, run and verify.",
    epilog=_EPILOG,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)

for _panel, _commands in {
    "Set up": (setup.init, setup.check, setup.drop),
    "Move": (work.capture, work.silver, work.gold, work.run, work.rebuild),
    "Request": (requests.snapshot, requests.signal, requests.init_signals),
    "Ask": (answers.status, answers.verify, answers.events, answers.sql),
}.items():
    for _command in _commands:
        app.command(rich_help_panel=_panel, help=_paragraphs(_command.__doc__ or ""))(_command)


def _show_version(wanted: bool) -> None:  # noqa: FBT001  (typer's callback)
    if wanted:
        typer.echo(f"walhouse {__version__}")
        raise typer.Exit


@app.callback()
def _before_every_command(
    context: typer.Context,
    *,
    conf: options.Conf = None,
    log_format: options.LogFormatOption = None,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show whole errors; they may quote data. Also: WALHOUSE_DEBUG=1.")
    ] = False,
    version: Annotated[  # noqa: ARG001  (its callback does the work)
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    invocation = options.invocation(context)
    invocation.debug = invocation.debug or debug
    invocation.begin(conf, log_format)


def run(arguments: Sequence[str]) -> int:
    """Run one command line; returns the exit code."""
    invocation = options.Invocation(debug=bool(os.environ.get("WALHOUSE_DEBUG")))
    try:
        app(list(arguments), prog_name="walhouse", obj=invocation)
    except SystemExit as end:
        # who reads has enough, as head has
        is_answered = end.code in {None, 0} or isinstance(end.__context__, BrokenPipeError)
        if is_answered:
            return 0 if invocation.verdict is None else _tell(invocation.verdict, invocation)
        code = end.code if isinstance(end.code, int) else 1
        if code == INTERRUPTED:
            log("Stopped. What is in the lake is whole; the next command goes on from there.")
        return code
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001  (the last place that can say it in words)
        return _tell(error, invocation)
    return 0


def _tell(error: Exception, invocation: options.Invocation) -> int:
    return report(error, invocation.log_format, debug=invocation.debug)


def _as_interrupt(number: int, frame: FrameType | None) -> None:
    """What Ctrl-C does, which by now may be Spark's part, too: it cancels its jobs."""
    interrupt = signal.getsignal(signal.SIGINT)
    (interrupt if callable(interrupt) else signal.default_int_handler)(number, frame)


def main() -> None:
    """Run the process's command line. Returns if all is well: Databricks takes any SystemExit for a failure."""
    if threading.current_thread() is threading.main_thread():
        # as the first process of a container this one would not even be ended by it
        signal.signal(signal.SIGTERM, _as_interrupt)
    if code := run(sys.argv[1:]):
        sys.exit(code)
