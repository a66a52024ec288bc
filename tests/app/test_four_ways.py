"""Event time can be declared in four ways, and all of them are one plan."""

from __future__ import annotations

from dataclasses import replace

from eventide.app.reader import load_app
from eventide.fluent import tumble
from eventide.plan.difference import canonical
from eventide.plan.logical import Filter, Project, Relation, Scan, Source, Stream, Union
from eventide.plan.planner import plan
from eventide.plan.reads import sources_of
from tests.fluent.support import unbound
from tests.sql.support import stream

COLUMNS = "id STRING, k STRING, v BIGINT, ts BIGINT"
QUERY = "SELECT window_start, window_end, k, sum(v) AS total FROM clicks GROUP BY k, TUMBLE(ts, INTERVAL '10' SECOND)"
CLAUSES = f"""CREATE SOURCE clicks ({COLUMNS}, EVENT TIME ts TYPE unixtimestamp_ms, WATERMARK FOR ts AS ts - INTERVAL
  '5' SECOND,
  DEDUPLICATE BY id WITHIN INTERVAL '1' MINUTE) WITH ('max_future_skew' = '9 seconds', 'idle_timeout' = '8 seconds');"""
OPTIONS = f"""CREATE SOURCE clicks ({COLUMNS}, DEDUPLICATE BY id WITHIN INTERVAL '1' MINUTE)
  WITH ('eventtime.column' = 'ts', 'eventtime.type' = 'UnixTimestamp_ms', 'eventtime.lateTolerance' = '5000 ms',
  'max_future_skew' = '9 s', 'idle_timeout' = '8 s');"""
TOML = f"""
[sources.clicks]
columns = "{COLUMNS}"
eventtime.column = "TS"
eventtime.type = "unixtimestamp_ms"
eventtime.lateTolerance = "5 s"
dedup = {{ by = "id", within = "60 s" }}
max_future_skew = "9 s"
idle_timeout = "8 s"
[transforms.o]
sql = "{QUERY}"
"""


def from_sql(source: str) -> Stream:
    return stream(f"CREATE STREAM o AS {QUERY}", source)


def from_steps() -> Stream:
    columns = tuple((name, type.lower()) for name, type in (column.split() for column in COLUMNS.split(", ")))
    clicks = unbound("clicks", columns).event_time("ts", "unixtimestamp_ms", "5 seconds", "9 seconds", "8 seconds")
    return (
        clicks.deduplicate("id", within="1 minute")
        .group_by("k")
        .window(tumble("10 seconds"))
        .agg(total="sum(v)")
        .plan()
    )


def embedded(made: Stream) -> Stream:
    """The same stream over sources with the connector that SQL and TOML give here: a DataFrame is no `embedded`
    source.
    """

    def over(relation: Relation) -> Relation:
        match relation:
            case Scan():
                return replace(relation, source=replace(relation.source, connector="embedded"))
            case Filter() | Project():
                return replace(relation, input=over(relation.input))
            case Union():
                return Union(tuple(over(part) for part in relation.inputs))

    return replace(made, query=replace(made.query, input=over(made.query.input)))


def test_clauses_options_toml_and_steps_are_one_plan() -> None:
    streams = [from_sql(CLAUSES), from_sql(OPTIONS), load_app(TOML).catalog.streams["o"], embedded(from_steps())]
    assert len({canonical(made) for made in streams}) == 1
    assert len({plan(made).plan_id for made in streams}) == 1
    declared: list[Source] = [source for made in streams for source in sources_of(made.query)]
    assert all(source == declared[0] for source in declared) and declared[0].event_time is not None
