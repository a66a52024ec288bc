import decimal
from typing import Any

import pytest

from eventide.testing.expressions import UnsupportedExpressionError, evaluate, holds

ROW = {"a": 7, "b": 2, "x": 1.5, "k": "Ab", "n": None, "ok": True, "d": {"Y": "p"}}


@pytest.mark.parametrize(
    ("sql", "value"),
    [
        ("a + b * 2", 11),
        ("(a - b) % 3", 2),
        ("-a % 3", -1),
        ("a / b", 3.5),
        ("a / 0", None),
        ("a div b", 3),
        ("a + n", None),
        ("A + x", 8.5),
        ("upper(k)", "AB"),
        ("a > b AND k = 'Ab'", True),
        ("n > 1 OR ok", True),
        ("n > 1 AND ok", None),
        ("n > 1 AND a < b", False),
        ("NOT a = 7", False),
        ("n IS NULL", True),
        ("a IS NOT NULL", True),
        ("a BETWEEN 1 AND 7", True),
        ("a IN (1, 7)", True),
        ("a IN (1, NULL)", None),
        ("CASE WHEN a < b THEN 1 WHEN ok THEN 2 END", 2),
        ("CASE WHEN a < b THEN 1 END", None),
        ("coalesce(n, a)", 7),
        ("round(a / 3, 2)", 2.33),
        ("cast(a AS STRING)", "7"),
        ("CAST('x' AS INT)", None),
        ("d.y", "p"),
        ("1.25", decimal.Decimal("1.25")),
    ],
)
def test_an_expression_has_the_value_that_spark_gives_it(sql: str, value: Any) -> None:
    assert evaluate(sql, ROW) == value


def test_a_condition_that_is_null_does_not_hold() -> None:
    assert not holds("n > 1", ROW)


@pytest.mark.parametrize("sql", ["sha2(k, 256)", "k + 1", "k > 1", "missing", "a + INTERVAL 1 DAY"])
def test_what_the_model_does_not_know_is_refused(sql: str) -> None:
    with pytest.raises(UnsupportedExpressionError):
        evaluate(sql, ROW)
