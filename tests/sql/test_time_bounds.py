"""Bounds between two times: whatever the spelling, the range that is read holds for exactly the same pairs."""

from __future__ import annotations

import random
import re

import pytest

from eventide.plan.joins import Interval
from eventide.plan.logical import Join
from eventide.sql.conjuncts import conjuncts
from eventide.sql.dialect import tokenize
from eventide.sql.tokens import Span
from tests.sql.support import JOIN_SOURCES, stream

LIMIT = 1_000  # beyond all numbers that are made here
OPERATORS = ("<", "<=", ">", ">=", "=")


def offset(chance: random.Random) -> str:
    """Nothing, or an interval of a few microseconds that is added or subtracted."""
    number = chance.randint(0, 5)
    sign, spelling = chance.choice("+-"), chance.choice(["INTERVAL '{}' MICROSECOND", "INTERVAL {} MICROSECONDS"])
    return chance.choice(["", f" {sign} {spelling.format(number)}"])


def condition(chance: random.Random) -> str:
    """A condition on l.ts and r.ts, in one of the ways in which people write it."""
    one, other = chance.sample(["l.ts", "r.ts"], 2)
    first, second, third = (offset(chance) for _ in range(3))
    limit = f"INTERVAL '{chance.randint(0, 6)}' MICROSECOND"
    return chance.choice(
        [
            f"{one}{first} {chance.choice(OPERATORS)} {other}{second}",
            f"({one}{first}) - {other} {chance.choice(OPERATORS)} {limit}",
            f"-({one} - ({other}{first})) {chance.choice(OPERATORS)} -{limit}",
            f"{limit} {chance.choice(OPERATORS)} {one} - {other}",
            f"{one}{first} BETWEEN {other}{second} AND {other}{third}",
            f"{one} - {other} BETWEEN INTERVAL '-{chance.randint(0, 6)}' MICROSECOND AND {limit}",
            f"abs({one}{first} - {other}) {chance.choice(['<', '<='])} {limit}",
            f"{limit} {chance.choice(['>', '>='])} abs({one} - {other})",
        ]
    )


def holds(sql: str, left: int, right: int) -> bool:
    """The condition for two times, by Python's own arithmetic."""
    text = re.sub(r"INTERVAL '?(-?\d+)'? MICROSECONDS?", r"(\1)", sql)
    text = re.sub(r"^(.*) BETWEEN (.*) AND (.*)$", r"(\2) <= (\1) <= (\3)", text)
    text = re.sub(r"(?<![<>=])=(?!=)", "==", text).replace("l.ts", str(left)).replace("r.ts", str(right))
    return bool(eval(text, {"abs": abs}))


@pytest.mark.parametrize("seed", range(300))
def test_the_range_holds_for_the_same_pairs(seed: int) -> None:
    chance = random.Random(seed)
    sql = condition(chance)
    wide = f"r.ts BETWEEN l.ts - INTERVAL '{LIMIT}' MICROSECOND AND l.ts + INTERVAL '{LIMIT}' MICROSECOND"
    expected = [difference for difference in range(-40, 41) if holds(sql, 100, 100 + difference)]
    parts = [f"l.k = r.k AND {sql}", wide]
    chance.shuffle(parts)
    query = f"SELECT v FROM l JOIN r ON {parts[0]} WHERE {parts[1]}"
    if not expected:
        with pytest.raises(Exception, match="no two rows can meet"):
            stream(query, JOIN_SOURCES)
        return
    made = stream(query, JOIN_SOURCES).query
    assert isinstance(made, Join) and isinstance(made.bound, Interval)
    found = [difference for difference in range(-40, 41) if made.bound.lower <= difference <= made.bound.upper]
    assert found == expected
    assert made.condition is None and made.where is None and made.left.keys == ("k",)


@pytest.mark.parametrize(
    ("sql", "parts"),
    [
        ("a AND b AND c", ["a", "b", "c"]),
        ("(a AND (b) AND (c OR d))", ["a", "b", "c OR d"]),
        ("a OR b AND c", ["a OR b AND c"]),
        ("a BETWEEN 1 AND 2 AND b NOT BETWEEN 3 AND 4", ["a BETWEEN 1 AND 2", "b NOT BETWEEN 3 AND 4"]),
        ("a AND b BETWEEN c AND d", ["a", "b BETWEEN c AND d"]),
        ("CASE WHEN a AND b THEN c END AND d", ["CASE WHEN a AND b THEN c END", "d"]),
        ("NOT a AND NOT (b AND c)", ["NOT a", "NOT (b AND c)"]),
        ("exists(x, e -> e > 1 AND e < 3) AND end", ["exists(x, e -> e > 1 AND e < 3)", "end"]),
        ("a = 'x AND y' AND b", ["a = 'x AND y'", "b"]),
    ],
)
def test_conditions_are_taken_apart_at_the_ands_that_connect_them(sql: str, parts: list[str]) -> None:
    assert [part.text for part in conjuncts(Span(sql, tuple(tokenize(sql))))] == parts
