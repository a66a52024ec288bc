"""Spark Structured Streaming as its users write it: the same windows, withWatermark, append mode, rows collected in
foreachBatch.

Its settings are those that Eventide uses for its own streams, including cheap bookkeeping on a local disk; only the
state store differs.
"""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, functions as F
from pyspark.sql.streaming.query import StreamingQuery

from benchmarks.data import files_per_batch
from benchmarks.engines.contract import Heard, Written, written_below
from benchmarks.totals import Totals, totals_of
from benchmarks.workloads import Data, Hop, IntervalJoin, Session, Tumble, TumbleJoin, Window, Workload
from eventide.spark.session import default_shards, streaming_session

_PROVIDERS = "org.apache.spark.sql.execution.streaming.state."
_STATE_STORE = "spark.sql.streaming.stateStore.providerClass"


class Native:
    def __init__(self, spark: SparkSession, name: str, provider: str) -> None:
        self.name = name
        self._session = streaming_session(spark, default_shards(spark))
        self._session.conf.set(_STATE_STORE, _PROVIDERS + provider)

    def can(self, workload: Workload) -> bool:
        return workload.has_native

    def start(self, workload: Workload, watched: Path, checkpoint: Path) -> NativeRun:
        return NativeRun(self._session, workload, watched, checkpoint)


def in_memory(spark: SparkSession) -> Native:
    return Native(spark, "native, memory", "HDFSBackedStateStoreProvider")


def with_rocksdb(spark: SparkSession) -> Native:
    return Native(spark, "native, RocksDB", "RocksDBStateStoreProvider")


class NativeRun:
    """The query starts with the first `take`, as Eventide's does."""

    def __init__(self, session: SparkSession, workload: Workload, watched: Path, checkpoint: Path) -> None:
        self._totals = Totals()
        self.heard: list[Heard] = []
        self._checkpoint = checkpoint
        results = computed(session, workload, watched)
        writer = results.writeStream.outputMode("append").foreachBatch(self._add)
        self._writer = writer.option("checkpointLocation", str(checkpoint))
        self._query: StreamingQuery | None = None

    def _add(self, frame: DataFrame, batch: int) -> None:
        rows: pa.Table = frame.toArrow()
        self._totals += totals_of(rows)
        windows = rows["window"].combine_chunks().field("start") if "window" in rows.column_names else None
        self.heard.append((time.time(), None if windows is None else pa.table({"window_start": windows})))

    def take(self) -> None:
        if self._query is None:
            self._query = self._writer.start()
        self._query.processAllAvailable()

    def totals(self) -> Totals:
        return self._totals

    def written(self) -> Written:
        return written_below(self._checkpoint)

    def close(self) -> None:
        if self._query is not None:
            self._query.stop()


def computed(session: SparkSession, workload: Workload, watched: Path) -> DataFrame:
    data, window = workload.data, workload.window
    if not isinstance(window, IntervalJoin | TumbleJoin):
        return windowed(events(session, data, watched), window)
    for side in data.sides:
        (watched / side).mkdir(exist_ok=True)
    left, right = (events(session, data, watched / side) for side in data.sides)
    return joined(left, right.withColumnsRenamed({"k": "rk", "v": "rv", "time": "rtime"}), window)


def joined(left: DataFrame, right: DataFrame, join: IntervalJoin | TumbleJoin) -> DataFrame:
    how = "left" if join.outer else "inner"
    if isinstance(join, IntervalJoin):
        within = F.expr(f"rtime BETWEEN time AND time + INTERVAL {join.within_ms} MILLISECONDS")
        pairs = left.join(right, (F.col("k") == F.col("rk")) & within, how)
    else:
        size = f"{join.size_ms} milliseconds"
        left = left.withColumn("pane", F.window("time", size))
        right = right.withColumn("rpane", F.window("rtime", size))
        pairs = left.join(right, (F.col("k") == F.col("rk")) & (F.col("pane") == F.col("rpane")), how)
    return pairs.select(F.col("v").alias("n"), F.col("rv").alias("t"), F.col("k").alias("m"))


def events(session: SparkSession, data: Data, watched: Path) -> DataFrame:
    schema = ", ".join(f"{name} {type}" for name, type in data.columns.items())
    reader = session.readStream.schema(schema).option("maxFilesPerTrigger", str(files_per_batch(data)))
    rows = reader.format(data.format).load(str(watched))
    rows = rows.withColumn("time", F.col("ts") if data.clicks else F.timestamp_millis("ts"))
    rows = rows.withWatermark("time", f"{data.lag_ms} milliseconds")
    return rows.dropDuplicatesWithinWatermark(["id"]) if data.has_ids else rows


def windowed(rows: DataFrame, window: Window) -> DataFrame:
    return rows.groupBy(bounds(window), "k").agg(F.count("*").alias("n"), F.sum("v").alias("t"), F.max("v").alias("m"))


def bounds(window: Window) -> Column:
    match window:
        case Tumble(size):
            return F.window("time", f"{size} milliseconds")
        case Hop(size, slide):
            return F.window("time", f"{size} milliseconds", f"{slide} milliseconds")
        case Session(gap):
            return F.session_window("time", f"{gap} milliseconds")
        case _:
            raise ValueError(f"Structured Streaming has no {window}")
