"""Columns whose values are hidden: ``column.mask…`` and ``column.truncate…``.

Invariant: a rule that cannot be understood is an error, never no rule: its column would land unhidden. No message has a
salt, which is part of its property's name.
Source: Debezium 3.6, PostgreSQL connector, "Connector properties"; of several rules for one column the first counts, in
the order truncate, mask, hash, hash.v2.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from walhouse.config.filters import any_matches, split_list
from walhouse.config.java_regex import require_pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from walhouse.config.columns import ColumnRules

_TRUNCATE: Final = re.compile(r"column\.truncate\.to\.(\d+)\.chars")
_MASK: Final = re.compile(r"column\.mask\.with\.(\d+)\.chars")
_HASH: Final = re.compile(r"column\.mask\.hash\.(v2\.)?([^.]+)\.with\.salt\.(.+)")

_MAY_BE_SALT: Final = re.compile(r"(?is)(?<=mask\.hash\.)((?:v\d+\.)?[^.]*)\..*|(?:\.with)?\.salt\..*")
"""Also in a name that was mistyped: all after a hash's algorithm, and all after the word salt."""

DIGESTS: Final[Mapping[str, str]] = {
    "MD5": "md5",
    "SHA-1": "sha1",
    "SHA-224": "sha224",
    "SHA-256": "sha256",
    "SHA-384": "sha384",
    "SHA-512": "sha512",
    "SHA3-224": "sha3_224",
    "SHA3-256": "sha3_256",
    "SHA3-384": "sha3_384",
    "SHA3-512": "sha3_512",
}
"""Java's names of message digests, and Python's."""


@dataclass(frozen=True, slots=True)
class MaskRule:
    """One property. ``length``: of truncate and mask; the others are a hash's. The salt is not shown."""

    name: str
    """The property's, without a salt."""
    patterns: tuple[str, ...]
    kind: str
    """``truncate``, ``mask`` or ``hash``."""
    length: int = 0
    digest: str = ""
    salt: bytes = b""
    of_java_object: bool = False
    """The first version of Debezium's hash: over the serialised java.lang.String."""
    case_sensitive: bool = False

    def __repr__(self) -> str:
        return f"MaskRule({self.name}, {self.patterns})"

    def matches(self, name: str) -> bool:
        """True for a column ``schema.table.column`` of the rule."""
        return any_matches(self.patterns, name, case_sensitive=self.case_sensitive)


def is_mask(name: str) -> bool:
    """True for the name of a property of these kinds, be it a right one or not."""
    return name.startswith(("column.mask.", "column.truncate."))


def without_salt(name: str) -> str:
    """The name of a property as a message may show it."""
    return _MAY_BE_SALT.sub(lambda found: found[1] or "", name)


@dataclass(frozen=True, slots=True)
class Masks:
    """All rules, and what says which columns are keys."""

    rules: tuple[MaskRule, ...]
    columns: ColumnRules


def parse_masks(properties: Mapping[str, Any]) -> tuple[MaskRule, ...]:
    """The rules of these properties, in the order in which they count. Raises ValueError, as ``parse_mask``."""
    return in_order(parse_mask(name, value) for name, value in properties.items())


def in_order(rules: Iterable[MaskRule]) -> tuple[MaskRule, ...]:
    """The rules in the order in which they count."""

    def place(rule: MaskRule) -> tuple[int, bool]:
        return ("truncate", "mask", "hash").index(rule.kind), not rule.of_java_object

    return tuple(sorted(rules, key=place))


def parse_mask(name: str, value: object) -> MaskRule:
    """The rule of one property. Raises ValueError that says what is wrong, without the property's name."""
    patterns = split_list(value) if isinstance(value, str) else tuple(map(str, value))  # type: ignore[call-overload]  # a YAML list
    for pattern in patterns:
        require_pattern(pattern)
    shown = without_salt(name)
    if found := _TRUNCATE.fullmatch(name):
        return MaskRule(shown, patterns, "truncate", int(found[1]))
    if found := _MASK.fullmatch(name):
        return MaskRule(shown, patterns, "mask", int(found[1]))
    found = _HASH.fullmatch(name)
    if found is None:
        forms = ("column.mask.hash.[v2.]ALGORITHM.with.salt.SALT", "column.mask.with.LENGTH.chars")
        raise ValueError(f"expected {' or '.join((*forms, 'column.truncate.to.LENGTH.chars'))}, LENGTH in digits")
    if found[2] not in DIGESTS:
        raise ValueError(f"{found[2]!r} is no digest: expected one of {', '.join(DIGESTS)}")
    hashlib.new(DIGESTS[found[2]])
    return MaskRule(
        shown, patterns, "hash", digest=DIGESTS[found[2]], salt=found[3].encode(), of_java_object=found[1] is None
    )


def first_matching(rules: Iterable[MaskRule], name: str) -> MaskRule | None:
    """The rule that counts for a column ``schema.table.column``."""
    return next((rule for rule in rules if rule.matches(name)), None)
