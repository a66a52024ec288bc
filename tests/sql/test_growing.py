"""Which expressions are suspected when memory runs out."""

from __future__ import annotations

import pytest

from eventide.plan.growing import growing
from eventide.plan.planner import plan
from tests.sql.support import stream


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT k, size(sequence(1, v)) AS n FROM s WHERE upper(k) <> 'X'", ["size(sequence(1, v))"]),
        ("SELECT k FROM s WHERE length(repeat(k, v)) > 1", ["length(repeat(k, v)) > 1"]),
        ("SELECT upper(k) AS u FROM s WHERE v > 1", ["upper(k)"]),
        ("SELECT k FROM s WHERE v + 1 > 1", []),
    ],
)
def test_what_makes_much_of_little_comes_first(query: str, expected: list[str]) -> None:
    assert growing(plan(stream(query))) == expected
