"""Sources that the SQL tests share, and short ways from SQL to a plan."""

from __future__ import annotations

from pathlib import Path

from eventide.plan.difference import canonical
from eventide.plan.logical import Stream
from eventide.sql.catalog import Catalog
from eventide.sql.parser import parse_statements

HERE = Path(__file__).parent

SOURCES = """
CREATE SOURCE s (k STRING, v BIGINT, ts BIGINT, user STRING, t2 TIMESTAMP, st STRUCT<a: INT, b: ARRAY<STRUCT<x: INT>>>,
  m MAP<STRING, INT>, arr ARRAY<INT>, end STRING, op STRING, `odd name` INT, value DOUBLE, date DATE,
  EVENT TIME ts TYPE unixtimestamp_ms);
CREATE SOURCE n (k STRING, v BIGINT, t TIMESTAMP);
CREATE SOURCE w (window_start STRING, k STRING, v INT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL 5 SECONDS);
"""

JOIN_SOURCES = """
CREATE SOURCE l (k STRING, v BIGINT, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms);
CREATE SOURCE r (k STRING, w BIGINT, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms,
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND);
CREATE SOURCE e (id STRING, at TIMESTAMP, v BIGINT, m MAP<STRING, INT>);
CREATE SOURCE x (window_start STRING, k STRING, ts TIMESTAMP, st STRUCT<a: INT>,
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND);
"""

TABLES = """
CREATE SOURCE a (id STRING, cust STRING, v BIGINT, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms);
CREATE SOURCE b (id STRING, w BIGINT, ts BIGINT, EVENT TIME ts TYPE unixtimestamp_ms);
CREATE SOURCE limited (id STRING, cust STRING) WITH ('sla.class' = 'gold');
CREATE TABLE c (id STRING, name STRING, country STRING) WITH ('connector' = 'files', 'path' = '/t', 'format' = 'csv');
"""


def catalog(sql: str = SOURCES) -> Catalog:
    made = Catalog()
    for statement in parse_statements(sql):
        made.apply(statement)
    return made


def stream(query: str, sources: str = SOURCES) -> Stream:
    """The stream `o` of a query, or of a whole CREATE STREAM o."""
    made = catalog(sources)
    create = query if query.lstrip().upper().startswith("CREATE") else f"CREATE STREAM o AS {query}"
    for statement in parse_statements(create):
        made.apply(statement)
    return made.streams["o"]


def meaning(of: Stream) -> list[str]:
    """The canonical text without the columns of the input and of the sources, which the shared sources repeat."""
    columns = ("input column", "left column", "right column")
    lines = [line for line in canonical(of).splitlines() if not line.startswith(columns)]
    return [
        line
        for line in lines
        if line.strip().split()[0] not in ("connector", "column", "event") or line.startswith("event time:")
    ]
