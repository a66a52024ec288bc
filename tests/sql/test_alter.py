"""ALTER and KEEP STATE as statements: what is parsed, and the CREATE that an ALTER makes."""

from __future__ import annotations

import pytest

from eventide.errors import SqlError
from eventide.sql.alter import altered
from eventide.sql.parser import parse_statements
from eventide.sql.statements import Alter, CreateSource, CreateStream
from tests.sql.support import SOURCES, catalog

QUERY = "SELECT k, count(*) AS n FROM s GROUP BY k, TUMBLE(ts, INTERVAL '10' SECOND)"


def options_of(alter: str) -> Alter:
    (statement,) = parse_statements(alter)
    assert isinstance(statement, Alter)
    return statement


@pytest.mark.parametrize(
    ("create", "options", "expected"),
    [
        (
            f"CREATE STREAM o AS {QUERY}",
            "'allowed_lateness' = '1 minute'",
            f"CREATE STREAM o WITH ('allowed_lateness' = '1 minute') AS {QUERY}",
        ),
        (
            f"CREATE STREAM o WITH ('max_groups' = '5') AS {QUERY}",
            "'late.policy' = 'strict', max_groups = 7",
            f"CREATE STREAM o WITH ('max_groups' = '7', 'late.policy' = 'strict') AS {QUERY}",
        ),
        (
            f"CREATE STREAM o AS {QUERY} EMIT ON UPDATE ALLOW LATENESS INTERVAL '5' SECOND LATE DATA TO z",
            "'allowed_lateness' = '1 minute'",
            f"CREATE STREAM o AS {QUERY} EMIT ON UPDATE ALLOW LATENESS INTERVAL '1 minute' LATE DATA TO z",
        ),
        (
            "CREATE SOURCE q (k STRING, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '5' SECOND, v DECIMAL(3, 1))",
            "'watermark.lag' = '1 minute', 'idle_timeout' = '3 seconds'",
            "CREATE SOURCE q (k STRING, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '1 minute', v DECIMAL(3, 1)) "
            "WITH ('idle_timeout' = '3 seconds')",
        ),
        (
            "CREATE SOURCE q (k STRING, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms) WITH ('watermark.lag' = '1s')",
            "'watermark.lag' = '2 seconds'",
            "CREATE SOURCE q (k STRING, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms) "
            "WITH ('watermark.lag' = '2 seconds')",
        ),
        (
            f"CREATE STREAM o AS {QUERY}",
            "'side_output.late.sink' = 'metrics_only'",
            f"CREATE STREAM o WITH ('side_output.late.sink' = 'metrics_only') AS {QUERY}",
        ),
    ],
)
def test_an_alter_is_written_into_the_statement_that_made_it(create: str, options: str, expected: str) -> None:
    kind = "SOURCE" if " SOURCE " in create else "STREAM"
    statement = options_of(f"ALTER {kind} x SET ({options})")
    assert altered(create, statement.options) == expected
    for made in parse_statements(expected):
        catalog(SOURCES).apply(made)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("ALTER SINK x SET ('a' = 'b')", "expected STREAM or SOURCE, found 'SINK'"),
        ("ALTER STREAM x ('a' = 'b')", "expected SET, found '('"),
        ("ALTER STREAM x SET ('late.polcy' = 'strict')", "unknown option 'late.polcy' of a stream"),
        ("ALTER STREAM x SET ('max_groups' = '0')", "option 'max_groups' is a whole number above 0, not '0'"),
        ("ALTER STREAM x SET ('max_groups' = '1') now", "'now' is not expected here"),
        (f"CREATE STREAM x AS {QUERY} KEEP STATE", "KEEP STATE is for a stream or a source that is replaced"),
        ("CREATE OR REPLACE SINK x WITH ('connector' = 'console') KEEP STATE", "a sink keeps no state"),
    ],
)
def test_errors(sql: str, message: str) -> None:
    with pytest.raises(SqlError) as raised:
        parse_statements(sql)
    assert raised.value.message == message


@pytest.mark.parametrize("tail", ["", " EMIT ON UPDATE", " EMIT ON UPDATE ALLOW LATENESS INTERVAL '5' SECOND"])
def test_keep_state_stands_at_the_end(tail: str) -> None:
    (statement,) = parse_statements(f"CREATE OR REPLACE STREAM x AS {QUERY}{tail} KEEP STATE;")
    assert isinstance(statement, CreateStream)
    assert statement.keep_state
    assert statement.text.endswith("KEEP STATE")
    (source,) = parse_statements("CREATE OR REPLACE SOURCE q (k STRING) KEEP STATE")
    assert isinstance(source, CreateSource)
    assert source.keep_state


def test_a_catalog_with_another_text_has_its_readers_lowered_anew() -> None:
    made = catalog(f"{SOURCES}; CREATE STREAM o AS {QUERY}; CREATE STREAM p AS SELECT k, n FROM o WHERE n > 1")
    other = made.redefined("O", made.text("o").replace("count(*) AS n", "count(*) AS n, sum(v) AS total"))
    assert [output.name for output in other.streams["o"].query.outputs] == ["k", "n", "total"]
    assert made.streams["p"] != other.streams["p"]
    assert list(other.streams) == list(made.streams)
