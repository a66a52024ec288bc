"""Statements: how a text is split, and what each statement says."""

from __future__ import annotations

import pytest

from eventide.eventtime.registry import event_time_types
from eventide.plan.logical import Column, Dedup, EventTime, Source
from eventide.sql.lower_source import lower_sink, lower_source
from eventide.sql.parser import parse_statements
from eventide.sql.statements import CreateSink, CreateSource, CreateStream, Describe, Drop, Explain, Select, Show


def only(sql: str) -> object:
    statements = parse_statements(sql)
    assert len(statements) == 1
    return statements[0]


def create(sql: str) -> CreateSource:
    statement = only(sql)
    assert isinstance(statement, CreateSource)
    return statement


def source(sql: str) -> Source:
    return lower_source(create(sql))


@pytest.mark.parametrize("text", ["", "  \n", ";", " ; ;", "-- nothing\n", "/* nothing */ ;"])
def test_a_text_without_statements_gives_none(text: str) -> None:
    assert parse_statements(text) == []


def test_each_statement_keeps_its_own_text_exactly() -> None:
    text = "-- first\nCREATE SOURCE a (x INT) ; SHOW\n  SOURCES;SELECT ';' AS x FROM o -- last"
    assert [statement.text for statement in parse_statements(text)] == [
        "CREATE SOURCE a (x INT)",
        "SHOW\n  SOURCES",
        "SELECT ';' AS x FROM o",
    ]


def test_keywords_are_read_in_any_case() -> None:
    made = create(
        "create or replace source Clicks (Id string, event time Id type ISO8601) with ('CONNECTOR' = 'Embedded')"
    )
    assert made.or_replace
    assert made.name == "Clicks"
    assert lower_source(made).event_time == EventTime("Id", "iso8601")


def test_a_source_with_everything() -> None:
    made = create(
        """CREATE SOURCE IF NOT EXISTS clicks (id STRING, ts BIGINT, user STRING, amount DOUBLE,
             EVENT TIME ts TYPE unixtimestamp_ms,
             WATERMARK FOR ts AS ts - INTERVAL '5' SECOND,
             DEDUPLICATE BY id, user WITHIN INTERVAL '10' MINUTE)
           WITH ('connector' = 'files', 'path' = '/data', 'format' = 'CSV', 'header' = TRUE, 'delimiter' = ';',
                 'idle_timeout' = '30 seconds', 'max_future_skew' = '1 hour', 'max_files_per_batch' = 5)"""
    )
    assert made.if_not_exists
    source = lower_source(made)
    assert source.columns == (
        Column("id", "string"),
        Column("ts", "bigint"),
        Column("user", "string"),
        Column("amount", "double"),
    )
    assert source.event_time == EventTime("ts", "unixtimestamp_ms")
    assert source.watermark_lag == 5_000_000
    assert source.dedup == Dedup(("id", "user"), 600_000_000)
    assert (source.idle_timeout, source.max_future_skew) == (30_000_000, 3_600_000_000)
    assert source.connector == "files"
    assert source.options == {
        "format": "csv",
        "header": "true",
        "max_files_per_batch": "5",
        "path": "/data",
        "sep": ";",
    }


@pytest.mark.parametrize(
    ("declared", "type_name"),
    [
        ("INTEGER", "int"),
        ("long", "bigint"),
        ("DECIMAL(10,2)", "decimal(10,2)"),
        ("NUMERIC(5)", "decimal(5,0)"),
        ("DECIMAL", "decimal(10,0)"),
        ("TIMESTAMP_NTZ", "timestamp_ntz"),
        ("ARRAY<ARRAY<INT>>", "array<array<int>>"),
        ("MAP<STRING, ARRAY<DOUBLE>>", "map<string,array<double>>"),
        (
            "STRUCT<userId: INT, `odd name`: STRING, tags ARRAY<STRING>>",
            "struct<userId:int,`odd name`:string,tags:array<string>>",
        ),
    ],
)
def test_types_are_written_as_spark_writes_them(declared: str, type_name: str) -> None:
    assert source(f"CREATE SOURCE a (x {declared})").columns == (Column("x", type_name),)


@pytest.mark.parametrize(
    "name",
    [
        "user",
        "end",
        "start",
        "value",
        "ts",
        "op",
        "window",
        "timestamp",
        "date",
        "event",
        "watermark",
        "`a b`",
        '"c d"',
    ],
)
def test_columns_may_have_the_names_of_keywords(name: str) -> None:
    made = source(f"CREATE SOURCE a ({name} TIMESTAMP, EVENT TIME {name} TYPE spark)")
    assert made.columns[0].name == name.strip('`"')
    assert made.event_time == EventTime(name.strip('`"'), "spark")


def test_event_time_and_lag_by_options() -> None:
    made = source(
        """CREATE SOURCE a (x BIGINT)
           WITH ('eventtime.column' = 'X', 'eventtime.type' = 'unixtimestamp', 'eventtime.lateTolerance' = '7s')"""
    )
    assert made.event_time == EventTime("x", "unixtimestamp_s")
    assert made.watermark_lag == 7_000_000


def test_a_watermark_makes_a_timestamp_column_the_event_time() -> None:
    made = source("CREATE SOURCE a (x TIMESTAMP, WATERMARK FOR x AS x)")
    assert (made.event_time, made.watermark_lag) == (EventTime("x", "spark"), 0)


def test_a_custom_event_time_type_can_be_used_once_it_is_registered() -> None:
    event_time_types.register("roman_numerals", lambda value: value)
    made = source("CREATE SOURCE a (x STRING, EVENT TIME x TYPE roman_numerals)")
    assert made.event_time == EventTime("x", "roman_numerals")


def test_rate_has_columns_and_event_time_of_its_own() -> None:
    made = source("CREATE SOURCE a WITH ('connector' = 'rate', 'rows_per_second' = '5')")
    assert made.columns == (Column("timestamp", "timestamp"), Column("value", "bigint"))
    assert made.event_time == EventTime("timestamp", "spark")
    assert made.options == {"rows_per_second": "5"}


def test_a_sink_reads_a_stream_or_its_late_rows() -> None:
    made = only("CREATE SINK out FROM per_user$late WITH ('connector' = 'files', 'path' = '/out')")
    assert isinstance(made, CreateSink)
    sink = lower_sink(made)
    assert (sink.stream, sink.connector) == ("per_user$late", "files")
    assert sink.options == {"format": "json", "path": "/out"}


def test_the_small_statements() -> None:
    drop, show, describe, explain = parse_statements("DROP STREAM IF EXISTS o; SHOW TABLES; DESC x$late; EXPLAIN o")
    assert isinstance(drop, Drop) and (drop.kind, drop.name, drop.if_exists) == ("stream", "o", True)
    assert isinstance(show, Show) and show.what == "tables"
    assert isinstance(describe, Describe) and describe.name == "x$late"
    assert isinstance(explain, Explain) and explain.name == "o"


@pytest.mark.parametrize(
    "sql",
    [
        "EXPLAIN SELECT k FROM s",
        "EXPLAIN CREATE STREAM o AS SELECT k FROM s",
        "EXPLAIN WITH a AS (SELECT k FROM s) SELECT * FROM a",
    ],
)
def test_explain_of_a_query_holds_the_query(sql: str) -> None:
    explain = only(sql)
    assert isinstance(explain, Explain)
    assert isinstance(explain.stream, CreateStream)


@pytest.mark.parametrize(
    ("sql", "tables", "spark_sql"),
    [
        ("SELECT * FROM o", ("o",), None),
        (
            "SELECT * FROM o$late AS l JOIN p ON l.a = p.a",
            ("o$late", "p"),
            "SELECT * FROM `o$late` AS l JOIN p ON l.a = p.a",
        ),
        ("WITH x AS (SELECT * FROM o) SELECT * FROM x, p y WHERE a IS DISTINCT FROM b", ("o", "p"), None),
        ('SELECT EXTRACT(YEAR FROM t) AS "y" FROM (SELECT t FROM `o$late`)', ("o$late",), None),
        ("SELECT 1", (), None),
    ],
)
def test_an_ad_hoc_query_says_what_it_reads(sql: str, tables: tuple[str, ...], spark_sql: str | None) -> None:
    select = only(sql)
    assert isinstance(select, Select)
    assert select.tables == tables
    assert select.spark_sql == (spark_sql or sql)


def test_fields_of_structs_give_the_identity_and_the_time_of_a_row() -> None:
    made = source(
        "CREATE SOURCE a (e STRUCT<Id: STRING, at: TIMESTAMP, `odd name`: STRUCT<x: INT>>, `e.id` INT, "
        "WATERMARK FOR E.at AS e.at - INTERVAL '5' SECOND, DEDUPLICATE BY e.id, e.`odd name`.x WITHIN '1m')"
    )
    assert made.dedup == Dedup(("e.Id", "e.odd name.x"), 60_000_000)
    assert (made.event_time, made.watermark_lag) == (EventTime("e.at", "spark"), 5_000_000)
    assert made.messages == (EventTime("e.at", "spark"),)
    declared = source(
        "CREATE SOURCE a (e STRUCT<at: BIGINT>, EVENT TIME e.at TYPE unixtimestamp_ms, WATERMARK FOR e.at AS e.at)"
    )
    assert (declared.messages, declared.watermark_lag) == ((EventTime("e.at", "unixtimestamp_ms"),), 0)
