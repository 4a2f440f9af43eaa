"""Options that several commands share, and what a command starts from.

Invariant: one meaning for each option, whichever command takes it; --conf and --log-format may stand before the
command or after it.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from walhouse.cli.logs import LogFormat, log, set_up
from walhouse.cli.progress import Progress, progress
from walhouse.lsn import Lsn
from walhouse.names import TableName

if TYPE_CHECKING:
    from collections.abc import Iterator

    from walhouse.api import Walhouse
    from walhouse.config.configuration import Configuration
    from walhouse.errors import WalhouseError

LAST: Final = Lsn((1 << 63) - 1)
"""``last`` on the command line: no position lies behind it."""


@dataclass
class Invocation:
    """What the command line says beside the command: found in ``typer.Context.obj``."""

    conf: Path | None = None
    log_format: LogFormat = LogFormat.TEXT
    debug: bool = False
    verdict: WalhouseError | None = None
    """What the command ends with once it has printed its answer, whether or not that is read to its end."""

    def begin(self, conf: Path | None, log_format: LogFormat | None) -> None:
        """Take the options that stand after the command, and set up the log."""
        self.conf = conf or self.conf
        self.log_format = log_format or self.log_format
        set_up(self.log_format)

    def configuration(self) -> Configuration:
        """The configuration, its warnings written to the log. Raises ConfigurationError."""
        from walhouse.config.configuration import load  # noqa: PLC0415  (help needs no configuration)

        configuration = load(self.conf)
        for warning in configuration.warnings:
            log(warning, level=logging.WARNING)
        return configuration


def invocation(context: typer.Context) -> Invocation:
    """What the command line says beside the command."""
    return context.ensure_object(Invocation)


def begin(context: typer.Context, conf: Path | None, log_format: LogFormat | None) -> Invocation:
    """The invocation, with the options of a command taken in."""
    found = invocation(context)
    found.begin(conf, log_format)
    return found


@contextmanager
def house(
    context: typer.Context, conf: Path | None, log_format: LogFormat | None, *, lasting: bool = False
) -> Iterator[Walhouse]:
    """The house that the configuration describes, with its secrets known to be there; ``lasting``: for long work."""
    configuration = begin(context, conf, log_format).configuration()
    configuration.connection()
    from walhouse.api import Walhouse  # noqa: PLC0415  (imports Spark: nothing wrong with the configuration waits for it)

    with Walhouse.open(configuration, lasting=lasting) as opened:
        yield opened


@contextmanager
def working(
    context: typer.Context, conf: Path | None, log_format: LogFormat | None, *, lasting: bool = False
) -> Iterator[tuple[Walhouse, Progress]]:
    """The house, and the reporter of its work."""
    with (
        house(context, conf, log_format, lasting=lasting) as opened,
        progress(invocation(context).log_format) as reporter,
    ):
        yield opened, reporter


def parse_lsn(text: str) -> Lsn:
    """An LSN of the command line."""
    try:
        return Lsn.parse(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def parse_position(text: str) -> Lsn:
    """An LSN, or ``last``."""
    return LAST if text == "last" else parse_lsn(text)


def parse_table(text: str) -> TableName:
    """A table of the command line, as ``TableName.parse`` takes it."""
    try:
        return TableName.parse(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


class AnswerFormat(StrEnum):
    """How an answer is written to standard output."""

    TABLE = "table"
    JSON = "json"


class StatusFormat(StrEnum):
    """How the status is written to standard output."""

    TABLE = "table"
    JSON = "json"
    PROMETHEUS = "prometheus"


class RowsFormat(StrEnum):
    """How rows are written to standard output."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


class EventsFormat(StrEnum):
    """How events are written to standard output."""

    DEBEZIUM_JSON = "debezium-json"


Conf = Annotated[
    Path | None,
    typer.Option(
        "--conf", metavar="FILE", help="The configuration file. Default: what WALHOUSE_CONF names.", show_default=False
    ),
]
LogFormatOption = Annotated[
    LogFormat | None,
    typer.Option(
        "--log-format",
        envvar="WALHOUSE_LOG_FORMAT",
        help="How log lines and errors are written to standard error.",
        show_default="text",
    ),
]
AnswerFormatOption = Annotated[AnswerFormat, typer.Option("--format", help="How the answer is written.")]
StatusFormatOption = Annotated[
    StatusFormat,
    typer.Option("--format", help="How the answer is written; prometheus: as metrics, in its text format."),
]
Tables = Annotated[
    list[TableName] | None,
    typer.Option("--table", metavar="SCHEMA.TABLE", parser=parse_table, help="This table only; may be repeated."),
]
FromLsn = Annotated[
    Lsn | None, typer.Option("--from", parser=parse_lsn, metavar="LSN", help="The first commit LSN, as 16/B374D848.")
]
ToLsn = Annotated[
    Lsn | None, typer.Option("--to", parser=parse_lsn, metavar="LSN", help="The commit LSN to stop before.")
]
Schemas = Annotated[bool, typer.Option("--schemas", help="Print each key and value with its schema.")]
KeepNulls = Annotated[
    bool,
    typer.Option("--keep-nulls", help="Print NULL as null; Debezium prints the column's default."),
]
Events = Annotated[EventsFormat, typer.Option("--format", help="How events are written.")]
Rows = Annotated[RowsFormat, typer.Option("--format", help="How rows are written.")]
At = Annotated[
    Lsn | None,
    typer.Option(
        "--at",
        parser=parse_position,
        metavar="LSN|last",
        help="Gold at one position, its tables in braces, as {shop_orders}: the last, or the last up to this LSN.",
    ),
]
