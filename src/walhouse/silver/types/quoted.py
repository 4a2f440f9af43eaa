"""Quoted texts inside of a text: how array and hstore output escape, taken apart without a repeated group.

Java's matcher recurses for each repetition of a group and a long value would overflow its stack; so the two escaped
characters are exchanged for noncharacters first, and what is between quotes is then a plain class of characters.

Invariant: a text that holds these noncharacters itself is not taken (NULL), never misread.
Source: PostgreSQL documentation, "Array Input and Output Syntax" and "hstore External Representation".
"""

from __future__ import annotations

from typing import Final

_BACKSLASH: Final = "\ufdd0"
_QUOTE: Final = "\ufdd1"


def escaped(text: str) -> str:
    """The text with each escaped backslash and quote as one nonquote character."""
    marked = rf"""replace(replace({text}, r'\\', '{_BACKSLASH}'), r'\"', '{_QUOTE}')"""
    return f"CASE WHEN NOT ({text} RLIKE '[{_BACKSLASH}{_QUOTE}]') THEN {marked} END"


def unescaped(text: str) -> str:
    """What stood between the quotes."""
    return rf"""translate({text}, '{_BACKSLASH}{_QUOTE}', r'\"')"""
