"""Patterns mean what Java says they mean: Spark's RLIKE, which is java.util.regex, is the oracle."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as F

from walhouse.config.java_regex import PatternError, compile_pattern

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAMES = [
    "public.orders",
    "Public.Orders",
    "public.orders_2",
    "públic.ÖRDERS",
    "a-b.c d",
    "a[1].b",
    "x.",
    "ſ.K",
    "shop.a|b",
]

PATTERNS = [
    r"public\.orders",
    r"public\..*",
    r"PUBLIC\.(?<kind>orders)(_\d)?",
    r"(?i)public.*",
    r"\Qa[1]\E\.b",
    r"\Qa-b.\Ec.d",
    r"[a-z]+\.\w++",
    r"(?>pub|public)\.orders",
    r"[^.]+[.]\S+",
    r"(?<x>.)\.(?:\k<x>|.*)",
    r".*\z",
    r".*\Z",
    r"(?-i:public).*",
    r"(?=public).*(?<!2)",
    r"p[uú]blic\.[öo]rders",
    r"[\w&-]+\.[|a~b]+",
    r"\x70ublic\.orders",
    "s.k",
    r".{2,}",
    r".*s?+",
    r"\S+\.\S+",
    r"[\x41-\u005a]+\..*",
    r"(?i)PUBLIC\.ORDERS|a.*",
    r"p(?i)UBLIC\.Orders|A-B\.C D",
    r"Public\.(o(?i)RDERS|O(?i)RDERS_2)",
    r"(P(?i)UBLIC|SHOP)\.Orders",
    r"(?:(?i)P|s)[a-z]+\..*",
]


def agrees_with_java(spark: SparkSession, pairs: list[tuple[str, str]]) -> None:
    frame = spark.createDataFrame(pairs, "pattern string, name string")
    without_case = F.expr("name RLIKE concat('(?i)^(?:', pattern, ')$')").alias("without_case")
    with_case = F.expr("name RLIKE concat('^(?:', pattern, ')$')").alias("with_case")
    for row in frame.select("pattern", "name", without_case, with_case).collect():
        ours = compile_pattern(row.pattern).fullmatch(row.name) is not None
        assert ours == row.without_case, f"{row.pattern!r} on {row.name!r}"
        ours = compile_pattern(row.pattern, case_sensitive=True).fullmatch(row.name) is not None
        assert ours == row.with_case, f"{row.pattern!r} on {row.name!r}, with case"


@pytest.mark.spark
def test_patterns_match_what_java_matches(spark: SparkSession) -> None:
    agrees_with_java(spark, [(pattern, name) for pattern in PATTERNS for name in NAMES])


PIECES = [
    *"aAzZk.Ö_1-|~&,#^$",
    r"\.", r"\d", r"\W", r"\s", r"\-", r"\_", r"\b", r"\x61", r"\u006b", r"\Qa.b\E", r"\1", r"\k<n>",
    r"\p{L}", r"\R", r"\h", r"\v", r"\0101",
    "[a-z]", "[^a]", "[a&&b]", "[a[b]]", "[]a]", "[a-]", r"[\d.]", "[--a]", "[a|~b]", "[+--]", r"[\]]", "[&&a]",
    r"[\Q-]\E]",
    "(", ")", "(?:", "(?=", "(?!", "(?>", "(?<n>", "(?P<n>", "(?<=a)", "(?<!a*)",
    "(?i)", "(?i:", "(?-i:", "(?s:", "(?x)",
    "*", "+", "?", "*+", "??", "{2}", "{1,}", "{,2}", "{", "}", "{0,1}+",
]  # fmt: skip


@pytest.mark.spark
@settings(
    max_examples=6,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # each example is a query: shrinking takes minutes
)
@given(st.lists(st.lists(st.sampled_from(PIECES), min_size=1, max_size=7).map("".join), min_size=120, max_size=200))
def test_a_pattern_that_is_taken_means_the_same_to_java(spark: SparkSession, patterns: list[str]) -> None:
    taken = []
    for pattern in patterns:
        try:
            compile_pattern(pattern)
        except PatternError:
            continue
        taken.append(pattern)
    names = ["a", "aK", "k.a.b", "zÖ1-", "a|b~&,#_", "", "ſk", "{2}", "]a["]
    agrees_with_java(spark, [(pattern, name) for pattern in taken for name in names])


@pytest.mark.parametrize(
    "pattern",
    [
        r"\p{L}+", "[a-z&&[^b]]", "[a[b]]", "[]a]", "[^]a]", "[--a]", r"[\b]", "[a",
        r"\R", r"\h", r"\v", r"\X", r"\G", r"\0101", r"\cA", r"\N{DOT}", r"\x{41}", r"\y", r"\1", r"\k<missing>", "a\\",
        "(?x)a", "(?u)a", "(?P<n>a)", "(?P=n)", "(?#c)", "(a)(?(1)b)", "a(?i)+", "(?<=a*)b", "(", "a)",
        "a{,3}", "{", "a{b", "*",
    ],
)  # fmt: skip
def test_what_python_would_read_differently_is_refused(pattern: str) -> None:
    with pytest.raises(PatternError):
        compile_pattern(pattern)


def test_a_refusal_names_the_place() -> None:
    with pytest.raises(PatternError, match=r"'\\p' at character 3 has no equal"):
        compile_pattern(r"ab\p{L}")
