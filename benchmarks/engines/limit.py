"""One-shot DuckDB over the same files: the limit of what a stream could reach, and the truth about what it must return.

It applies the rules of streaming to all files at once: a row counts unless its window had closed before its batch, and
only windows that the last watermark has closed are results.
"""

from __future__ import annotations

import time
from pathlib import Path

import duckdb

from benchmarks.clicks import click_types
from benchmarks.engines.contract import Timed
from benchmarks.engines.one_shot_joins import pairs_sql
from benchmarks.totals import Totals
from benchmarks.workloads import (
    LAG_MS,
    AsofJoin,
    Data,
    Hop,
    IntervalJoin,
    Session,
    SessionJoin,
    Slide,
    Tumble,
    TumbleJoin,
    Window,
    Workload,
)


class Limit:
    name = "DuckDB, one shot"

    def can(self, workload: Workload) -> bool:
        return not isinstance(workload.window, Slide)

    def compute(self, workload: Workload, files: list[Path]) -> Timed:
        began, cpu = time.perf_counter(), time.process_time()
        with duckdb.connect() as database:
            totals = _all_at_once(database, workload, files)
        return Timed(totals, time.perf_counter() - began, time.process_time() - cpu)


def expected(workload: Workload, files: list[Path]) -> Totals | None:
    """What a streaming engine must have returned after these files; None where SQL cannot say."""
    if isinstance(workload.window, Slide):
        return None
    with duckdb.connect() as database:
        if isinstance(workload.window, IntervalJoin | TumbleJoin | AsofJoin | SessionJoin):
            return _join_totals(database, pairs_sql(workload.window, workload.data, files, ended=False))
        database.execute(f"CREATE TABLE arrived AS {events_sql(workload.data, files)}")
        database.execute(f"""
            CREATE TABLE watermarks AS SELECT
              batch, max(max(ts)) OVER (ORDER BY batch ROWS UNBOUNDED PRECEDING EXCLUDE CURRENT ROW)
            - {LAG_MS} AS watermark FROM arrived GROUP BY batch
        """)
        on_time = "SELECT arrived.* FROM arrived JOIN watermarks USING (batch)"
        if not isinstance(workload.window, Session):
            on_time += (
                f" WHERE watermark IS NULL OR {_last_start(workload.window)} + {_size(workload.window)} > watermark"
            )
        closed = f"window_end <= (SELECT max(ts) - {LAG_MS} FROM arrived)"
        return _totals(database, f"SELECT * FROM ({results_sql(workload, on_time)}) WHERE {closed}")


def _all_at_once(database: duckdb.DuckDBPyConnection, workload: Workload, files: list[Path]) -> Totals:
    """Every window or pair. Sessions are joined as of, too: what is asked is what one pass over both sides costs."""
    match workload.window:
        case AsofJoin() | SessionJoin():
            return _join_totals(database, pairs_sql(AsofJoin(), workload.data, files, ended=True))
        case IntervalJoin() | TumbleJoin():
            return _join_totals(database, pairs_sql(workload.window, workload.data, files, ended=True))
        case _:
            return _totals(database, results_sql(workload, events_sql(workload.data, files)))


def events_sql(data: Data, files: list[Path]) -> str:
    names = ", ".join(f"'{path}'" for path in files)
    read = click_types(data.nested) if data.clicks else data.columns
    types = ", ".join(f"{name}: '{'VARCHAR' if type == 'STRING' else type}'" for name, type in read.items())
    if data.format == "json":
        rows = f"read_json([{names}], columns = {{{types}}}, format = 'newline_delimited', filename = true)"
    else:
        rows = f"read_parquet([{names}], filename = true)"
    used = ", ".join(name for name in data.columns if name in ("k", "v", "ts", "id"))
    if data.clicks:
        used = "k, v, epoch_ms(ts) AS ts"
    return f"SELECT {used}, regexp_extract(filename, '([0-9]+)-[0-9]+[.]', 1)::INT AS batch FROM {rows}"


def results_sql(workload: Workload, events: str) -> str:
    rows = f"SELECT DISTINCT ON (id) * FROM ({events})" if workload.data.has_ids else events
    if isinstance(workload.window, Session):
        return _sessions_sql(rows, workload.window.gap_ms)
    spread = f"SELECT k, v, {_starts(workload.window)} AS window_start FROM ({rows})"
    end = f"window_start + {_size(workload.window)} AS window_end"
    return f"SELECT k, {end}, count(*) AS n, sum(v) AS t, max(v) AS m FROM ({spread}) GROUP BY k, window_start"


def _sessions_sql(rows: str, gap_ms: int) -> str:
    marked = (
        f"SELECT k, v, ts, coalesce(ts - lag(ts) OVER (PARTITION BY k ORDER BY ts) > {gap_ms}, true)::INT AS "
        f"is_first FROM ({rows})"
    )
    numbered = (
        "SELECT k, v, ts, sum(is_first) OVER (PARTITION BY k ORDER BY ts ROWS UNBOUNDED PRECEDING) AS "
        f"session FROM ({marked})"
    )
    return (
        f"SELECT k, max(ts) + {gap_ms} AS window_end, count(*) AS n, sum(v) AS t, max(v) AS m FROM "
        f"({numbered}) GROUP BY k, session"
    )


def _size(window: Window) -> int:
    match window:
        case Tumble(size) | Hop(size, _):
            return size
        case _:
            raise ValueError(f"{window} has no fixed size")


def _slide(window: Window) -> int:
    return window.slide_ms if isinstance(window, Hop) else _size(window)


def _last_start(window: Window) -> str:
    """The start of the latest window that a row is in."""
    return f"ts // {_slide(window)} * {_slide(window)}"


def _starts(window: Window) -> str:
    """The starts of all windows that a row is in, one row each."""
    return f"unnest([{_last_start(window)} - back for back in range(0, {_size(window)}, {_slide(window)})])"


def _join_totals(database: duckdb.DuckDBPyConnection, pairs: str) -> Totals:
    found = database.execute(f"SELECT sum(pairs), sum(n), sum(t), sum(m) FROM ({pairs})").fetchone()
    return Totals(*(value or 0 for value in found or ()))


def _totals(database: duckdb.DuckDBPyConnection, results: str) -> Totals:
    found = database.execute(f"SELECT count(*), sum(n), sum(t), sum(m) FROM ({results})").fetchone()
    return Totals(*(value or 0 for value in found or ()))
