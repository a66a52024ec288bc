"""Workloads as a user of Flink SQL would write them."""

from __future__ import annotations

import re
from pathlib import Path

from benchmarks.workloads import (
    FUSED,
    LEFT,
    RIGHT,
    Data,
    Hop,
    IntervalJoin,
    Session,
    Tumble,
    TumbleJoin,
    Window,
    Workload,
)

_TYPES = {"TIMESTAMP": "TIMESTAMP_LTZ(3)"}  # as Flink calls Spark's


def can_express(workload: Workload) -> bool:
    """JSON only: Flink's package for Python has no Parquet. Roads other than the fused one are Eventide's matter."""
    windows = Tumble | Hop | Session | IntervalJoin | TumbleJoin
    return workload.data.format == "json" and workload.road == FUSED and isinstance(workload.window, windows)


def sources_sql(data: Data, folder: Path, suffix: str = "") -> list[str]:
    """Tables over the files in `folder`: s, or one for each side of a join from the folder of its name. Of rows that
    may come twice, first_s has those that came first.
    """
    if data.sides:
        return [_table(data, f"{side}{suffix}", folder / side) for side in data.sides]
    tables = [_table(data, f"s{suffix}", folder)]
    if data.has_ids:
        numbered = f"SELECT *, ROW_NUMBER() OVER (PARTITION BY `id` ORDER BY `seen`) AS `number` FROM s{suffix}"
        tables.append(f"CREATE VIEW first_s{suffix} AS SELECT `k`, `v`, `t` FROM ({numbered}) WHERE `number` = 1")
    return tables


def _table(data: Data, name: str, folder: Path) -> str:
    columns = [f"`{column}` {flink_type(type)}" for column, type in data.columns.items()]
    columns.append("`t` AS `ts`" if data.clicks else "`t` AS TO_TIMESTAMP_LTZ(`ts`, 3)")
    if data.has_ids:
        columns.append("`seen` AS PROCTIME()")
    columns.append(f"WATERMARK FOR `t` AS `t` - {interval(data.lag_ms)}")
    options = "'connector' = 'filesystem', 'format' = 'json', 'json.timestamp-format.standard' = 'ISO-8601'"
    return f"CREATE TABLE {name} ({', '.join(columns)}) WITH ({options}, 'path' = 'file://{folder}')"


def flink_type(type: str) -> str:
    """Of a column, from how Spark writes it."""
    fields = re.fullmatch(r"STRUCT<(.*)>", type)
    if fields:
        return f"ROW<{fields[1].replace(':', '')}>"
    return _TYPES.get(type, type)


def sink_sql(workload: Workload, name: str, folder: Path) -> str:
    """Results as CSV files, which are there when the job has ended."""
    value = workload.data.columns["v"]
    key = workload.data.columns["k"]
    columns = (
        f"n {value}, t {value}, m {key}"
        if workload.data.sides
        else f"window_end TIMESTAMP(3), k {key}, n BIGINT, t {value}, m {value}"
    )
    options = f"'connector' = 'filesystem', 'format' = 'csv', 'path' = 'file://{folder}'"
    return f"CREATE TABLE {name} ({columns}) WITH ({options})"


def query_sql(workload: Workload, suffix: str = "") -> str:
    window = workload.window
    if isinstance(window, IntervalJoin | TumbleJoin):
        return _pairs(window, LEFT + suffix, RIGHT + suffix)
    table = f"first_s{suffix}" if workload.data.has_ids else f"s{suffix}"
    return (
        f"SELECT window_end, `k`, count(*) AS n, sum(`v`) AS t, max(`v`) AS m FROM TABLE({_windows(window, table)}) "
        "GROUP BY window_start, window_end, `k`"
    )


def _windows(window: Window, table: str) -> str:
    match window:
        case Tumble(size):
            return f"TUMBLE(TABLE {table}, DESCRIPTOR(`t`), {interval(size)})"
        case Hop(size, slide):
            return f"HOP(TABLE {table}, DESCRIPTOR(`t`), {interval(slide)}, {interval(size)})"
        case Session(gap):
            return f"SESSION(TABLE {table} PARTITION BY `k`, DESCRIPTOR(`t`), {interval(gap)})"
        case _:
            raise ValueError(f"Flink is not asked for {window}")


def _pairs(join: IntervalJoin | TumbleJoin, left: str, right: str) -> str:
    words = "LEFT JOIN" if join.outer else "JOIN"
    if isinstance(join, IntervalJoin):
        on = f"l.`k` = r.`k` AND r.`t` BETWEEN l.`t` AND l.`t` + {interval(join.within_ms)}"
        sides = (left, right)
    else:
        pane = Tumble(join.size_ms)
        on = "l.`k` = r.`k` AND l.window_start = r.window_start AND l.window_end = r.window_end"
        sides = (f"(SELECT * FROM TABLE({_windows(pane, left)}))", f"(SELECT * FROM TABLE({_windows(pane, right)}))")
    return f"SELECT l.`v` AS n, r.`v` AS t, l.`k` AS m FROM {sides[0]} l {words} {sides[1]} r ON {on}"


def interval(milliseconds: int) -> str:
    return f"INTERVAL '{milliseconds / 1000:.3f}' SECOND"
