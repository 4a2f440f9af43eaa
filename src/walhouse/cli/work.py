"""capture, silver, gold, run, rebuild: what moves data."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from walhouse.cli import options
from walhouse.cli.logs import log
from walhouse.names import TableName  # noqa: TC001  (typer reads it)


def capture(
    context: typer.Context,
    *,
    conf: options.Conf = None,
    log_format: options.LogFormatOption = None,
    new_generation: Annotated[
        bool, typer.Option("--new-generation", help="Once, after bronze was restored to an earlier version.")
    ] = False,
) -> None:
    """Bring bronze up to the source's current LSN.

    The first time this makes the publication and the slot and reads the initial snapshot.
    """
    with options.working(context, conf, log_format) as (house, reporter):
        reached = house.capture(reporter, start_new_generation=new_generation)
    log("bronze is complete", fields={"captured_to": str(reached.captured_to), "pass": reached.pass_number})


def silver(context: typer.Context, *, conf: options.Conf = None, log_format: options.LogFormatOption = None) -> None:
    """Bring silver up to bronze: Debezium's event for every change."""
    with options.working(context, conf, log_format) as (house, reporter):
        rows = house.silver(reporter)
    log("silver is complete", fields={"rows": rows})


def gold(context: typer.Context, *, conf: options.Conf = None, log_format: options.LogFormatOption = None) -> None:
    """Bring gold up to bronze: the rows that PostgreSQL holds."""
    with options.working(context, conf, log_format) as (house, reporter):
        rows = house.gold(reporter)
    log("gold is complete", fields={"rows": rows})


def run(
    context: typer.Context,
    *,
    conf: options.Conf = None,
    log_format: options.LogFormatOption = None,
    continuous: Annotated[bool, typer.Option("--continuous", help="Go on until interrupted.")] = False,
) -> None:
    """Capture, silver and gold, up to the source's current LSN."""
    with options.working(context, conf, log_format, lasting=continuous) as (house, reporter):
        house.run(continuous=continuous, progress=reporter)
    log("bronze, silver and gold are complete")


def rebuild(
    context: typer.Context,
    layer: Annotated[Literal["silver", "gold"], typer.Argument(help="Whose tables.")],
    tables: Annotated[
        list[TableName],
        typer.Argument(metavar="SCHEMA.TABLE…", parser=options.parse_table, help="Tables to make anew."),
    ],
    *,
    conf: options.Conf = None,
    log_format: options.LogFormatOption = None,
) -> None:
    """Make tables of silver or gold anew from all that bronze has of them.

    For a table whose column has another type now, whose handling mode was changed, or that somebody else changed.
    """
    with options.working(context, conf, log_format) as (house, reporter):
        rows = house.rebuild(layer, tables, reporter)
    log(f"made anew in {layer}", fields={"tables": ", ".join(map(str, tables)), "rows": rows})
