"""SQL that a user gives to be put into a statement of ours.

Invariant: what is put between parentheses stays between them; the rest is the server's judgement, in a transaction that
is read only.
"""

from __future__ import annotations

import re
from typing import Final

_QUOTED: Final = re.compile(
    r"""[eE]'(?:[^'\\]|\\.|'')*' | '(?:[^']|'')*' | "(?:[^"]|"")*" | \$(\w*)\$.*?\$\1\$ | --[^\n]* | /\*.*?\*/""",
    re.DOTALL | re.VERBOSE,
)
"""What holds no syntax: strings, quoted names, comments."""


def leaves_its_parentheses(expression: str) -> bool:
    """Whether it ends the parenthesis that it is put into, or the statement, outside of quotes and comments."""
    depth = 0
    for mark in _QUOTED.sub("", expression):
        depth += (mark == "(") - (mark == ")")
        if depth < 0 or mark == ";":
            return True
    return depth > 0
