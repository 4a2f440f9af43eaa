"""Gold's tables at one position, for queries over several of them.

A run merges the tables of an epoch one after another, so who joins two of them meanwhile may see one before and one
after the same transaction. Delta keeps their earlier versions, and the ledger knows which belong together.

Invariant: a table is read at the version that the cut names, whatever is merged meanwhile.
"""

from __future__ import annotations

from string import Formatter
from typing import TYPE_CHECKING, Any

from walhouse.changes.epochs import Cut, EpochLedger, Layer
from walhouse.errors import NothingAppliedError, QueryError
from walhouse.lakehouse.tables import table_exists

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from walhouse.lakehouse.layout import LakeLayout
    from walhouse.lsn import Lsn


def gold_cut(spark: SparkSession, layout: LakeLayout, at: Lsn | None = None) -> Cut:
    """The last position that all of gold is at, or the last one up to ``at``. Raises NothingAppliedError."""
    written = table_exists(spark, layout, layout.ops("epochs"))
    cut = EpochLedger(spark, layout).cut(Layer.GOLD, at) if written else None
    if cut is None:
        raise NothingAppliedError(f"Gold was at no position yet{'' if at is None else f' up to {at}'}.", lsn=at)
    return cut


def sql_at(spark: SparkSession, layout: LakeLayout, query: str, cut: Cut) -> DataFrame:
    """Ask gold as of a cut; its tables stand in braces in the query, as ``{shop_orders}``.

    Braces that are meant as such stand twice. Raises NothingAppliedError if one of the tables was not there, QueryError
    if braces do not fit together or hold more than a name.
    """
    versions = {layout.gold(table).table: (layout.gold(table), version) for table, version in cut.versions.items()}
    parts = _parts(query)
    names = list(dict.fromkeys(name for _, name in parts if name is not None))
    if not names:  # then Spark takes the query as it stands
        return spark.sql("".join(literal for literal, _ in parts))
    # by numbers: a table's name may be that of one of the function's own parameters
    numbered = {name: f"table_{number}" for number, name in enumerate(names)}
    frames: dict[str, Any] = {}
    for name, number in numbered.items():
        if name not in versions:
            raise NothingAppliedError(f"Gold had no table {name} at {cut.lsn}.", lsn=cut.lsn, table=name)
        table, version = versions[name]
        frames[number] = spark.read.option("versionAsOf", version).table(str(table))
    braced = {name: f"{{{number}}}" for name, number in numbered.items()}
    doubled = ((literal.replace("{", "{{").replace("}", "}}"), name) for literal, name in parts)
    return spark.sql("".join(literal + ("" if name is None else braced[name]) for literal, name in doubled), **frames)


def _parts(query: str) -> list[tuple[str, str | None]]:
    """The query in pieces: text, its braces single, and the table that stands in braces behind it."""
    try:
        parts = list(Formatter().parse(query))
    except ValueError as error:
        raise _brace_error(f"these do not fit together: {error}") from error
    if any(form or conversion for _, _, form, conversion in parts):
        raise _brace_error("some hold more than a name")
    return [(literal, name) for literal, name, _, _ in parts]


def _brace_error(problem: str) -> QueryError:
    return QueryError(
        f"Braces hold gold's tables in a query at a position; {problem}.",
        todo="Write braces that are meant as such twice: {{ and }}.",
    )
