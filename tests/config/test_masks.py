"""Rules for hidden columns are understood or refused, and never show their salt."""

from __future__ import annotations

from pathlib import Path

import pytest

from walhouse.config.configuration import parse
from walhouse.config.masks import first_matching
from walhouse.errors import ConfigurationError

FILE = Path("/nowhere/walhouse.yml")
HEAD = "connector:\n  topic.prefix: p\n  database.hostname: h\n  database.user: u\n  database.dbname: d\n"


def rules(*lines: str):  # type: ignore[no-untyped-def]  # a tuple of rules, said by its use
    body = "".join(f"  {line}\n" for line in lines)
    return parse(f"{HEAD}{body}lake:\n  path: lake\n", FILE).connector.column_masks


def test_truncation_counts_before_a_mask_and_a_mask_before_a_hash() -> None:
    found = rules(
        "column.mask.hash.v2.SHA-256.with.salt.pepper: 's.t.a,s.t.b,s.t.c'",
        "column.mask.with.3.chars: 's.t.a,s.t.b'",
        "column.truncate.to.2.chars: s.t.a",
    )
    kinds = [rule.kind if (rule := first_matching(found, f"s.t.{column}")) else None for column in "abcd"]
    assert kinds == ["truncate", "mask", "hash", None]


def test_the_salt_is_in_no_representation() -> None:
    (rule,) = rules("column.mask.hash.SHA-1.with.salt.pepper: s.t.a")
    assert rule.salt == b"pepper"
    assert rule.of_java_object
    assert "pepper" not in repr(rule) + str(rule)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("column.mask.hash.v2.ROT13.with.salt.pepper: s.t.a", "'ROT13' is no digest: expected one of MD5"),
        ("column.mask.hash.v3.MD5.with.salt.pepper: s.t.a", "column.mask.hash.v3.MD5: expected hash.[v2.]ALGORITHM"),
        ("column.truncate.to.0.chars: s.t.a", "column.truncate.to.0.chars: the length is to be above 0"),
        ("column.mask.with.3.chars: 's.t.[a'", "column.mask.with.3.chars: the pattern 's.t.[a'"),
    ],
)
def test_a_rule_that_cannot_hold_is_refused_by_name_and_without_its_salt(line: str, words: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        rules(line)
    assert words in str(caught.value)
    assert "pepper" not in str(caught.value)
