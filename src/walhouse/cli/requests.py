"""snapshot, signal, init-signals: what asks a capture, running or to come, for something."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from walhouse.cli import options
from walhouse.cli.logs import log
from walhouse.errors import RequestRefusedError
from walhouse.names import TableName  # noqa: TC001  (typer reads it)

_Id = Annotated[
    str | None, typer.Option("--id", help="A name for the request: notifications answer with it. Default: a new UUID.")
]


def snapshot(
    context: typer.Context,
    tables: Annotated[
        list[TableName],
        typer.Argument(metavar="SCHEMA.TABLE…", parser=options.parse_table, help="Tables to read once more."),
    ],
    *,
    where: Annotated[
        str | None, typer.Option("--where", metavar="SQL", help="Only rows that fulfil it, as after WHERE.")
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until it is done; if no process works on a local lake, do it here.")
    ] = False,
    signal_id: _Id = None,
    conf: options.Conf = None,
    log_format: options.LogFormatOption = None,
) -> None:
    """Ask for an incremental snapshot: the tables are read chunk by chunk, while streaming goes on.

    The request waits in the lake until a capture follows it.
    """
    with options.working(context, conf, log_format) as (house, reporter):
        request = house.snapshot(tables, where, signal_id)
        log("asked for a snapshot", fields={"id": request, "tables": ", ".join(map(str, tables))})
        if wait:
            for told in house.follow(request, reporter):
                log(f"snapshot {told.type.lower()}", fields={"id": request, **told.shown})


def signal(
    context: typer.Context,
    kind: Annotated[str, typer.Argument(metavar="TYPE", help="execute-, pause-, resume-, stop-snapshot, log …")],
    *,
    data: Annotated[
        str, typer.Option("--data", metavar="JSON", help="What Debezium takes as the signal's data.")
    ] = "{}",
    signal_id: _Id = None,
    conf: options.Conf = None,
    log_format: options.LogFormatOption = None,
) -> None:
    """Give one of Debezium's signals; ops.notifications says what became of it."""
    try:
        given = json.loads(data)
    except json.JSONDecodeError as error:
        raise RequestRefusedError(f"--data is no JSON: {error.msg} at column {error.colno}.") from None
    except (ValueError, RecursionError):  # Python reads no integer of thousands of digits
        raise RequestRefusedError("--data is nested too deeply, or has a number that is too long.") from None
    with options.house(context, conf, log_format) as house:
        request = house.signal(kind, given, signal_id)
    log("gave a signal", fields={"id": request, "type": kind})


def init_signals(
    context: typer.Context, *, conf: options.Conf = None, log_format: options.LogFormatOption = None
) -> None:
    """Make the table ops.signals and, if signal.data.collection names one, the source's own signal table."""
    with options.house(context, conf, log_format) as house:
        made = house.init_signals()
    log("signals may be given", fields={"tables": ", ".join(made)})
