"""Eventide, through its public API."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

import eventide
from benchmarks.data import files_per_batch
from benchmarks.engines.contract import Heard, Written, written_below
from benchmarks.totals import Totals, totals_of
from benchmarks.workloads import (
    DATAFRAME,
    FUSED,
    LAG_MS,
    LEFT,
    RIGHT,
    UNFUSED,
    AsofJoin,
    Data,
    Hop,
    IntervalJoin,
    Join,
    Session,
    SessionJoin,
    Slide,
    Tumble,
    TumbleJoin,
    Window,
    Workload,
)
from eventide.spark.session import default_shards

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from eventide.spark.frames import FluentQuery
    from eventide.storage.results import Account


class Eventide:
    name = "eventide"

    def __init__(
        self,
        spark: SparkSession | None = None,
        conf: Mapping[str, str] | None = None,
        options: Mapping[str, str] | None = None,
    ) -> None:
        """Without `spark`, one is started, with `conf` as its settings; `options` are further ones of the source."""
        self._spark = spark
        self._conf = conf
        self._options = options or {}

    def can(self, workload: Workload) -> bool:
        return True

    def start(self, workload: Workload, watched: Path, checkpoint: Path) -> EventideRun | DataFrameRun:
        if workload.road == DATAFRAME:
            if self._spark is None:
                raise ValueError(f"{workload.name}: a DataFrame needs a session")
            return DataFrameRun(self._spark, workload, watched, checkpoint)
        db = eventide.connect(checkpoint, self._spark, conf=self._conf)
        return EventideRun(db, workload, watched, checkpoint, self._options)


class EventideRun:
    def __init__(
        self,
        db: eventide.Database,
        workload: Workload,
        watched: Path,
        checkpoint: Path,
        options: Mapping[str, str] | None = None,
    ) -> None:
        self.db = db
        self._checkpoint = checkpoint
        self._totals = Totals()
        self.heard: list[Heard] = []
        for side in workload.data.sides:
            (watched / side).mkdir(exist_ok=True)
            db.execute(source_sql(workload.data, watched / side, side, options))
        if not workload.data.sides:
            db.execute(source_sql(workload.data, watched, options=options))
        db.execute(stream_sql(workload.window, workload.road))
        db.foreach("o", self._add)

    def _add(self, batch: int, rows: pa.Table) -> None:
        self._totals += totals_of(rows)
        self.heard.append((time.time(), rows.select(["window_start"]) if "window_start" in rows.column_names else None))

    def take(self) -> None:
        self.db.tick()

    def totals(self) -> Totals:
        return self._totals

    def written(self) -> Written:
        return written_below(self._checkpoint)

    def close(self) -> None:
        self.db.close()


class DataFrameRun:
    """The fluent API on a DataFrame that Spark reads; results are collected as native Spark's are."""

    def __init__(self, spark: SparkSession, workload: Workload, watched: Path, checkpoint: Path) -> None:
        data, window = workload.data, workload.window
        if not data.clicks or not isinstance(window, Tumble):
            raise ValueError(f"{workload.name}: only clicks in tumbling windows are read from a DataFrame")
        self._checkpoint, self._totals = checkpoint, Totals()
        self.heard: list[Heard] = []
        schema = ", ".join(f"{name} {type}" for name, type in data.columns.items())
        session = eventide.configure(spark.newSession(), default_shards(spark))
        reader = session.readStream.schema(schema).option("maxFilesPerTrigger", str(files_per_batch(data)))
        stream = eventide.stream(reader.json(str(watched)), name="s").event_time("ts", lag=f"{LAG_MS} milliseconds")
        windows = stream.group_by("k").window(eventide.tumble(f"{window.size_ms} milliseconds"))
        self._query: FluentQuery = windows.agg(n="count(*)", t="sum(v)", m="max(v)").start(str(checkpoint), self._add)

    def _add(self, rows: DataFrame, side: DataFrame, account: Account) -> None:
        self._totals += totals_of(rows.toArrow())

    def take(self) -> None:
        self._query.process_all()

    def totals(self) -> Totals:
        return self._totals

    def written(self) -> Written:
        return written_below(self._checkpoint)

    def close(self) -> None:
        self._query.stop()


def source_sql(data: Data, watched: Path, name: str = "s", options: Mapping[str, str] | None = None) -> str:
    columns = ", ".join(f"{name} {type}" for name, type in data.columns.items())
    time = "" if data.clicks else "EVENT TIME ts TYPE unixtimestamp_ms, "
    further = "".join(f", '{option}' = '{value}'" for option, value in (options or {}).items())
    ids = f", DEDUPLICATE BY id WITHIN {interval(LAG_MS)}" if data.has_ids else ""
    return f"""
        CREATE SOURCE {name} ({columns},
          {time}WATERMARK FOR ts AS ts - {interval(data.lag_ms)}{ids})
        WITH ('connector' = 'files', 'path' = '{watched}', 'format' = '{data.format}',
          'max_files_per_batch' = '{files_per_batch(data)}'{further})
    """


def stream_sql(window: Window, road: str = FUSED) -> str:
    if isinstance(window, IntervalJoin | TumbleJoin | AsofJoin | SessionJoin):
        return f"CREATE STREAM o AS SELECT l.v AS n, r.v AS t, l.k AS m FROM {LEFT} l {join_sql(window)} ON l.k = r.k"
    options = "WITH ('fused_scan' = 'false') " if road == UNFUSED else ""
    return f"""
        CREATE STREAM o {options}AS SELECT window_start, k, count(*) AS n, sum(v) AS t, max(v) AS m
        FROM s GROUP BY k, {window_sql(window)}
    """


def window_sql(window: Window) -> str:
    match window:
        case Tumble(size):
            return f"TUMBLE(ts, {interval(size)})"
        case Hop(size, slide):
            return f"HOP(ts, {interval(slide)}, {interval(size)})"
        case Session(gap):
            return f"SESSION(ts, {interval(gap)})"
        case Slide(lookback):
            return f"slidingwindow('ms', {lookback})"
        case _:
            raise ValueError(f"{window} is a join")


def join_sql(join: Join) -> str:
    """The words of the join, up to its ON."""
    match join:
        case IntervalJoin(within, outer):
            return f"{'LEFT ' if outer else ''}JOIN {RIGHT} r WITHIN ({interval(0)}, {interval(within)})"
        case TumbleJoin(size, outer):
            return f"{'LEFT ' if outer else ''}JOIN {RIGHT} r WITHIN TUMBLE({interval(size)})"
        case AsofJoin():
            return f"ASOF JOIN {RIGHT} r MATCH_CONDITION (l.ts >= r.ts)"
        case SessionJoin(gap):
            return f"JOIN {RIGHT} r WITHIN SESSION({interval(gap)})"


def interval(milliseconds: int) -> str:
    return f"INTERVAL '{milliseconds / 1000:g}' SECOND"
