"""Rules for hidden columns are understood or refused, and never show their salt."""

from __future__ import annotations

import traceback
from pathlib import Path

import pytest

from walhouse.config.configuration import parse
from walhouse.config.masks import first_matching, without_salt
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


def test_the_first_version_of_the_hash_counts_before_the_second() -> None:
    found = rules(
        "column.mask.hash.v2.MD5.with.salt.pepper: 's.t.a,s.t.b'",
        "column.mask.hash.SHA-256.with.salt.pepper: s.t.a",
    )
    digests = [rule.digest if (rule := first_matching(found, f"s.t.{column}")) else None for column in "abc"]
    assert digests == ["sha256", "md5", None]


def test_the_first_of_several_rules_of_one_kind_counts() -> None:
    """The engine's order is that of a hash table over the names of all properties, so that none can be relied on."""
    found = rules("column.truncate.to.2.chars: s.t.a", "column.truncate.to.1.chars: s.t.a")
    rule = first_matching(found, "s.t.a")
    assert rule is not None
    assert rule.length == 2


def test_texts_may_be_cut_to_nothing() -> None:
    (rule,) = rules("column.truncate.to.0.chars: s.t.a")
    assert (rule.kind, rule.length) == ("truncate", 0)


def test_the_salt_is_in_no_representation() -> None:
    (rule,) = rules("column.mask.hash.SHA-1.with.salt.pepper: s.t.a")
    assert rule.salt == b"pepper"
    assert rule.of_java_object
    assert "pepper" not in repr(rule) + str(rule)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (
            "column.mask.hash.v2.ROT13.with.salt.pepper: s.t.a",
            "connector.column.mask.hash.v2.ROT13 (line 6): 'ROT13' is no digest: expected one of MD5",
        ),
        (
            "column.mask.hash.v3.MD5.with.salt.pepper: s.t.a",
            "connector.column.mask.hash.v3.MD5 (line 6): expected column.mask.hash.[v2.]ALGORITHM",
        ),
        ("column.mask.hash.MD5.salt.pepper: s.t.a", "connector.column.mask.hash.MD5 (line 6): expected column.mask"),
        ("column.mask.hash.MD5.with.salt: s.t.a", "connector.column.mask.hash.MD5 (line 6): expected column.mask"),
        ("column.mask.hash.MD5.with.salt.: s.t.a", "connector.column.mask.hash.MD5 (line 6): expected column.mask"),
        ("column.mask.hash.MD5.pepper: s.t.a", "connector.column.mask.hash.MD5 (line 6): expected column.mask"),
        ("colum.mask.hash.MD5.with.salt.pepper: s.t.a", "connector.colum.mask.hash.MD5 (line 6): unknown property"),
        ("column.msk.hsh.MD5.with.salt.pepper: s.t.a", "connector.column.msk.hsh.MD5 (line 6): unknown property"),
        ("column.mask.hash.MD5.with.salt.pepper: [[a]]", "connector.column.mask.hash.MD5 (line 6): a list may hold"),
        ("column.mask.with.3.chars: 's.t.[a'", "connector.column.mask.with.3.chars (line 6): the pattern 's.t.[a'"),
    ],
)
def test_a_rule_that_cannot_hold_is_refused_by_name_and_without_its_salt(line: str, words: str) -> None:
    assert words in refusal(line)


def refusal(*lines: str) -> str:
    with pytest.raises(ConfigurationError) as caught:
        rules(*lines)
    shown = "".join(traceback.format_exception(caught.value))
    assert "pepper" not in shown + repr(caught.value.fields)
    return shown


def test_a_rule_that_is_given_twice_or_in_the_wrong_place_is_named_without_its_salt() -> None:
    line = "column.mask.hash.v2.SHA-256.with.salt.pepper: s.t.a"
    assert "connector.column.mask.hash.v2.SHA-256 (line 7): given twice, first in line 6" in refusal(line, line)
    with pytest.raises(ConfigurationError) as caught:
        parse(f"{HEAD}lake:\n  path: lake\n{line}\n", FILE)
    assert "column.mask.hash.v2.SHA-256 (line 8): unknown section" in caught.value.problem
    assert "pepper" not in str(caught.value)


def test_every_rule_that_is_wrong_is_said_in_its_own_line() -> None:
    shown = refusal(
        "column.mask.with.3.chars: '[a'", "column.truncate.to.9.chars: b", "column.truncate.to.8.chars: '[c'"
    )
    assert "connector.column.mask.with.3.chars (line 6)" in shown
    assert "connector.column.truncate.to.8.chars (line 8)" in shown
    assert "has 2 problems" in shown


@pytest.mark.parametrize("name", ["column.mask.with.5.chars", "column.truncate.to.5.chars", "slot.name"])
def test_a_name_without_a_salt_is_shown_as_it_is(name: str) -> None:
    assert without_salt(name) == name


@pytest.mark.parametrize(("sensitive", "hidden"), [(False, "Aa"), (True, "A")])
def test_a_rule_tells_case_only_if_the_lake_says_so(sensitive: bool, hidden: str) -> None:
    lake = f"lake:\n  path: lake\n  case_sensitive_filters: {str(sensitive).lower()}\n"
    found = parse(f"{HEAD}  column.mask.with.3.chars: s.t.A\n{lake}", FILE).connector.column_masks
    assert "".join(column for column in "Aa" if first_matching(found, f"s.t.{column}")) == hidden
