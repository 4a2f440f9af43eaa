"""SQL that a user gives to be put into a statement of ours.

Invariant: what is put between parentheses stays between them, by PostgreSQL's own lexical rules; the rest is the
server's judgement, in a transaction that is read only. Names in it mean what they mean in a session of the user's.
Source: PostgreSQL documentation, "Lexical Structure", with ``standard_conforming_strings`` on.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from walhouse.pgoutput.relation import RelationDescription
    from walhouse.postgres.connection import Connection

_ESCAPED: Final = r"'(?:[^'\\]|\\.|'')*+'"
_ON_A_NEW_LINE: Final = r"(?:[ \t\f\v]|--[^\n\r]*+)*+[\n\r](?:\s|--[^\n\r]*+[\n\r])*+"
"""Between the parts of one string. Nothing here is given back once it is matched: there are many ways to read dashes as
comments, and trying them all would take for ever."""
_TOKEN: Final = re.compile(
    rf"""
    (?P<comment>/\*)                                    # these nest
    | (?P<quote>\$(?:[A-Za-z_\x80-\U0010ffff][\w\x80-\U0010ffff]*)?\$)
    | --[^\n\r]*
    | [eE]{_ESCAPED}(?:{_ON_A_NEW_LINE}{_ESCAPED})*+
    | [A-Za-z_\x80-\U0010ffff][\w$\x80-\U0010ffff]*     # a name may hold a $, and end in e before a string
    | \$[0-9]+
    | '(?:[^']|'')*+' | "(?:[^"]|"")*+"
    | (?P<open>['"]) | (?P<mark>[();]) | .
    """,
    re.DOTALL | re.VERBOSE | re.ASCII,
)
_OF_COMMENTS: Final = re.compile(r"/\*|\*/")


def leaves_its_parentheses(expression: str) -> bool:
    """Whether it ends the parenthesis that it is put into, or the statement, outside of quotes and comments; or leaves
    one of these open."""
    depth, at = 0, 0
    while at < len(expression):
        found = _TOKEN.match(expression, at)
        assert found is not None, "any character is a token"
        at = found.end()
        if found["open"]:
            return True
        if found["comment"] or found["quote"]:
            end = _end_of_comment(expression, at) if found["comment"] else _end_of_quote(expression, at, found["quote"])
            if end is None:
                return True
            at = end
        depth += (found["mark"] == "(") - (found["mark"] == ")")
        if depth < 0 or found["mark"] == ";":
            return True
    return depth > 0


def _end_of_comment(text: str, at: int) -> int | None:
    depth = 1
    for mark in _OF_COMMENTS.finditer(text, at):
        depth += 1 if mark[0] == "/*" else -1
        if depth == 0:
            return mark.end()
    return None


def _end_of_quote(text: str, at: int, delimiter: str) -> int | None:
    end = text.find(delimiter, at)
    return None if end < 0 else end + len(delimiter)


def find_names_as_the_user(connection: Connection, relation: RelationDescription) -> None:
    """Until the transaction ends, names, operators among them (``citext``'s ``=``), are found as in a session of the
    user's.

    Not where the table has a column of types that print names (``regclass``): these are to print as in the stream.
    """
    kinds = (column.element_type or column.base_type or "" for column in relation.columns)
    if not any(kind.startswith("reg") for kind in kinds):
        connection.execute("SET LOCAL search_path TO DEFAULT")


def find_names_as_ever(connection: Connection) -> None:
    """Back to how all other statements find names, within the transaction."""
    connection.execute("SET LOCAL search_path TO pg_catalog")
