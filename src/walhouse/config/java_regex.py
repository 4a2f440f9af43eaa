"""Java's regular expressions, as Debezium's lists hold them, made Python's.

Invariant: a pattern either matches exactly what Java's would, for names without line breaks, or is refused; a pattern
that Python would silently read differently never passes, with case or without. Java matches case-insensitively in
ASCII only, as ``re.ASCII`` does. Translated: named groups, ``\\Q…\\E``, ``\\z``, ``\\Z``, ``(?i)``. Refused:
``\\p{…}``, class intersection and union, octal and control escapes, ``\\R \\h \\v \\X \\G``, other inline flags,
unbounded look-behind.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

_SAME_ESCAPES: Final = frozenset("dDwWsStnrfabB")
_GROUP_NAME: Final = re.compile(r"\?<([A-Za-z][A-Za-z0-9]*)>")
_GROUP_REFERENCE: Final = re.compile(r"\\k<([A-Za-z][A-Za-z0-9]*)>")
_SAME_GROUPS: Final = re.compile(r"\?(?::|=|!|>|<=|<!|[ims]*(?:-[ims]+)?:)")
_QUANTIFIER: Final = re.compile(r"\{\d+(?:,\d*)?\}")
_CODE_POINT: Final = re.compile(r"\\(?:x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4})")


class PatternError(ValueError):
    """The pattern cannot be taken; the text says which part and why."""


@lru_cache(maxsize=4096)
def compile_pattern(pattern: str, *, case_sensitive: bool = False) -> re.Pattern[str]:
    """The pattern as Python's, to be used with ``fullmatch``. Raises PatternError, whichever case is asked for."""
    flags = re.ASCII if case_sensitive else re.ASCII | re.IGNORECASE
    try:
        return re.compile(_Translation(pattern, case_sensitive=case_sensitive).result(), flags)
    except re.error as error:
        raise PatternError(f"not a regular expression that can be used here: {error}") from None


def require_pattern(pattern: str) -> str:
    """The pattern, if it can be taken. Raises PatternError that quotes it."""
    try:
        compile_pattern(pattern)
    except (PatternError, OverflowError, RecursionError) as error:
        raise PatternError(f"the pattern {pattern!r}: {error}") from None
    return pattern


class _Translation:
    """One walk over the pattern, from left to right."""

    def __init__(self, pattern: str, *, case_sensitive: bool) -> None:
        self.pattern = pattern
        self.case_sensitive = case_sensitive
        self.at = 0
        self.parts: list[str] = []
        self.without_case = [False]
        """For the whole pattern and each group that is open: whether ``(?i)`` was met in it, which holds to its end."""

    def result(self) -> str:
        while self.at < len(self.pattern):
            self._next()
        self._end_of_group()
        return "".join(self.parts)

    def _take(self, length: int, replacement: str | None = None) -> None:
        self.parts.append(self.pattern[self.at : self.at + length] if replacement is None else replacement)
        self.at += length

    def _refuse(self, what: str, why: str) -> PatternError:
        return PatternError(f"{what} at character {self.at + 1} {why}")

    def _next(self) -> None:
        match self.pattern[self.at]:
            case "\\":
                self._escape(in_class=False)
            case "[":
                self._character_class()
            case "(" if self.pattern.startswith("(?", self.at):
                self._group()
            case "(":
                self._open(1)
            case ")":
                self._close()
            case "|" if self.without_case[-1]:
                self._take(1, ")|(?i:")
            case "{" if not _QUANTIFIER.match(self.pattern, self.at):
                raise self._refuse("'{'", "starts no quantifier; write \\{ for a brace")
            case _:
                self._take(1)

    def _escape(self, *, in_class: bool) -> None:
        letter = self.pattern[self.at + 1 : self.at + 2]
        if letter == "":
            raise self._refuse("'\\'", "escapes nothing")
        if letter == "Q":
            return self._quotation()
        if match := _CODE_POINT.match(self.pattern, self.at):
            return self._take(len(match[0]))
        if not letter.isascii() or not letter.isalnum():
            return self._take(2)
        if in_class:
            if letter in "bB" or letter not in _SAME_ESCAPES:
                raise self._refuse(f"'\\{letter}'", "within [] means another thing in Python than in Java")
            return self._take(2)
        return self._escape_outside(letter)

    def _escape_outside(self, letter: str) -> None:
        if letter in "zZ":
            return self._take(2, r"\Z")
        if letter == "A" or letter in _SAME_ESCAPES or letter in "123456789":
            return self._take(2)
        if match := _GROUP_REFERENCE.match(self.pattern, self.at):
            return self._take(len(match[0]), f"(?P={match[1]})")
        raise self._refuse(f"'\\{letter}'", "has no equal in Python's regular expressions")

    def _quotation(self) -> None:
        end = self.pattern.find(r"\E", self.at)
        text = self.pattern[self.at + 2 :] if end < 0 else self.pattern[self.at + 2 : end]
        self._take(len(text) + (2 if end < 0 else 4), re.escape(text))

    def _character_class(self) -> None:
        self._take(2 if self.pattern.startswith("[^", self.at) else 1)
        if self.pattern.startswith("]", self.at):
            raise self._refuse("']'", "closes an empty class; write \\] for a bracket")
        while self.at < len(self.pattern) and self.pattern[self.at] != "]":
            if self.pattern[self.at] == "\\":
                self._escape(in_class=True)
            elif self.pattern[self.at] == "[" or self.pattern.startswith("&&", self.at):
                raise self._refuse("a union or intersection of classes", "has no equal in Python; list the characters")
            elif self.pattern.startswith("--", self.at):
                raise self._refuse("'--'", "within [] is no range in Java; write \\- for a hyphen")
            elif self.pattern[self.at] in "|~":
                self._take(1, "\\" + self.pattern[self.at])
            else:
                self._take(1)
        if self.at >= len(self.pattern):
            raise self._refuse("'['", "is not closed")
        self._take(1)

    def _group(self) -> None:
        if self.pattern.startswith("(?i)", self.at):
            self._from_here_without_case()
        elif _SAME_GROUPS.match(self.pattern, self.at + 1):
            self._open(2)
        elif match := _GROUP_NAME.match(self.pattern, self.at + 1):
            self._open(1 + len(match[0]), f"(?P<{match[1]}>")
        else:
            self.at += 1
            raise self._refuse("this kind of group", "is not Java's, or has no equal in Python")

    def _open(self, length: int, replacement: str | None = None) -> None:
        self.without_case.append(False)
        self._take(length, replacement)

    def _from_here_without_case(self) -> None:
        """Python knows ``(?i)`` at the start only: here it becomes a group, up to where the group around it ends."""
        is_new = self.case_sensitive and not self.without_case[-1]
        self.without_case[-1] |= is_new
        self._take(4, "(?i:" if is_new else "")
        if self.pattern[self.at : self.at + 1] in tuple("*+?{"):
            raise self._refuse("a quantifier", "has nothing to repeat")

    def _close(self) -> None:
        if len(self.without_case) == 1:
            raise self._refuse("')'", "closes no group; write \\) for a parenthesis")
        self._end_of_group()
        self._take(1)

    def _end_of_group(self) -> None:
        """What ``(?i)`` opened in the group, or in the whole pattern, ends with it."""
        if self.without_case.pop():
            self.parts.append(")")
