"""status, verify, events, sql: what asks and answers."""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Final

import typer

from walhouse.bronze.snapshots.estimate import duration
from walhouse.cli import options
from walhouse.errors import NotProvenError, QueryError, UnreadableFileError
from walhouse.lakehouse.conditions import spark_condition

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from walhouse.ops.status import SnapshotStatus, Status
    from walhouse.proof.verify import Proof

LAG_IS_OF_ALL_WAL: Final = (
    "The lag is all WAL that the server wrote since, other databases' and its own housekeeping too:"
    " it need not hold a change of these tables. The next run reads it."
)

_UNREADABLE: Final = "FAILED_READ_FILE"
"""What Spark's names begin with for a file that is missing or damaged."""


def status(
    context: typer.Context,
    *,
    conf: options.Conf = None,
    log_format: options.LogFormatOption = None,
    form: options.StatusFormatOption = options.StatusFormat.TABLE,
) -> None:
    """How far each layer is, per table; the lag; the WAL that the slot keeps on the server."""
    with options.house(context, conf, log_format) as house:
        found = house.status()
    if form is options.StatusFormat.JSON:
        typer.echo(found.to_json())
    elif form is options.StatusFormat.PROMETHEUS:
        from walhouse.ops.metrics import exposition  # noqa: PLC0415  (see the package)

        typer.echo(exposition(found), nl=False)
    else:
        _print_status(found)


def _print_status(found: Status) -> None:
    from walhouse.cli.tables import print_table  # noqa: PLC0415  (see the package)

    _print_positions(found)
    if found.lag_bytes:
        typer.echo(LAG_IS_OF_ALL_WAL)
    names = sorted({name for table in found.tables for name in table.counts})
    print_table(
        ("table", "captured", "silver", "gold", *names),
        [
            (table.table, table.captured, table.silver, table.gold, *(table.counts.get(name, 0) for name in names))
            for table in found.tables
        ],
    )
    if found.snapshots:
        _print_snapshots(found.snapshots)


def _print_positions(found: Status) -> None:
    from walhouse.cli.tables import print_table  # noqa: PLC0415  (see the package)

    print_table(
        ("source", "captured to", "lag bytes", "lag seconds", "slot", "state", "keeps bytes", "read by"),
        [
            (
                found.source_lsn,
                found.captured_to or "nothing",
                found.lag_bytes,
                round(found.lag_seconds, 1),
                found.slot,
                found.slot_wal_status or "missing",
                found.retained_bytes,
                None if found.slot_active_pid is None else str(found.slot_active_pid),  # no number to be counted
            )
        ],
    )


def _print_snapshots(snapshots: Sequence[SnapshotStatus]) -> None:
    from walhouse.cli.tables import print_table  # noqa: PLC0415  (see the package)

    print_table(
        ("snapshot", "table", "state", "chunks read", "rows, about", "of, about", "rows/s", "time left"),
        [
            (
                each.request,
                each.table,
                each.state,
                each.chunks,
                each.rows,
                each.estimated_rows,
                each.rows_per_second,
                None if each.seconds_left is None else duration(each.seconds_left),
            )
            for each in snapshots
        ],
    )
    for request, why in {each.request: each.interrupted for each in snapshots if each.interrupted}.items():
        typer.echo(f"{request} was interrupted, and goes on with the next run: {why}")


def verify(
    context: typer.Context,
    *,
    conf: options.Conf = None,
    log_format: options.LogFormatOption = None,
    table: options.Tables = None,
    limit: Annotated[
        int,
        typer.Option(min=0, help="How many differing keys to show for each table, with both rows; 0 shows no values."),
    ] = 10,
    form: options.AnswerFormatOption = options.AnswerFormat.TABLE,
) -> None:
    """Compare gold with the source, row by row, at one LSN. Ends with exit code 6 if they differ."""
    with options.working(context, conf, log_format) as (house, reporter):
        proofs = house.verify(table or None, reporter, limit)
    options.invocation(context).verdict = _verdict(proofs)
    if form is options.AnswerFormat.JSON:
        typer.echo(json.dumps([_proof_facts(proof) for proof in proofs], ensure_ascii=False))
    else:
        _print_proofs(proofs)


def _verdict(proofs: Sequence[Proof]) -> NotProvenError | None:
    if unequal := [str(proof.table) for proof in proofs if not proof.equal]:
        return NotProvenError(
            f"Gold differs from the source in {', '.join(unequal)}.",
            todo="See docs/OPERATIONS.md: some schema changes need the table to be read again, and gold that somebody"
            " wrote to or restored a walhouse rebuild gold TABLE. Else report it, with what bronze has of these keys.",
            tables=unequal,
        )
    if not proofs:
        return NotProvenError("There is no gold table that could be compared.", safe="Nothing was changed.")
    return None


def _proof_facts(proof: Proof) -> dict[str, object]:
    return {
        "table": str(proof.table),
        "lsn": str(proof.lsn),
        "source_rows": proof.source_rows,
        "gold_rows": proof.gold_rows,
        "differing": proof.comparison.differing,
        "equal": proof.equal,
        "sample": [difference._asdict() for difference in proof.comparison.sample],
    }


def _print_proofs(proofs: list[Proof]) -> None:
    from walhouse.cli.tables import print_table  # noqa: PLC0415  (see the package)

    print_table(
        ("table", "at", "rows in PostgreSQL", "rows in gold", "differing keys", ""),
        [
            (p.table, p.lsn, p.source_rows, p.gold_rows, p.comparison.differing, "equal" if p.equal else "different")
            for p in proofs
        ],
    )
    for proof in proofs:
        if proof.comparison.sample:
            print_table(
                ("key", "in PostgreSQL", "in gold", "copies"),
                [
                    (_row(difference.key), _row(difference.source), _row(difference.gold), difference.copies)
                    for difference in proof.comparison.sample
                ],
                title=f"{proof.table}, {len(proof.comparison.sample)} of {proof.comparison.differing} differing keys",
            )


def _row(texts: Sequence[str | None] | None) -> str:
    """A row's texts; a missing row is said in words, NULL is told apart from a text."""
    return "no such row" if texts is None else ", ".join("NULL" if text is None else repr(text) for text in texts)


def events(
    context: typer.Context,
    *,
    conf: options.Conf = None,
    log_format: options.LogFormatOption = None,
    form: options.Events = options.EventsFormat.DEBEZIUM_JSON,  # noqa: ARG001  (there is one format so far)
    table: options.Tables = None,
    from_lsn: options.FromLsn = None,
    to_lsn: options.ToLsn = None,
    schemas: options.Schemas = False,
    keep_nulls: options.KeepNulls = False,
) -> None:
    """Print silver as Debezium would have sent it: JSON lines with destination, key, value and headers, in order."""
    with options.house(context, conf, log_format, lasting=True) as house:
        lines = house.events(table or None, from_lsn, to_lsn, schemas=schemas, keep_nulls=keep_nulls)
        sys.stdout.flush()
        lines.write(sys.stdout.buffer)


def sql(
    context: typer.Context,
    query: Annotated[str, typer.Argument(help="Spark SQL over bronze.wal_readable, silver.…, gold.…, ops.…")],
    *,
    conf: options.Conf = None,
    log_format: options.LogFormatOption = None,
    form: options.Rows = options.RowsFormat.TABLE,
    at: options.At = None,
) -> None:
    """Ask the lake. As a table, at most 1,000 rows are shown; json (one object a line) and csv give all.

    Bytes are shown as base64. A statement that writes is not held back, and takes no lock of the lake: VACUUM and
    RESTORE are given so, but what is written to a layer by hand no command knows of but verify, and that of
    gold alone.
    """
    with options.house(context, conf, log_format) as house:
        from walhouse.cli.rows import print_rows  # noqa: PLC0415  (imports Spark)

        cut = None if at is None else house.cut(None if at is options.LAST else at)
        with _told_of_the_query():
            print_rows(house.sql(query, cut=cut), form)


@contextmanager
def _told_of_the_query() -> Iterator[None]:
    """Raises QueryError: in Spark's own words where it did not understand the query, as it then has seen no row.

    Raises UnreadableFileError where it is no fault of the query.
    """
    from py4j.protocol import Py4JJavaError  # noqa: PLC0415  (see the package)
    from pyspark.errors import AnalysisException, PySparkException, PySparkRuntimeError  # noqa: PLC0415

    try:
        yield
    except AnalysisException as error:
        raise QueryError(error.getMessage()) from error
    except PySparkRuntimeError:  # Python's own: Spark did not start, which is no fault of the query
        raise
    except (PySparkException, Py4JJavaError) as error:
        condition = spark_condition(error)
        if condition is None:
            raise
        if condition.startswith(_UNREADABLE):
            problem = f"Spark cannot read a file of the tables that the query asks for ({condition})."
            raise UnreadableFileError(problem, condition=condition) from error
        raise QueryError(
            f"Spark ended the query with {condition}. Its message is withheld, because it may quote a row.",
            todo="Correct the query, or the row it fails at (try_cast gives NULL for it). --debug shows the message.",
        ) from error
