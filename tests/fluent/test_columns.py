"""Columns of PySpark in the fluent API: the SQL that they become."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest

from eventide.errors import OptionError, SqlError
from eventide.fluent import tumble
from eventide.plan.difference import canonical
from eventide.spark.column_sql import column_sql
from tests.fluent.support import clicks, sql_over


@pytest.fixture
def F(keep_spark: Any) -> Any:
    from pyspark.sql import functions

    return functions


def test_a_column_becomes_the_sql_that_says_the_same(F: Any) -> None:
    v, k = F.col("v"), F.col("k")
    expected = {
        "v": v,
        "st.`b c`": F.col("st.`b c`"),
        "`odd name`": F.col("`odd name`"),
        "`a``b`": F.col("`a``b`"),
        "(v > 0)": v > 0,
        "((v > 0) AND (k = 'it\\'s'))": (v > 0) & (k == "it's"),
        "(NOT (v > 0))": ~(v > 0),
        "(-v)": -v,
        "(v * 2) AS `x y`": (v * 2).alias("x y"),
        "CASE WHEN (v > 1) THEN 'a' ELSE 'b' END": F.when(v > 1, "a").otherwise("b"),
        "CAST(v AS STRING)": v.cast("string"),
        "(k IN ('a', 'b'))": k.isin("a", "b"),
        "(k LIKE 'a%')": k.like("a%"),
        "arr[0]": F.col("arr")[0],
        "v + 1": F.expr("v + 1"),
        "concat_ws('-', k, k)": F.concat_ws("-", "k", "k"),
        "DATE '2024-01-02'": F.lit(dt.date(2024, 1, 2)),
        "timestamp_micros(1704153600000001)": F.lit(dt.datetime(2024, 1, 2, 0, 0, 0, 1, dt.UTC)),
        "1.50BD": F.lit(Decimal("1.50")),
        "NULL": F.lit(None),
        "true": F.lit(True),
        "count(DISTINCT k, v)": F.count_distinct("k", "v"),
        "count(*)": F.count("*"),
        "first(v, true)": F.first("v", ignorenulls=True),
        "v DESC": v.desc(),
    }
    assert {sql: column_sql(column, "here") for sql, column in expected.items()} == {sql: sql for sql in expected}


def test_columns_and_text_give_equal_plans(F: Any) -> None:
    fluent = (
        clicks()
        .where(F.col("v") > 0)
        .group_by(F.upper("k").alias("u"))
        .window(tumble("10 seconds", on=F.col("at")))
        .agg(F.sum("v").alias("total"), n=F.count("*"))
        .having(F.col("n") > 1)
    )
    sql = """SELECT window_start, window_end, upper(k) AS u, sum(v) AS total, count(*) AS n FROM clicks WHERE (v > 0)
        GROUP BY upper(k), TUMBLE(at, INTERVAL '10' SECOND) HAVING (n > 1)"""
    assert canonical(fluent.plan()) == canonical(sql_over(fluent, sql))


def test_what_has_no_form_in_sql_is_refused(F: Any) -> None:
    from pyspark.sql import Window

    with pytest.raises(OptionError, match=r"where\(\): .* has no form in SQL"):
        clicks().where(F.udf(lambda value: value > 1, "boolean")(F.col("v")))
    with pytest.raises(OptionError, match="has no form in SQL"):
        clicks().select(F.row_number().over(Window.partitionBy("k").orderBy("ts")))
    with pytest.raises(OptionError, match=r"where\(\) takes SQL text or a Column of PySpark, not 5"):
        clicks().where(5)  # type: ignore[arg-type]
    with pytest.raises(SqlError, match="there is no column nope"):
        clicks().select(F.col("nope")).plan()
