"""The engines that run the queries inside this process: Eventide, and Structured Streaming where it can."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import eventide
from benchmarks.figures import OURS
from benchmarks.nexmark import native_queries
from benchmarks.nexmark.files import write_last
from benchmarks.nexmark.material import FILES_PER_BATCH, Material
from benchmarks.nexmark.queries import NAMES, Places, has_windows, query_sql, sources_sql
from eventide.spark.session import default_shards, streaming_session

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

NATIVE = "native Spark"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


class Run(Protocol):
    """A query that has just been started, over the files of the folder that it watches."""

    def take(self) -> None:
        """Returns when everything that is in the folder has been processed."""

    def finish(self, end_ms: int) -> None:
        """Close windows that are open: nothing comes any more before `end_ms`."""

    def rows(self) -> pa.Table:
        """Everything that was given so far; `op` says of a change log what became of a row."""

    def close(self) -> None: ...


class Engine(Protocol):
    name: str

    def repeats(self, query: str) -> bool:
        """Whether it gives a group anew when it changes, without taking back what it gave before."""

    def can(self, query: str) -> bool: ...

    def start(self, query: str, material: Material, folder: Path) -> Run:
        """`folder` is empty; the query watches `folder / "watched"`."""


class Eventide:
    name = OURS

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def can(self, query: str) -> bool:
        return query in NAMES

    def repeats(self, query: str) -> bool:
        return False

    def start(self, query: str, material: Material, folder: Path) -> EventideRun:
        return EventideRun(eventide.connect(folder / "checkpoint", self._spark), query, places(material, folder))


class EventideRun:
    def __init__(self, db: eventide.Database, query: str, places: Places) -> None:
        self._db, self._query = db, query
        db.execute(sources_sql(places))
        db.execute(query_sql(query, places))

    def take(self) -> None:
        self._db.tick()

    def finish(self, end_ms: int) -> None:
        if not has_windows(self._query):
            return  # all is given
        if self._query == "q12":
            self._db.stop(graceful=True)  # its windows would close by the clock
            return
        self._db.advance_watermark("nexmark", end_ms)
        self._db.tick()

    def rows(self) -> pa.Table:
        return self._db.read(self._query).arrow()

    def close(self) -> None:
        self._db.close()


class Native:
    """Structured Streaming as its users write it, with RocksDB; rows are collected as Arrow in foreachBatch."""

    name = NATIVE

    def __init__(self, spark: SparkSession) -> None:
        self._session = streaming_session(spark, default_shards(spark))
        self._session.conf.set("spark.sql.streaming.stateStore.providerClass", _ROCKSDB)

    def can(self, query: str) -> bool:
        return query in native_queries.QUERIES

    def repeats(self, query: str) -> bool:
        return native_queries.MODES.get(query) == "update"

    def start(self, query: str, material: Material, folder: Path) -> NativeRun:
        return NativeRun(self._session, query, material, folder)


class NativeRun:
    def __init__(self, session: SparkSession, query: str, material: Material, folder: Path) -> None:
        self._given: list[pa.Table] = []
        self._name, self._watched = query, folder / "watched"
        frame = native_queries.QUERIES[query](
            native_queries.Views(session, self._watched, FILES_PER_BATCH, material.side_input)
        )
        mode = native_queries.MODES.get(query, "append")
        writer = frame.writeStream.outputMode(mode).foreachBatch(self._add)
        self._writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
        self._query: StreamingQuery | None = None

    def _add(self, frame: DataFrame, batch: int) -> None:
        self._given.append(frame.toArrow())

    def take(self) -> None:
        if self._query is None:
            self._query = self._writer.start()
        self._query.processAllAvailable()

    def finish(self, end_ms: int) -> None:
        """A watermark comes from rows alone: so one of each kind, in windows of their own that stay open."""
        if has_windows(self._name):
            write_last(self._watched, end_ms)
            self.take()

    def rows(self) -> pa.Table:
        return pa.concat_tables(self._given)

    def close(self) -> None:
        if self._query is not None:
            self._query.stop()


def places(material: Material, folder: Path) -> Places:
    (folder / "watched").mkdir(exist_ok=True)
    return Places(folder / "watched", material.side_input, folder / "output", FILES_PER_BATCH)
