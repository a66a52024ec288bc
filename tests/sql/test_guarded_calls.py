"""Calls of a user's function, written so that what it raises is a value first."""

from __future__ import annotations

import pytest

from eventide.sql.guarded_calls import with_calls_replaced


def checked(arguments: str) -> str:
    call = f"__guarded_f({arguments})"
    return f"(CASE WHEN {call}.error IS NULL THEN {call}.value ELSE raise_error({call}.error) END)"


@pytest.mark.parametrize(
    ("sql", "expected", "errors"),
    [
        ("f(k)", checked("k"), ["__guarded_f(k).error"]),
        ("1 + F(k, g(')')) > v", "1 + " + checked("k, g(')')") + " > v", ["__guarded_f(k, g(')')).error"]),
        (
            "f(f(k))",
            checked(checked("k")),
            ["__guarded_f(k).error", f"__guarded_f({checked('k')}).error"],
        ),
        ("'f(k)'", "'f(k)'", []),
        ("f + ff(k)", "f + ff(k)", []),
    ],
)
def test_calls_are_replaced_and_nothing_else(sql: str, expected: str, errors: list[str]) -> None:
    assert with_calls_replaced(sql, "f") == (expected, errors)
