"""Which regular expressions and patterns of LIKE tasks evaluate by themselves."""

from __future__ import annotations

import pytest

from eventide.tasks.patterns import like, regex


@pytest.mark.parametrize(
    "pattern",
    [
        "a$", r"\bword", "(?i)a", "(?=a)b", "(?<!a)b", "(?<name>a)", r"\1", "a++", "a**", "a*+", "(a*)*", "(a)*",
        "(?:a|b?)+",
        "(?:a(b))+", "^*", r"\p{L}", r"\x41", r"\R", r"\h", r"\Qa\E", r"\Z", r"\G", "[a-z&&[b]]", "[[a]]", "[]a]",
        "[a^b]",
        "[a-Z]", "[z-a]", "[+-9]", r"[\D]", "[[:alpha:]]", "[a", "(a", "a)", "a|", "|a", "()", "", "{", "a{", "a{1",
        "a{1,2}{3}",
        "a{101}", "(?:ab){2}", "*a", "é", "a\nb", "a" * 201, "a]", "a}",
    ],
)  # fmt: skip
def test_a_pattern_that_java_and_re2_might_read_differently_is_left_to_spark(pattern: str) -> None:
    assert regex(pattern) is None


def test_only_a_group_that_exists_can_be_asked_for() -> None:
    assert regex("(a)(b)", 2) is not None
    assert regex("(a)(b)", 3) is None
    assert regex("a", 0) is not None


@pytest.mark.parametrize(
    ("pattern", "may_be_empty"), [("a*", True), ("a*b", False), ("a|b?", True), ("^", True), ("a{0,2}", True)]
)
def test_a_pattern_knows_whether_it_matches_nothing_at_all(pattern: str, may_be_empty: bool) -> None:
    found = regex(pattern)
    assert found is not None and found.may_be_empty is may_be_empty


@pytest.mark.parametrize("pattern", ["a\\b", "a\\"])
def test_like_takes_an_escape_only_of_what_needs_one(pattern: str) -> None:
    assert like(pattern) is None
