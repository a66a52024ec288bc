"""App files mean the same as their SQL, and a mistake in one is an error that names the key."""

from __future__ import annotations

import tomllib

import pytest

from eventide.app.example import EXAMPLE
from eventide.app.model import Settings
from eventide.app.reader import load_app
from eventide.errors import EventideError
from eventide.plan.difference import canonical
from eventide.plan.side_output import RateLimit, Route
from eventide.sql.catalog import Catalog
from tests.sql.support import catalog

TOML = """
[app]
checkpoint = "state"
master = "local[2]"
shards = 3
local_speed = false
conf."spark.driver.memory" = "8g"
conf.spark.ui.enabled = false

[sources.clicks]
columns = { id = "STRING", ts = "BIGINT", user = "STRING", amount = "DECIMAL(10, 2)" }
connector = "files"
path = "it's here"
format = "csv"
header = true
target_latency = "2 seconds"
eventtime.column = "ts"
eventtime.type = "unixtimestamp_ms"
watermark_lag = "5 seconds"
dedup.by = ["id"]
dedup.within = "10 minutes"
idle_timeout = "30 seconds"
max_future_skew = "1 minute"

[sources.taps]
columns = "id STRING, ts BIGINT, user STRING, amount DECIMAL(10, 2), EVENT TIME ts TYPE unixtimestamp_ms"

[transforms.per_user]
sql = '''
SELECT window_start, user, count(*) AS n, sum(amount) AS total
FROM (SELECT * FROM clicks UNION ALL SELECT * FROM taps)
WHERE amount > 0
GROUP BY user, TUMBLE(ts, INTERVAL '10' SECOND); -- all of it
'''
allowed_lateness = "1 minute"
emit = "every 5 seconds"
late_to = "late_rows"
late.policy = "reassign"
late.max_lateness = "2 minutes"
max_groups = 100
options = { shards = 4 }

[sinks.out]
from = "per_user"
connector = "files"
path = "out"
format = "parquet"

[sinks.late]
from = "per_user$late"
connector = "console"
"""
SQL = """
CREATE SOURCE clicks (id STRING, ts BIGINT, user STRING, amount DECIMAL(10, 2), EVENT TIME ts TYPE unixtimestamp_ms,
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND, DEDUPLICATE BY id WITHIN INTERVAL '10' MINUTE)
WITH ('connector' = 'files', 'path' = "it's here", 'format' = 'csv', 'header' = 'true', 'idle_timeout' = '30 seconds',
  'target_latency' = '2 seconds', 'max_future_skew' = '1 minute');
CREATE SOURCE taps (id STRING, ts BIGINT, user STRING, amount DECIMAL(10, 2)) WITH ('eventtime.column' = 'ts',
'eventtime.type' = 'unixtimestamp_ms'); CREATE STREAM per_user WITH ('late.policy' = 'reassign', 'late.max_lateness' =
'2 minutes', 'max_groups' = '100', 'shards' = '4') AS SELECT window_start, user, count(*) AS n, sum(amount) AS total
FROM (SELECT * FROM clicks UNION ALL SELECT * FROM taps) WHERE amount > 0 GROUP BY user, TUMBLE(ts, INTERVAL '10'
SECOND) EMIT EVERY INTERVAL '5' SECOND ALLOW LATENESS INTERVAL '1' MINUTE LATE DATA TO late_rows; CREATE SINK out FROM
per_user WITH ('connector' = 'files', 'path' = 'out', 'format' = 'parquet'); CREATE SINK late FROM per_user$late WITH
('connector' = 'console');
"""
SOURCE = """
[sources.s]
columns = { k = "STRING", v = "BIGINT", ts = "BIGINT", at = "TIMESTAMP" }
"""
DECLARED = SOURCE + 'eventtime = { column = "ts", type = "unixtimestamp_ms" }\n'
COLUMNS = "k STRING, v BIGINT, ts BIGINT, at TIMESTAMP"
QUERY = "SELECT k, count(*) AS n FROM s GROUP BY k, TUMBLE(ts, INTERVAL '10' SECOND)"


def transform(*lines: str, sql: str = QUERY) -> str:
    return f'[transforms.o]\nsql = "{sql}"\n' + "\n".join(lines) + "\n"


def meaning(of: Catalog) -> dict[str, str]:
    return {name: canonical(stream) for name, stream in of.streams.items()}


def stream_of(toml: str) -> str:
    return meaning(load_app(toml).catalog)["o"]


def sql_stream(sql: str) -> str:
    return meaning(catalog(sql))["o"]


def test_toml_and_sql_have_equal_sources_plans_and_sinks() -> None:
    app, written = load_app(TOML), catalog(SQL)
    assert app.catalog.sources == written.sources
    assert app.catalog.streams == written.streams and meaning(app.catalog) == meaning(written)
    assert app.catalog.sinks == written.sinks


def test_the_sql_of_an_app_defines_the_same_catalog() -> None:
    app = load_app(TOML)
    again = catalog(app.sql)
    assert (again.sources, again.streams, again.sinks) == (app.catalog.sources, app.catalog.streams, app.catalog.sinks)


def test_limits_of_a_source_are_a_table_of_their_own() -> None:
    limits = '[sources.s.sla]\nclass = "gold"\nburst = 75\nmax_lag = "2 seconds"\n'
    written = f"CREATE SOURCE s ({COLUMNS}) WITH ('sla.class' = 'gold', 'sla.burst' = '75', 'sla.max_lag' = '2 s')"
    found = load_app(SOURCE + limits + transform(sql="SELECT k FROM s")).catalog.sources["s"]
    assert found.admission is not None and found.admission == catalog(written).sources["s"].admission
    with pytest.raises(EventideError, match=r"sources\.s\.sla\.class: sla.class is 'titanium'"):
        load_app(SOURCE + limits.replace("gold", "titanium") + transform(sql="SELECT k FROM s"))


TABLE = """
[tables.users]
columns = { k = "STRING", country = "STRING" }
connector = "files"
path = "users"
format = "csv"
header = true
refresh = "10 minutes"
"""


def test_a_table_is_looked_up() -> None:
    query = "SELECT k, country FROM s LEFT JOIN users USING (k)"
    app = load_app(DECLARED + TABLE + transform('watermark_lag = "2 s"', sql=query))
    written = catalog(f"""CREATE SOURCE s ({COLUMNS}, EVENT TIME ts TYPE unixtimestamp_ms);
        CREATE TABLE users (k STRING, country STRING) WITH ('connector' = 'files', 'path' = 'users', 'format' = 'csv',
          'header' = 'true', 'refresh' = '10 minutes');
        CREATE STREAM o AS {query} WATERMARK(ts, INTERVAL '2' SECOND);""")
    assert app.catalog.tables == written.tables and meaning(app.catalog) == meaning(written)
    assert catalog(app.sql).tables == written.tables
    with pytest.raises(EventideError, match=r"tables\.users has no connector"):
        load_app(DECLARED + TABLE.replace('connector = "files"', "") + transform())
    with pytest.raises(EventideError, match=r"tables\.users\.refresh: option 'refresh'"):
        load_app(DECLARED + TABLE.replace("10 minutes", "often") + transform())


def test_settings_are_what_connect_takes() -> None:
    conf = {"spark.driver.memory": "8g", "spark.ui.enabled": "false"}
    assert load_app(TOML).settings == Settings("state", "local[2]", conf, 3, False)


# The resolution of event time: what the SQL says, then the transform, then the source, then the app ------------------


def test_a_transform_sets_the_lag_unless_the_sql_does() -> None:
    declared = f"CREATE SOURCE s ({COLUMNS}, EVENT TIME ts TYPE unixtimestamp_ms);"
    own = DECLARED + transform('watermark_lag = "7 s"')
    assert stream_of(own) == sql_stream(f"{declared} CREATE STREAM o AS {QUERY} WATERMARK(ts, INTERVAL '7' SECOND)")
    assert stream_of(DECLARED + transform('eventtime.lateTolerance = "7 s"')) == stream_of(own)
    says = QUERY + " WATERMARK(ts, INTERVAL '9' SECOND)"
    assert stream_of(DECLARED + transform('watermark_lag = "7 s"', sql=says)) == sql_stream(
        f"{declared} CREATE STREAM o AS {says}"
    )


def test_a_transform_names_the_event_time_field() -> None:
    query = QUERY.replace("ts", "at")
    found = stream_of(SOURCE + transform('event_time_field = "at"', 'watermark_lag = "3 s"', sql=query))
    assert found == sql_stream(
        f"CREATE SOURCE s ({COLUMNS}); CREATE STREAM o AS {query} WATERMARK(at, INTERVAL '3' SECOND)"
    )
    assert "event time: `at`" in found and "watermark lag 3s" in found


def test_allowed_lateness_in_the_sql_takes_precedence_over_the_transform() -> None:
    late = QUERY + " ALLOW LATENESS INTERVAL '2' SECOND"
    assert "allowed lateness 2s" in stream_of(DECLARED + transform('allowed_lateness = "1 minute"', sql=late))
    assert "allowed lateness 1m" in stream_of(DECLARED + transform('allowed_lateness = "1 minute"'))


def test_late_tolerance_of_the_app_is_the_lag_of_sources_that_set_none() -> None:
    app = '[app]\neventtime.lateTolerance = "4 s"\n'
    assert "watermark lag 4s" in stream_of(app + DECLARED + transform())
    assert "watermark lag 1s" in stream_of(app + DECLARED + 'watermark_lag = "1 s"\n' + transform())
    timeless = load_app(app + SOURCE + transform(sql=QUERY.replace("ts", "at"))).catalog.sources["s"]
    assert timeless.watermark_lag is None


def test_the_app_declares_the_event_time_of_sources_that_have_the_column() -> None:
    app = (
        '[app]\neventtime = { column = "ts", type = "unixtimestamp_ms", max_future_skew = "9 s", idle_timeout '
        '= "8 s" }\n'
    )
    other = '[sources.other]\ncolumns = "k STRING"\n'
    sources = load_app(app + SOURCE + other + transform()).catalog.sources
    assert sources["s"].event_time is not None and sources["s"].event_time.column == "ts"
    assert (sources["s"].max_future_skew, sources["s"].idle_timeout) == (9_000_000, 8_000_000)
    assert sources["other"].event_time is None


def test_event_time_can_be_switched_off_for_the_app_or_a_transform() -> None:
    off = sql_stream(
        f"CREATE SOURCE s ({COLUMNS}, EVENT TIME ts TYPE unixtimestamp_ms); CREATE STREAM o WITH "
        f"('eventtime.enabled' = 'false') AS {QUERY}"
    )
    assert "time: processing time" in off
    assert stream_of("[app]\neventtime.enabled = false\n" + DECLARED + transform()) == off
    assert stream_of("[app]\neventtime.enabled = false\n" + DECLARED + transform('watermark_lag = "7 s"')) == off
    assert stream_of(DECLARED + transform("eventtime.enabled = false")) == off
    on = stream_of("[app]\neventtime.enabled = false\n" + DECLARED + transform("eventtime.enabled = true"))
    assert on == stream_of(DECLARED + transform())


JOIN = "SELECT a.v FROM s a JOIN s b WITHIN TUMBLE(INTERVAL '10' SECOND) ON a.k = b.k"


def test_a_join_takes_lateness_and_watermarks_as_the_sql_says() -> None:
    declared = f"CREATE SOURCE s ({COLUMNS}, EVENT TIME ts TYPE unixtimestamp_ms);"
    plain = stream_of(DECLARED + transform('allowed_lateness = "1 minute"', 'late_to = "late_rows"', sql=JOIN))
    assert plain == sql_stream(f"{declared} CREATE STREAM o AS {JOIN} ALLOW LATENESS INTERVAL '1' MINUTE")
    graceful = JOIN.replace(" ON", " GRACE PERIOD 2 SECONDS ON")
    assert "allowed lateness 2s" in stream_of(DECLARED + transform('allowed_lateness = "1 minute"', sql=graceful))
    lagging = JOIN.replace("s b", "s b WATERMARK ts DELAY OF INTERVAL 9 SECONDS")
    assert "watermark lag 9s" in stream_of(DECLARED + transform('watermark_lag = "7 s"', sql=lagging))


# Side output ----------------------------------------------------------------------------------------------------------

ROUTES = """
[transforms.o.side_output]
late.sink = "dlq"
late.include_original = false
late.rate_limit = "10000/s"
evicted.sink = "metrics_only"
error.sink = "reinject"
error.source = "s"

[sinks.dlq]
connector = "files"
path = "dlq"
"""


def test_side_output_is_read_into_routes_by_kind() -> None:
    app = load_app(DECLARED + transform() + ROUTES)
    assert app.catalog.streams["o"].routes == {
        "late": Route("dlq", include_original=False, rate_limit=RateLimit(10_000, 1_000_000)),
        "error": Route("reinject", source="s"),
        "evicted": Route("metrics_only"),
    }
    dlq = app.catalog.sinks["dlq"]
    assert dlq.options == {"format": "json", "path": "dlq"} and dlq.stream is None


def test_side_output_means_the_same_in_sql() -> None:
    app = load_app(DECLARED + transform() + ROUTES)
    written = catalog(f"""
        CREATE SOURCE s ({COLUMNS}) WITH ('eventtime.column' = 'ts', 'eventtime.type' = 'unixtimestamp_ms');
        CREATE SINK dlq WITH ('connector' = 'files', 'path' = 'dlq');
        CREATE STREAM o WITH ('side_output.late.sink' = 'dlq', 'side_output.late.include_original' = 'false',
          'side_output.late.rate_limit' = '10000/s', 'side_output.evicted.sink' = 'metrics_only',
          'side_output.error.sink' = 'reinject', 'side_output.error.source' = 's') AS {QUERY};
    """)
    assert (app.catalog.streams, app.catalog.sinks) == (written.streams, written.sinks)
    again = catalog(app.sql)
    assert (again.streams, again.sinks) == (app.catalog.streams, app.catalog.sinks)


# Mistakes -------------------------------------------------------------------------------------------------------------

WRONG = {
    DECLARED + transform('watermark_lag = "7 s"', sql=JOIN): (
        "transforms.o.watermark_lag is for one input, and the SQL joins two"
    ),
    "": "the app has no transform",
    "[app\n": "this is not TOML: ",
    "[apps]\n": "apps: there is no such table\n  help: did you mean app?",
    "app = 1\n": "app must be a table, not 1",
    '[app]\nshard = 2\n[transforms.o]\nsql = "x"': "app.shard: there is no such key\n  help: did you mean shards?",
    '[app]\nlocal_speed = 0\n[transforms.o]\nsql = "x"': "app.local_speed must be true or false, not 0",
    '[app]\nshards = "2"\n[transforms.o]\nsql = "x"': "app.shards must be a whole number above 0, not '2'",
    '[app]\neventtime.enabled = "no"\n[transforms.o]\nsql = "x"': "app.eventtime.enabled must be true or false",
    DECLARED + "pth = 'x'\n" + transform(): "sources.s.pth: there is no such key",
    DECLARED
    + 'connector = "fils"\n'
    + transform(): "sources.s.connector: there is no connector 'fils'\n  help: did you mean files?",
    DECLARED + 'connector = "files"\n' + transform(): "sources.s: the connector 'files' needs the option 'path'",
    DECLARED + 'connector = "files"\npath = "in"\ntarget_latency = "0 s"\n' + transform(): (
        "sources.s.target_latency: option 'target_latency' is a duration above zero"
    ),
    DECLARED + 'connector = "files"\npath = "in"\nmax_files_per_batch = 1\ntarget_latency = "2 s"\n' + transform(): (
        "the option 'target_latency' and the option 'max_files_per_batch' both say how large batches are"
    ),
    DECLARED + "header = true\n" + transform(): "sources.s.header: there is no such key",
    DECLARED
    + 'idle_timeout = "x"\n'
    + transform(): "sources.s.idle_timeout: option 'idle_timeout': 'x' is not a duration",
    DECLARED
    + 'watermark_lag = "1 s"\nwatermark.lag = "2 s"\n'
    + transform(): "sources.s.watermark.lag: the same as sources.s.watermark_lag",
    DECLARED + 'dedup.by = "k"\n' + transform(): "sources.s.dedup needs by and within",
    DECLARED + 'dedup = { by = "kk", within = "1 m" }\n' + transform(): "sources.s.dedup.by: there is no column kk",
    DECLARED.replace('"ts"', '"tss"') + transform(): "sources.s.eventtime.column: there is no column tss",
    DECLARED.replace("_ms", "_mx")
    + transform(): "sources.s.eventtime.type: unknown event-time type 'unixtimestamp_mx'",
    DECLARED.replace("BIGINT", "BIGNT") + transform(): "sources.s.columns.v: unknown type 'BIGNT'",
    DECLARED.replace("sources.s", 'sources."my source"')
    + transform(): "sources.my source: 'my source' cannot be the name of a source",
    "[sources]\ns = 3\n" + transform(): "sources.s must be a table, not 3",
    DECLARED + "[transforms.o]\n": "transforms.o has no sql",
    DECLARED
    + transform(
        "alowed_lateness = '1 s'"
    ): "transforms.o.alowed_lateness: there is no such key\n  help: did you mean allowed_lateness?",
    DECLARED
    + transform(
        "allowed_lateness = 'soon'"
    ): "transforms.o.allowed_lateness: option 'allowed_lateness': 'soon' is not a duration",
    DECLARED + transform("emit = 'sometimes'"): "transforms.o.emit: unknown emit mode 'sometimes'",
    DECLARED + transform("emit = 'final'", sql=QUERY + " EMIT FINAL"): "transforms.o.emit: the SQL already says this",
    DECLARED + transform("late.policy = 'kind'"): "transforms.o.late.policy: option 'late.policy' cannot be 'kind'",
    DECLARED
    + transform(
        "late.policy = 'strict'", "options = { 'late.policy' = 'strict' }"
    ): "transforms.o.options.late.policy: the same as",
    DECLARED + transform("late_to = 'o'"): "transforms.o: LATE DATA TO o has the name of the stream itself",
    DECLARED + transform(sql=QUERY.replace("count(*)", "count(q)")): "transforms.o.sql: there is no column q",
    DECLARED + transform(sql="SELECT * FROM t"): "transforms.o.sql: there is no source or stream t",
    DECLARED + transform(sql="SELECT * FROM s; SELECT * FROM s"): "transforms.o: sql must be one SELECT",
    DECLARED
    + transform(sql="CREATE STREAM o AS SELECT * FROM s"): "transforms.o.sql must be the SELECT of the stream o",
    SOURCE
    + transform(
        "watermark_lag = '1 s'", sql="SELECT * FROM s"
    ): "transforms.o.watermark_lag: its sources have no event time",
    SOURCE + transform("event_time_field = 'v'", sql="SELECT * FROM s"): "transforms.o.event_time_field: v is a bigint",
    DECLARED + transform() + '[sinks.out]\nfrom = "p"\nconnector = "console"\n': "sinks.out: there is no stream p",
    DECLARED + transform() + '[sinks.out]\nfrom = "o"\n': "sinks.out has no connector",
    DECLARED + transform() + '[sinks.out]\nconnector = "console"\n': "nothing is sent to sinks.out",
    DECLARED
    + transform()
    + '[sinks.out]\nfrom = "o"\nconnector = "console"\npath = "x"\n': "sinks.out.path: there is no such key",
    DECLARED
    + transform()
    + ROUTES.replace('"dlq"', '"dlx"', 1): "transforms.o.side_output.late.sink: there is no sink dlx",
    DECLARED
    + transform()
    + ROUTES.replace(
        "10000/s", "many"
    ): "side_output.late.rate_limit: option 'side_output.late.rate_limit': 'many' is not a rate",
    DECLARED
    + transform()
    + ROUTES.replace("late.", "lates."): "transforms.o.side_output.lates.sink: there is no such key",
    DECLARED
    + transform()
    + ROUTES.replace('error.source = "s"', 'error.source = "t"'): "side_output.error.source: there is no source t",
    DECLARED
    + transform()
    + '[transforms.o.side_output]\nlate.rate_limit = "1/s"\n': "'side_output.late.rate_limit' is given without "
    "'side_output.late.sink'",
}


@pytest.mark.parametrize(("toml", "message"), WRONG.items(), ids=list(WRONG.values()))
def test_a_mistake_names_the_path_of_its_key(toml: str, message: str) -> None:
    with pytest.raises(EventideError) as raised:
        load_app(toml)
    assert message in str(raised.value)


def test_an_error_in_the_sql_is_underlined_there() -> None:
    with pytest.raises(EventideError) as raised:
        load_app(DECLARED + "[transforms.o]\nsql = '''SELECT k,\n  vv FROM s'''\n")
    assert "transforms.o.sql: there is no column vv\n  2 |   vv FROM s\n        ^^" in str(raised.value)


# The example ----------------------------------------------------------------------------------------------------------


def test_the_example_is_valid_as_it_is_and_with_every_setting_on() -> None:
    assert list(load_app(EXAMPLE).catalog.streams) == ["per_digit"]
    every = "\n".join(
        line[1:] if line.startswith("#") and not line.startswith("# ") and len(line) > 1 else line
        for line in EXAMPLE.splitlines()
    )
    app = load_app(every)
    assert list(app.catalog.sources) == ["numbers", "clicks"] and app.settings.shards == 4
    assert len(tomllib.loads(every)["sinks"]) == 3
