"""The columns of a gold table: one for each source column, and walhouse's own.

Invariant: two source columns never share a gold column. Delta does not tell ``a`` from ``A``, and some names are
walhouse's own: such a source column gets the suffix ``_1`` (``_2`` ...), the same one each time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql.types import ArrayType, LongType, MapType, StringType, StructField

from walhouse.changes.columns import latest_columns
from walhouse.gold.types import GoldType, gold_type
from walhouse.names import caseless

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from walhouse.pgoutput.column import ColumnDescription
    from walhouse.pgoutput.relation import RelationDescription

COMMIT_LSN: Final = "_commit_lsn"
SEQ: Final = "_seq"
RESCUED: Final = "_rescued"
UNAVAILABLE: Final = "_unavailable"
DIGEST: Final = "_digest"


def _own(name: str, data_type: LongType | MapType | ArrayType | StringType, comment: str) -> StructField:
    return StructField(name, data_type, metadata={"comment": comment})


OWN_FIELDS: Final = (
    _own(COMMIT_LSN, LongType(), "LSN of the commit that last changed this row"),
    _own(SEQ, LongType(), "Place of that change in its transaction"),
    _own(
        RESCUED, MapType(StringType(), StringType()), "PostgreSQL's text of values that the column's type cannot hold"
    ),
    _own(UNAVAILABLE, ArrayType(StringType()), "Columns whose value was not sent and is not known"),
)
"""Of every gold table, after the source's columns."""

DIGEST_FIELD: Final = _own(
    DIGEST, StringType(), "SHA-256 over the row's names and texts; equal rows have equal digests"
)
"""Of tables without a key: the last column."""

_RESERVED: Final = frozenset({*(field.name for field in OWN_FIELDS), DIGEST})


@dataclass(frozen=True, slots=True)
class GoldColumn:
    """A source column, its name in gold, and its native type."""

    source: ColumnDescription
    name: str
    type: GoldType


def gold_columns(relations: Sequence[RelationDescription], existing: Collection[str] = ()) -> tuple[GoldColumn, ...]:
    """The gold columns of the relation's columns, in their order. ``existing``: the column names that the table has."""
    columns = latest_columns(relations)
    names = gold_names(tuple(columns), existing)
    return tuple(GoldColumn(source, names[name], gold_type(source)) for name, source in columns.items())


def gold_names(columns: Sequence[str], existing: Collection[str] = ()) -> dict[str, str]:
    """Source name to gold name. A name that the table has in another case belongs to another source column."""
    exact = set(existing)
    foreign = {caseless(name) for name in exact}
    taken = set(_RESERVED)
    names: dict[str, str] = {}
    for column in columns:
        name, suffix = column, 0
        while caseless(name) in taken or (caseless(name) in foreign and name not in exact):
            suffix += 1
            name = f"{column}_{suffix}"
        taken.add(caseless(name))
        names[column] = name
    return names
