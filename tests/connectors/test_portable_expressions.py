"""Expressions that tasks evaluate by themselves mean what they mean to Spark; what might not is left to Spark."""

from __future__ import annotations

import math
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from eventide.tasks.date_format import PATTERNS
from eventide.tasks.expressions import evaluate
from eventide.tasks.portable import portable, source_names

EVERY_ERA = [
    -62_200_000_000_000_000,
    None,
    -1,
    0,
    86_399_999_999,
    10**15 + 1,
    -62_135_596_800_000_001,
    -62_135_596_800_000_000,
    253_402_300_800_000_000,
]
DECIMALS = [
    "1.5", "-0.05", "0.908 * k", "k * 10.00", "i + 0.5", "0.1 - k", "1.5 - 0.25", "1.5 * i * 0.3", "i - 123.456 + k",
    "c * i", "c + 0.001", "k - c", "coalesce(c, c)",
]  # fmt: skip
EXPRESSIONS = [
    "k", "k + i", "k - 3000000000", "k * k", "i * i", "i + 2147483647", "k / i", "k % i", "i % 3", "-i", "-k",
    "abs(i)", "d + i",
    "d * 2", "d / 0", "i / 4",
    "k > i", "k >= 3", "d > 1.5", "d <= k", "d = d", "d <> 0", "d < d", "s = 'b'", "s < t", "s >= 'é'", "b", "NOT b",
    "b AND k > 0",
    "b OR d > 0",
    "(b OR k > 0) AND NOT (i = 2 OR s = 'a')", "k IS NULL", "s IS NOT NULL", "k BETWEEN -1 AND i",
    "d BETWEEN 0 AND 1.5",
    "k IN (1, 2, 3)", "s IN ('a', 'é')",
    "d IN (1, 2.5)", "k <=> i", "d <=> d", "b <=> true", "CASE WHEN b THEN k ELSE i END",
    "CASE WHEN k > 1 THEN 'x' WHEN b THEN s ELSE t END",
    "IF(b, 1, k)", "COALESCE(k, i)", "COALESCE(s, t, 'none')", "COALESCE(d, k)", "length(s)", "trim(t)",
    "concat(s, '-', t)", "s || t",
    "substring(s, 2, 3)",
    "startswith(t, ' ')", "endswith(s, 'b')", "contains(s, 'é')", "CAST(k AS INT)", "CAST(k AS SMALLINT)",
    "CAST(i AS BIGINT)",
    "CAST(k AS DOUBLE)",
    "CAST(k AS STRING)", "CAST(i AS TINYINT)", "1", "'text'", "2.5e0", "true", "k = 9223372036854775807", "p > q",
    "p = p", "p IS NULL", "hour(p)", "hour(y)", "split_part(s, 'b', 1)", "split_part(t, 'a', 2)",
    "CASE WHEN k > 1 THEN 1 END", "CASE WHEN b THEN s WHEN i = 1 THEN t END", "CASE WHEN b THEN NULL ELSE k END",
    "CASE i WHEN 1 THEN 'one' WHEN k THEN 'k' ELSE s END", "CASE s WHEN 'a' THEN NULL WHEN t THEN d END",
    "CASE d WHEN 0 THEN 1 WHEN 1.5 THEN 2 END", "CASE WHEN 0.908 * k > i THEN 1 ELSE 2 END",
    "k > 0.5", "0.908 * k > 1000000 AND 0.908 * k < 50000000", "c = 1.25", "c < 3", "1.50 = c", "c <=> 1.25", "k = 1.0",
    "c BETWEEN -1 AND 1.25", "i NOT BETWEEN 0 AND 2.5", "0.908 * k = 0.908 * i", "nullif(k, 1)", "nullif(s, t)",
    "d * -0e0 <=> d * 0e0", "k NOT IN (1, i)", "NOT (s <=> t) AND b",
    "split_part('a/b', '/', 2)", "split_part(s, 'é', 3)",
    *(f"date_format(y, '{pattern}')" for pattern in PATTERNS),
]  # fmt: skip
WITHOUT = [
    "k * 1.5", "s = k", "date_add(p, 1)", "CAST(s AS BIGINT)", "CAST(d AS BIGINT)", "rand()",
    "s LIKE t", "s LIKE 'a\\\\b'", "s LIKE 'a%' ESCAPE '/'", "s ILIKE 'a%'", "replace(s, '', 'x')",
    "replace(s, t, 'x')",
    "substring(s, -2, 1)", "substring(s, 0)", "extract(SECOND FROM p)", "extract(WEEK FROM p)", "year(s)",
    "s RLIKE 'a$'", "s RLIKE '(?i)a'", "regexp_replace(s, 'a*', 'x')", "regexp_replace(s, '(a)', '$1')",
    "regexp_extract(s, '(a)', 2)", "regexp_extract(s, 'a')", "CASE k WHEN 'a' THEN 1 END", "CASE WHEN b THEN NULL END",
    "trim(BOTH 'x' FROM s)", "nullif(k, s)", "d % 2", "x",
    "date_format(p, 'YYYY')", "date_format(p, s)", "split_part(s, '', 1)",
    "split_part(s, 'b', -1)",
    "other(p, 'yyyy')", "hour(s)",
]  # fmt: skip


def test_portable_expressions_mean_what_they_mean_to_spark(keep_spark: Any) -> None:
    from eventide.spark.session import frame_of, streaming_session

    chance = random.Random(5)
    pick = chance.choice
    count = 500
    table = pa.table(
        {
            "k": pa.array(
                [pick([None, 0, 1, -1, 2, 7, 2**63 - 1, -(2**63), 123456789]) for _ in range(count)], pa.int64()
            ),
            "i": pa.array([pick([None, 0, 1, -1, 2, 3, 2**31 - 1, -(2**31)]) for _ in range(count)], pa.int32()),
            "d": pa.array(
                [pick([None, 0.0, -0.0, 1.5, 2.5, -3.25, 1e308, math.nan, math.inf]) for _ in range(count)],
                pa.float64(),
            ),
            "s": pa.array([pick([None, "", "a", "b", "ab", "é", "zéb", "ß😀b"]) for _ in range(count)], pa.string()),
            "t": pa.array([pick([None, " a ", "b", "  ", "é"]) for _ in range(count)], pa.string()),
            "b": pa.array([pick([None, True, False]) for _ in range(count)], pa.bool_()),
            "p": pa.array([pick([None, 0, 10**15]) for _ in range(count)], pa.timestamp("us", tz="UTC")),
            "q": pa.array([pick([None, 0, 5 * 10**14]) for _ in range(count)], pa.timestamp("us", tz="UTC")),
            "c": pa.array(
                [pick([None, Decimal("0.00"), Decimal("-99999999.99"), Decimal("1.25")]) for _ in range(count)]
            ).cast(pa.decimal128(10, 2)),
            "y": pa.array([pick(EVERY_ERA) for _ in range(count)], pa.timestamp("us", tz="UTC")),
        }
    )
    types = {
        "k": "bigint",
        "i": "int",
        "d": "double",
        "s": "string",
        "t": "string",
        "b": "boolean",
        "p": "timestamp",
        "q": "timestamp",
        "c": "decimal(10,2)",
        "y": "timestamp",
    }
    session = streaming_session(keep_spark, 2)
    frame = frame_of(session, table)
    every = [*EXPRESSIONS, *DECIMALS]
    wanted = frame.selectExpr(*[f"{sql} AS c{number}" for number, sql in enumerate(every)])
    answers = wanted.toArrow()
    for number, sql in enumerate(every):
        expression = portable(sql, source_names(types), decimals=sql in DECIMALS)
        assert wanted.schema[number].dataType.simpleString() == expression.type, sql
        assert repr(evaluate(expression, table).to_pylist()) == repr(answers[f"c{number}"].to_pylist()), sql


@pytest.mark.parametrize("sql", WITHOUT)
def test_what_only_spark_can_judge_is_not_portable(sql: str) -> None:
    from eventide.tasks.portable import NotPortableError

    with pytest.raises(NotPortableError):
        portable(sql, source_names({"k": "bigint", "d": "double", "s": "string", "t": "string", "p": "timestamp"}))


@pytest.mark.parametrize(
    "sql",
    ["k * 1.5 * k * k", "0.5 * 2", "k / 1.5", "k % 0.5", "d * c", "c IN (1.5)", "c > d", "0.00000000000000000001 > k"],
)
def test_decimals_of_which_spark_might_lose_digits_are_not_portable(sql: str) -> None:
    from eventide.tasks.portable import NotPortableError

    with pytest.raises(NotPortableError):
        portable(sql, source_names({"k": "bigint", "d": "double", "c": "decimal(10,2)"}), decimals=True)
