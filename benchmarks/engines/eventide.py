"""Eventide, through its public API."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

import eventide
from benchmarks.engines.contract import Written, written_below
from benchmarks.totals import Totals, totals_of
from benchmarks.workloads import FILES_PER_BATCH, LAG_MS, Data, Hop, Session, Slide, Tumble, Window, Workload

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Eventide:
    name = "eventide"

    def __init__(self, spark: SparkSession | None = None, conf: Mapping[str, str] | None = None) -> None:
        """Without `spark`, one is started, with `conf` as its settings."""
        self._spark = spark
        self._conf = conf

    def can(self, workload: Workload) -> bool:
        return True

    def start(self, workload: Workload, watched: Path, checkpoint: Path) -> EventideRun:
        return EventideRun(eventide.connect(checkpoint, self._spark, conf=self._conf), workload, watched, checkpoint)


class EventideRun:
    def __init__(self, db: eventide.Database, workload: Workload, watched: Path, checkpoint: Path) -> None:
        self.db = db
        self._checkpoint = checkpoint
        self._totals = Totals()
        db.execute(source_sql(workload.data, watched))
        db.execute(stream_sql(workload.window))
        db.foreach("o", self._add)

    def _add(self, batch: int, rows: pa.Table) -> None:
        self._totals += totals_of(rows)

    def take(self) -> None:
        self.db.tick()

    def totals(self) -> Totals:
        return self._totals

    def written(self) -> Written:
        return written_below(self._checkpoint)

    def close(self) -> None:
        self.db.close()


def source_sql(data: Data, watched: Path) -> str:
    columns = ", ".join(f"{name} {type}" for name, type in data.columns.items())
    ids = f", DEDUPLICATE BY id WITHIN {interval(LAG_MS)}" if data.has_ids else ""
    return f"""
        CREATE SOURCE s ({columns},
          EVENT TIME ts TYPE unixtimestamp_ms, WATERMARK FOR ts AS ts - {interval(LAG_MS)}{ids})
        WITH ('connector' = 'files', 'path' = '{watched}', 'format' = '{data.format}',
          'max_files_per_batch' = '{FILES_PER_BATCH}')
    """


def stream_sql(window: Window) -> str:
    return f"""
        CREATE STREAM o AS SELECT window_start, k, count(*) AS n, sum(v) AS t, max(v) AS m
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


def interval(milliseconds: int) -> str:
    return f"INTERVAL '{milliseconds / 1000:g}' SECOND"
