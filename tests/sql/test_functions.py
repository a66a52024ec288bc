"""Functions that nobody has, found without Spark; and calls into the JVM, which need leave."""

from __future__ import annotations

import pytest

from eventide.errors import SqlError
from eventide.sql.catalog import Catalog
from eventide.sql.dialect import tokenize
from eventide.sql.functions import check_known, refuse_jvm_calls_in
from eventide.sql.parser import parse_statements
from eventide.sql.statements import CreateSink, CreateSource, CreateStream
from eventide.sql.tokens import Span

REFLECT = "CREATE SOURCE s (k STRING); CREATE STREAM o AS SELECT reflect('a', 'b') AS x FROM s"


def check(sql: str, *others: str) -> None:
    for statement in parse_statements(sql):
        assert isinstance(statement, CreateSource | CreateStream | CreateSink)
        check_known(statement, others)


def test_an_unknown_function_is_an_error_at_its_place() -> None:
    with pytest.raises(SqlError, match="there is no function upperr") as raised:
        check("CREATE STREAM o AS SELECT k, upperr(k) AS x FROM s")
    assert raised.value.sql[raised.value.start : raised.value.end] == "upperr(k)"
    assert raised.value.help == (
        "did you mean upper? if it is registered on the Spark session, say so: --function upperr"
    )
    with pytest.raises(SqlError, match="there is no function f"):
        check("CREATE SOURCE s (ts TIMESTAMP, WATERMARK FOR ts AS f(ts))")
    check("CREATE STREAM o AS SELECT My_Own(k) AS x FROM s", "my_own")


def test_a_function_that_needs_over_is_refused() -> None:
    with pytest.raises(SqlError, match="lag needs OVER"):
        check("CREATE STREAM o AS SELECT lag(v) AS x FROM s")
    check("CREATE STREAM o AS SELECT row_number() OVER (PARTITION BY k ORDER BY v) AS x FROM s")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT (v + 1) * 2 AS x, count(*) FROM s WHERE v IN (1, 2) AND NOT (v > 1) GROUP BY v, TUMBLE(ts, '1s')",
        "SELECT CAST(v AS DECIMAL(10, 2)) AS x, try_cast(k AS INT), EXTRACT(DAY FROM t2) AS d FROM s",
        "SELECT TUMBLE_START(ts, '1s') AS a, median(v) AS m FROM s GROUP BY TUMBLE(ts, '1s')",
        "SELECT count(*) FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), '1s')) GROUP BY window_start, window_end",
        "WITH a AS (SELECT * FROM s) SELECT k FROM (SELECT * FROM a UNION ALL (SELECT * FROM a))",
        "SELECT count(*) FROM STREAM(s) WATERMARK(ts, '1s') WINDOW TUMBLING (ON ts, SIZE '1s')",
        "SELECT * EXCEPT (k) FROM s",
        "SELECT transform(arr, (x, i) -> x + i) AS a, CASE WHEN (v > 1) THEN (1) ELSE (2) END AS b FROM s",
    ],
)
def test_what_spark_or_eventide_has_is_known(query: str) -> None:
    check(f"CREATE STREAM o AS {query}")


def test_calls_into_the_jvm_need_leave_also_when_a_checkpoint_has_them() -> None:
    with pytest.raises(SqlError, match="reflect runs code of the JVM"):
        Catalog.from_texts([REFLECT])
    kept = Catalog.from_texts([REFLECT], allow_jvm_calls=True)
    assert kept.copy().without("o").apply(parse_statements(REFLECT)[1])


@pytest.mark.parametrize("sql", ["SELECT java_method('a', 'b')", "SELECT TRANSFORM (k) USING 'cat' AS (x) FROM o"])
def test_a_query_over_results_is_held_to_it_too(sql: str) -> None:
    with pytest.raises(SqlError, match="not allowed"):
        refuse_jvm_calls_in(Span(sql, tuple(tokenize(sql))))


def test_a_column_called_reflect_is_no_call() -> None:
    Catalog.from_texts(["CREATE SOURCE s (reflect STRING); CREATE STREAM o AS SELECT reflect FROM s"])
