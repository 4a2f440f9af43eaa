"""Ranges of a table's key as SQL: which rows lie in one, in which order they are, and their keys as texts.

Invariant: what lies between two rows of the order is what the comparisons say, since both go by the operators of the
key's own order; and a key's text is the value again in a range's bound, whatever the column's domain allows by now.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from psycopg import sql

if TYPE_CHECKING:
    from collections.abc import Sequence

    from walhouse.pgoutput.column import ColumnDescription
    from walhouse.pgoutput.relation import RelationDescription
    from walhouse.postgres.keyed_table import Key, KeyedTable


def in_range(table: KeyedTable, after: Key | None = None, upto: Key | None = None) -> sql.Composed:
    """The rows with keys in ``(after, upto]``, and of these the ones that are to be read; None: without that bound."""
    conditions: list[sql.Composable] = [sql.SQL("true")]
    if after is not None:
        conditions.append(_compared(table, ">", after))
    if upto is not None:
        conditions += [has_key(table), _compared(table, "<=", upto)]
    # a line of its own, so that a comment at an expression's end does not reach beyond it
    conditions += [
        sql.SQL("({}\n)").format(sql.SQL(each)) for each in (table.row_filter, table.condition) if each is not None
    ]
    return sql.SQL(" AND ").join(conditions)


def has_key(table: KeyedTable) -> sql.Composable:
    """SQL that is false for rows without a key, and never NULL."""
    if not table.has_rows_without_key:
        return sql.SQL("true")
    return sql.SQL("(({}) IS NOT NULL)").format(identifiers(table.key))


def _compared(table: KeyedTable, operator: Literal[">", "<="], key: Key) -> sql.Composed:
    if table.operators is None:
        bound = bounds(table.relation, table.key, key)
        return sql.SQL("({}) {} ({})").format(identifiers(table.key), sql.SQL(operator), bound)
    first = f"{operator[0]}="  # of the first column alone, by which an index can be used
    within = _column_compared(table, 0, first, key)
    return sql.SQL("({} AND {})").format(within, _from_column(table, 0, operator, key))


def _from_column(table: KeyedTable, place: int, operator: Literal[">", "<="], key: Key) -> sql.Composed:
    """The comparison by the columns from a place on, column by column."""
    if place == len(key) - 1:
        return _column_compared(table, place, operator, key)
    return sql.SQL("({} OR ({} AND {}))").format(
        _column_compared(table, place, operator[0], key),
        _column_compared(table, place, "=", key),
        _from_column(table, place + 1, operator, key),
    )


def _column_compared(table: KeyedTable, place: int, operator: str, key: Key) -> sql.Composed:
    assert table.operators is not None, "row comparisons name no operator"
    return sql.SQL("{} OPERATOR({}.{}) {}").format(
        sql.Identifier(table.key[place]),
        sql.Identifier(table.operators[place]),
        sql.SQL(operator),
        bounds(table.relation, table.key[place : place + 1], key[place : place + 1]),
    )


def bounds(relation: RelationDescription, columns: Sequence[str], key: Key) -> sql.Composed:
    """The values of these columns, of their types."""
    described = {column.name: column for column in relation.columns}
    return sql.SQL(", ").join(_bound(described[name], text) for name, text in zip(columns, key, strict=True))


def _bound(column: ColumnDescription, text: str) -> sql.Composable:
    """One value. A check of a domain's that is ``NOT VALID`` refuses values that rows have: there the server finds the
    type below by the column that the value is compared with. (By a composite or a ``regclass`` it finds another.)"""
    if not column.is_of_domain or column.kind == "c":
        return sql.SQL("{}::{}").format(sql.Literal(text), sql.SQL(column.type_name or "text"))
    if (column.base_type or "").startswith("reg"):
        return sql.SQL("{}::{}").format(sql.Literal(text), sql.Identifier("pg_catalog", column.base_type or ""))
    return sql.Literal(text)


def key_texts(table: KeyedTable) -> sql.Composed:
    """The key's columns by their output functions."""
    return sql.SQL(", ").join(sql.SQL("format('%s', {})").format(sql.Identifier(name)) for name in table.key)


def identifiers(names: Sequence[str]) -> sql.Composed:
    """The columns."""
    return sql.SQL(", ").join(map(sql.Identifier, names))


def by_key(table: KeyedTable, form: sql.SQL | None = None) -> sql.Composed:
    """What stands after ORDER BY; ``form``: each column with what is around it."""
    return sql.SQL(", ").join((form or sql.SQL("{}")).format(sql.Identifier(name)) for name in table.key)
