"""Scalar expressions reach Spark in the user's own words; only columns, white space and comments change."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from eventide.plan.names import quoted
from eventide.sql.dialect import tokenize
from eventide.sql.tokens import word
from tests.sql.support import stream

UNCHANGED = [
    "CAST(v AS DECIMAL(10, 2))",
    "TRY_CAST(k AS INT)",
    "v::string",
    "date_format(t2, 'yyyy-MM-dd')",
    "to_timestamp(k, 'yyyy-MM-dd HH:mm:ss')",
    "concat(k, '-', k)",
    "k || 'x'",
    "substring(k, 1, 2)",
    "substr(k FROM 2 FOR 3)",
    "coalesce(k, 'none')",
    "nvl(k, 'none')",
    "CASE WHEN v > 1 THEN 'a' WHEN v IS NULL THEN 'b' ELSE 'c' END",
    "CASE v WHEN 1 THEN 2 END",
    "k LIKE 'a\\_%'",
    "k LIKE 'a!%' ESCAPE '!'",
    "k LIKE ANY ('a', 'b')",
    "k RLIKE '^a.*'",
    "k NOT LIKE 'a'",
    "v IN (1, 2, 3)",
    "v NOT IN (1)",
    "v BETWEEN 1 AND 2 AND k IS NOT NULL",
    "v IS DISTINCT FROM value",
    "v IS NOT DISTINCT FROM value",
    "v <=> value",
    "st.a",
    "st.b[0].x",
    "arr[0]",
    "m['k']",
    "transform(arr, x -> x + v)",
    "filter(arr, (x, i) -> x > i)",
    "aggregate(arr, 0, (acc, x) -> acc + x)",
    "exists(arr, x -> x > 1)",
    "t2 + INTERVAL '10' SECOND",
    "t2 - INTERVAL 1 DAY",
    "t2 + INTERVAL '1:30' MINUTE TO SECOND",
    "'it''s'",
    "'a\\'b\\\\c\\n'",
    "r'\\d+'",
    '"double"',
    "X'1F'",
    "1.5BD",
    "10L",
    "1.0F",
    "1e5",
    "-v",
    "-5",
    "v - -1",
    "v / 2",
    "v DIV 2",
    "v % 2",
    "~v & 1 | 2 ^ 3",
    "NOT (v > 1)",
    "!(v > 1)",
    "v != 1 AND v <> 2",
    "if(v > 1, 'a', 'b')",
    "current_timestamp()",
    "current_date",
    "now()",
    "date '2020-01-01'",
    "timestamp '2020-01-01 00:00:00'",
    "date_add(t2, 1)",
    "timestampadd(DAY, 1, t2)",
    "datediff(DAY, t2, t2)",
    "date_trunc('hour', t2)",
    "EXTRACT(YEAR FROM t2)",
    "TRIM(BOTH 'x' FROM k)",
    "POSITION('a' IN k)",
    "unix_timestamp(k)",
    "from_unixtime(v)",
    "array(1, 2)[0]",
    "array(v, 2)[v]",
    "ARRAY(k)[0]",
    "struct(k, v).k",
    "map('a', 1)['a']",
    "named_struct('a', 1).a",
    "struct(v AS a, k)",
    "element_at(m, 'k')",
    "get_json_object(k, '$.a')",
    "from_json(k, 'a INT').a",
    "regexp_extract(k, '(\\\\d+)', 1)",
    "round(value, 2)",
    "greatest(v, 1)",
    "left(k, 2)",
    "hash(k, v)",
    "my_own_function(k, v)",
    "TRUE",
    "NULL",
]


@pytest.mark.parametrize("text", UNCHANGED)
def test_expression_is_passed_on_as_written(text: str) -> None:
    assert stream(f"SELECT {text} AS x FROM s").query.outputs[0].sql == text


@pytest.mark.parametrize("text", UNCHANGED)
def test_expression_is_passed_on_into_an_aggregate_and_a_filter(text: str) -> None:
    made = stream(f"SELECT count({text}, k) AS n FROM s WHERE ({text}) IS NOT NULL GROUP BY TUMBLE(ts, '1s')").query
    assert made.aggregates[0].inputs == (text, "k")  # type: ignore[union-attr]
    assert made.input.condition == f"({text}) IS NOT NULL"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("S.V+1", "v + 1"),
        ("s.st.a", "st.a"),
        ("user", "`user`"),
        ("`ODD name`", "`odd name`"),
        ("upper ( k )", "upper(k)"),
        ("v -- one\n + /* two */ 1", "v + 1"),
        ("transform(arr, user -> user + v)", "transform(arr, user -> user + v)"),
        ("CASE WHEN end = 'a' THEN date END", "CASE WHEN `end` = 'a' THEN `date` END"),
    ],
)
def test_columns_get_their_declared_names_and_spaces_become_single(text: str, expected: str) -> None:
    assert stream(f"SELECT {text} AS x FROM s").query.outputs[0].sql == expected


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("k", "k"),
        ("s.K", "k"),
        ("st.a", "a"),
        ("sum(v)", "sum(v)"),
        ("COUNT(*)", "count(1)"),
        ("count(DISTINCT k, v)", "count(DISTINCT k, v)"),
        ("v + 1", "(v + 1)"),
        ("max(v) / 2", "(max(v) / 2)"),
        ("-v", "(- v)"),
        ("concat(k, 'a')", "concat(k, a)"),
        ("v IN (1, 2)", "v IN (1, 2)"),
        ("s.v  IN (1)", "s.v IN (1)"),
        ("min(st.a)", "min(st.a)"),
        ("min(s.v)", "min(v)"),
    ],
)
def test_outputs_without_an_alias_are_named_as_spark_names_them(text: str, name: str) -> None:
    aggregated = any(call in text.lower() for call in ("sum(", "count(", "max(", "min("))
    query = f"SELECT {text} FROM s" + (" GROUP BY TUMBLE(ts, '1s')" if aggregated else "")
    assert stream(query).query.outputs[0].name == name


def qualified(text: str) -> str:
    """The same expression with `s.` in front of every column."""
    tokens = tokenize(text)
    for index in reversed(range(len(tokens))):
        is_column = word(tokens[index]).lower() in ("v", "k", "t2", "st", "arr", "m", "value")
        if is_column and not (index and tokens[index - 1].text == "."):
            text = text[: tokens[index].start] + "s." + text[tokens[index].start :]
    return text


@pytest.mark.parametrize("text", UNCHANGED)
def test_every_column_of_an_expression_is_found(text: str) -> None:
    assert stream(f"SELECT {qualified(text)} AS x FROM s").query.outputs[0].sql == text


@given(st.text(min_size=1, max_size=20).filter(lambda name: "\x00" not in name))
def test_a_quoted_name_is_read_back_as_it_was(name: str) -> None:
    token = tokenize(f"`{name.replace('`', '``')}`" if not quoted(name).isidentifier() else quoted(name))
    assert [part.text for part in token] == [name]


@given(st.text(alphabet="ab'\\\"\n é;-/*", max_size=12))
def test_a_string_literal_is_never_changed(text: str) -> None:
    literal = "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
    assert stream(f"SELECT {literal} AS x FROM s").query.outputs[0].sql == literal
