"""init, check, drop: what begins and ends a capture."""

from __future__ import annotations

import json
import logging
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from walhouse.cli import options
from walhouse.cli.logs import log
from walhouse.errors import ConfigurationError, SourceError


def init(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="Where to write it.")] = Path("walhouse.yml"),
    *,
    from_connector: Annotated[
        Path | None,
        typer.Option("--from-connector", metavar="JSON", help="Make it from a Kafka Connect connector's JSON."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file if it is there.")] = False,
    log_format: options.LogFormatOption = None,
) -> None:
    """Write a commented configuration to start from."""
    from walhouse.config.starter import VARIABLES, commented_example, from_connector_json  # noqa: PLC0415  (see the package)

    options.begin(context, None, log_format)
    text = commented_example() if from_connector is None else from_connector_json(_read(from_connector))
    try:
        with file.open("w" if force else "x", encoding="utf-8") as target:
            target.write(text)
    except FileExistsError:
        raise ConfigurationError(
            f"{file} is there already.", todo="Name another file, or give --force.", file=str(file)
        ) from None
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be written: {error.strerror}.", file=str(file)) from None
    log(f"wrote {file}; fill it in, then run: walhouse check --conf {file}")
    for name, variable in VARIABLES.items():
        if f"{name}: ${{env:{variable}}}" in text:
            log(f"{name} is expected in the environment variable {variable}; none was written to the file")
    _tell_what_is_to_be_changed(text, file)


def _tell_what_is_to_be_changed(text: str, file: Path) -> None:
    """What a connector asks for and is not here would else be met at the next command only."""
    from walhouse.config.configuration import parse  # noqa: PLC0415  (see the package)

    try:
        parse(text, file)
    except ConfigurationError as error:
        log(error.problem.rstrip(), level=logging.WARNING)


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")  # editors of Windows begin a file with a mark
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigurationError(f"{file} cannot be read: {reason}.", file=str(file)) from None


def check(
    context: typer.Context,
    *,
    conf: options.Conf = None,
    log_format: options.LogFormatOption = None,
    form: options.AnswerFormatOption = options.AnswerFormat.TABLE,
) -> None:
    """Check that the source is ready; each finding says what to do.

    Looks at version, wal_level, rights, slot, publication and replica identities, and at what the configuration's
    lists, masks and keys match. Ends with exit code 3 if something would keep capture from working. Changes nothing.
    """
    with options.house(context, conf, log_format) as house:
        findings = house.check()
    errors = sum(finding.severity == "error" for finding in findings)
    if errors:
        options.invocation(context).verdict = SourceError(
            f"{errors} of {len(findings)} findings would keep capture from working.",
            safe="Nothing was changed.",
            todo="Do what the findings say, then check again.",
        )
    if form is options.AnswerFormat.JSON:
        typer.echo(json.dumps([asdict(finding) for finding in findings], ensure_ascii=False))
    else:
        from walhouse.cli.tables import print_table  # noqa: PLC0415  (see the package)

        rows = [(str(f.severity), f.subject, f.problem, f.todo) for f in findings]
        print_table(("", "what", "found", "to do"), rows)


def drop(
    context: typer.Context,
    *,
    conf: options.Conf = None,
    log_format: options.LogFormatOption = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Remove slot and publication from the source. The lake stays, and cannot be continued.

    With publication.autocreate.mode disabled the publication stays, too.
    """
    from walhouse.config.values import AutocreateMode  # noqa: PLC0415  (imports pydantic: help is to be quick)

    with options.house(context, conf, log_format) as house:
        connector = house.configuration.connector
        is_ours = connector.publication_autocreate_mode is not AutocreateMode.DISABLED
        what = f"the slot {connector.slot_name}"
        what += f" and the publication {connector.publication_name}" if is_ours else ""
        where = f"{connector.database_dbname} on {connector.database_hostname}:{connector.database_port}"
        if not yes:
            _ask(f"Remove {what} of the database {where}? The lake cannot be continued after it.")
        house.drop()
    log(f"removed {what}")


def _ask(question: str) -> None:
    """Ask on standard error; anything but yes ends the command."""
    typer.echo(f"{question} [y/N] ", err=True, nl=False)
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise typer.Abort
