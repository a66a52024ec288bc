"""The joins of workloads in one-shot DuckDB: the truth about what a stream must return, and something to run beside.

All rows are there at once, so a stream's rule is only about the end: a row without a partner comes out when the
watermark has passed everything that it could meet, and a session when it has closed.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.workloads import LAG_MS, LEFT, RIGHT, AsofJoin, Data, IntervalJoin, Join, SessionJoin, TumbleJoin


def pairs_sql(join: Join, data: Data, files: list[Path], *, ended: bool) -> str:
    """Rows (n, t, m, pairs) of the join of all files; `ended`: with those that a stream still holds back."""
    rows = "".join(f"{side} AS MATERIALIZED ({_events(data, files, side)}), " for side in (LEFT, RIGHT))
    last = f"SELECT least((SELECT max(ts) FROM {LEFT}), (SELECT max(ts) FROM {RIGHT})) - {LAG_MS} AS w"
    passed = "true" if ended else "{} <= (SELECT w FROM last)"
    return f"WITH {rows}last AS ({last}) {_joined(join, passed)}"


def _joined(join: Join, passed: str) -> str:
    pair = "SELECT l.v AS n, r.v AS t, l.k AS m, 1 AS pairs"
    match join:
        case IntervalJoin(within, outer):
            on = f"l.k = r.k AND r.ts BETWEEN l.ts AND l.ts + {within}"
            alone = passed.format(f"l.ts + {within}")
        case TumbleJoin(size, outer):
            on = f"l.k = r.k AND l.ts // {size} = r.ts // {size}"
            alone = passed.format(f"(l.ts // {size} + 1) * {size}")
        case AsofJoin():
            return (
                f"{pair} FROM {LEFT} l ASOF JOIN {RIGHT} r ON l.k = r.k AND l.ts >= r.ts WHERE {passed.format('l.ts')}"
            )
        case SessionJoin(gap):
            return _sessions(gap, passed)
    if not outer:
        return f"{pair} FROM {LEFT} l JOIN {RIGHT} r ON {on}"
    return f"{pair} FROM {LEFT} l LEFT JOIN {RIGHT} r ON {on} WHERE r.k IS NOT NULL OR {alone}"


def _sessions(gap: int, passed: str) -> str:
    """A row for each pair of sessions, with the sums over its pairs of rows."""
    closed = f"{passed.format('greatest(a.last, b.last) + ' + str(gap))}"
    return (
        f"SELECT a.v * b.rows AS n, b.v * a.rows AS t, a.k * a.rows * b.rows AS m, a.rows * b.rows AS pairs "
        f"FROM ({_sessions_of(LEFT, gap)}) a JOIN ({_sessions_of(RIGHT, gap)}) b "
        f"ON a.k = b.k AND a.first <= b.last + {gap} AND b.first <= a.last + {gap} WHERE {closed}"
    )


def _sessions_of(side: str, gap: int) -> str:
    begins = f"coalesce(ts - lag(ts) OVER (PARTITION BY k ORDER BY ts) > {gap}, true)::INT"
    numbered = "SELECT *, sum(begins) OVER (PARTITION BY k ORDER BY ts ROWS UNBOUNDED PRECEDING) AS session"
    return (
        f"SELECT k, min(ts) AS first, max(ts) AS last, count(*) AS rows, sum(v) AS v FROM "
        f"({numbered} FROM (SELECT *, {begins} AS begins FROM {side})) GROUP BY k, session"
    )


def _events(data: Data, files: list[Path], side: str) -> str:
    names = ", ".join(f"'{path}'" for path in files if path.parent.name == side)
    types = ", ".join(f"{name}: '{type}'" for name, type in data.columns.items())
    return f"SELECT k, v, ts FROM read_json([{names}], columns = {{{types}}}, format = 'newline_delimited')"
