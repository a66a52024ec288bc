"""The fluent API on Spark: a plan over a user's DataFrames as streaming DataFrames, or as one running query."""

from __future__ import annotations

import datetime as dt
import math
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pyspark.sql import DataFrame, SparkSession, functions as F

from eventide.connectors.contract import SourceContext, TableFiles
from eventide.connectors.registry import TABLES
from eventide.errors import EnvironmentError, EventideError, OptionError, suggest
from eventide.kernels.contract import SIDE_KINDS, USED
from eventide.plan.logical import Stream
from eventide.plan.physical import Physical
from eventide.plan.planner import plan
from eventide.plan.reads import tables_of
from eventide.spark.compile import Compiled, CompileOptions, compile_stream
from eventide.spark.delivery import DeliveringRouter, FrameSink
from eventide.spark.engine import Engine
from eventide.spark.local import speed
from eventide.spark.pack import ACCOUNT, SIDE, TAG
from eventide.spark.refreshing import Refreshing
from eventide.spark.remote import is_remote, refuse_remote
from eventide.spark.router import Router
from eventide.spark.running import RunningStream
from eventide.spark.session import SparkOptions, default_shards, master_of
from eventide.spark.settings import STREAMING
from eventide.spark.side_output import SideOutput
from eventide.spark.store_access import settings_of
from eventide.spark.task_output import OutputForm
from eventide.storage.compaction import Keep
from eventide.storage.inbox import Entry
from eventide.storage.layout import Layout, Lock, hold
from eventide.storage.lease import Lease
from eventide.storage.opening import checkpoint_folder
from eventide.storage.paths import make_folder
from eventide.storage.payloads import PAYLOAD_SCHEMA
from eventide.storage.results import OUTPUT_TIME, Account, Results
from eventide.storage.time_bound import TimeBoundFile
from eventide.tasks.select_list import RANK

Frames = Mapping[str, DataFrame]  # by the name of the source that each one is

_NOT_NEEDED = (
    "spark.sql.execution.arrow.maxRecordsPerBatch",
    "spark.sql.streaming.stopTimeout",
    "spark.sql.json.enableExactStringParsing",
)
_BEAT_SECONDS = 0.25
_COMPACT_SECONDS = 5.0
_ACCOUNTS_ONLY = {"main": Keep(0), "side": Keep(0)}  # rows go to the user, and are not stored
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def configure(spark: SparkSession, shards: int | None = None) -> SparkSession:
    """Set on `spark` what streams need: RocksDB state, UTC, errors as rows. Returns the session.

    `shards` is the number of state partitions of the streams to come; by default one per core; on a
    remote session they stay as many as `spark.sql.shuffle.partitions` says.
    """
    faster = {} if is_remote(spark) else speed.streaming_settings(master_of(spark), None)
    for key, value in {**STREAMING, **faster}.items():
        spark.conf.set(key, value)
    if shards is not None or not is_remote(spark):  # whose cores only its server knows
        spark.conf.set("spark.sql.shuffle.partitions", str(shards or default_shards(spark)))
    return spark


def check_session(spark: SparkSession) -> None:
    """Raise an error that names every setting that is missing."""
    wrong = {
        key: value for key, value in STREAMING.items() if key not in _NOT_NEEDED and spark.conf.get(key, None) != value
    }
    if wrong:
        lines = "\n".join(f'  spark.conf.set("{key}", "{value}")' for key, value in wrong.items())
        raise EnvironmentError(
            f"the Spark session lacks settings that streams need:\n{lines}",
            help="eventide.configure(spark) sets them for you",
        )


# Streaming DataFrames ---------------------------------------------------------------------------------------------


def tagged(stream: Stream, frames: Frames) -> DataFrame:
    """What the operator gives, the account of every batch and shard included."""
    physical = plan(stream)
    spark = _session(frames)
    _refuse_heartbeat(physical)
    tables = {name: TABLES[table.connector].read(spark, table) for name, table in tables_of(stream.query).items()}
    shards = physical.options.shards or int(spark.conf.get("spark.sql.shuffle.partitions", "") or default_shards(spark))
    context = SourceContext(spark, None, Path(), frames=frames, tables=tables)
    # nobody would start the query again with guards if it stopped for lack of them; they need a JVM
    options = CompileOptions(typed=True, guards=not is_remote(spark))
    return compile_stream(physical, context, shards, options).frame


def rows(stream: Stream, frames: Frames) -> DataFrame:
    return main_rows(tagged(stream, frames))


def side_output(stream: Stream, frames: Frames, kind: str | None) -> DataFrame:
    if kind is not None and kind not in SIDE_KINDS:
        raise OptionError(f"there is no side output {kind}", help=suggest(kind, SIDE_KINDS))
    payloads = side_rows(tagged(stream, frames))
    return payloads if kind is None else payloads.where(F.col("kind") == kind)


def main_rows(frame: DataFrame) -> DataFrame:
    return frame.where(F.col(TAG) == "main").drop(TAG, SIDE, ACCOUNT, OUTPUT_TIME, RANK)


def side_rows(frame: DataFrame) -> DataFrame:
    """The payloads, with the fields of PAYLOAD_SCHEMA in their order."""
    bounds = F.struct(F.col(f"{SIDE}.window_start").alias("start"), F.col(f"{SIDE}.window_end").alias("end"))
    window = F.when(F.col(f"{SIDE}.window_start").isNotNull(), bounds)
    columns = [(window if name == "window" else F.col(f"{SIDE}.{name}")).alias(name) for name in PAYLOAD_SCHEMA.names]
    return frame.where(F.col(TAG) == "side").select(*columns)


def _session(frames: Frames) -> SparkSession:
    spark = next(iter(frames.values())).sparkSession
    check_session(spark)
    return spark


def _refuse_heartbeat(physical: Physical) -> None:
    """A bare DataFrame has nobody who tells it that time passes."""
    if physical.emit.every is not None:
        raise OptionError(
            "emit(every=...) needs a running query", help="use start(checkpoint, sink) in place of rows()"
        )
    for table in tables_of(physical.stream.query).values():
        if table.refresh is not None:
            raise OptionError(
                f"{table.name}: refresh needs a running query, which decides between batches",
                help="use start(checkpoint, sink) in place of rows(), or leave it out: the table is then read once",
            )
    for input in physical.inputs:
        if input.source.idle_timeout is not None:
            raise OptionError(
                f"{input.source.name}: idle_timeout needs a running query",
                help="use start(checkpoint, sink) in place of rows()",
            )
        admission = input.source.admission
        if admission is not None and (admission.needs_history or admission.sheds):
            raise OptionError(
                f"{input.source.name}: a rate, a jitter budget and shedding need a running query, which decides "
                "between batches",
                help="use start(checkpoint, sink) in place of rows(), or limit the lag alone",
            )


# A running query --------------------------------------------------------------------------------------------------


class _FrameEngine(Engine):
    """An engine whose sources are a user's DataFrames, on the session that they belong to."""

    def __init__(self, layout: Layout, spark: SparkSession, frames: Frames, sink: FrameSink | None) -> None:
        self._frames, self._sink = frames, sink
        super().__init__(
            layout,
            spark,
            SparkOptions(),
            shards=None,  # a setting of the session is not a request for this stream
            default_shards=int(spark.conf.get("spark.sql.shuffle.partitions", "") or default_shards(spark)),
        )

    def _compile(self, physical: Physical, shards: int, options: CompileOptions) -> Compiled:
        inbox = self._layout.inbox(physical.stream.name)
        make_folder(inbox)
        context = SourceContext(
            self.spark,
            inbox,
            self._layout.root / "sources",
            frames=self._frames,
            orders=self._layout.shed_orders(physical.stream.name),
            tables=TableFiles(self._layout.tables, self._layout.table_log(physical.stream.name)),
        )
        return compile_stream(physical, context, shards, options)

    def _router(
        self,
        stream: Stream,
        results: Results,
        sources: tuple[str, ...],
        bound: TimeBoundFile | None,
        side: SideOutput,
        compiled: Compiled,
    ) -> Router:
        form = OutputForm(compiled.outputs, compiled.originals)
        return DeliveringRouter(stream.name, results, sources, bound, side, form=form, sink=self._sink)


def start(stream: Stream, frames: Frames, checkpoint: str, sink: FrameSink | None) -> FluentQuery:
    spark = _session(frames)
    refuse_remote(spark, "start()")
    layout = Layout(checkpoint_folder(checkpoint, settings_of(spark)))
    layout.make_private()
    lock = hold(layout)
    try:
        engine = _FrameEngine(layout, spark, frames, sink)
        tables = list(tables_of(stream.query).values())
        return FluentQuery(engine.open(stream, ()), tuple(frames), lock, Refreshing(engine.tables, lambda: tables))
    except BaseException:
        lock.release()
        raise


class FluentQuery:
    """A stream that runs in the background until `stop`. As a context manager it stops at the end of the block."""

    def __init__(
        self, running: RunningStream, sources: tuple[str, ...], lock: Lock | Lease, refreshing: Refreshing
    ) -> None:
        self._running = running
        self._sources = sources
        self._lock = lock
        self._refreshing = refreshing
        self._guard = threading.RLock()
        self._live = True
        running.start()
        self._clock = threading.Thread(target=self._keep_time, name="eventide heartbeat", daemon=True)
        self._clock.start()

    @property
    def is_active(self) -> bool:
        return self._running.goes_on

    def process_all(self) -> None:
        """Return when all that is there has been taken in and given out; raises why the query failed, if it did."""
        self._refreshing.now()
        with self._guard:
            self._running.take_tables()
            self._running.process()

    def advance_watermark(self, ts: int | dt.datetime, source: str | None = None) -> None:
        """Promise that no row with event time <= `ts` follows, milliseconds or a datetime; of all sources, or of
        one.
        """
        if source is not None and source not in self._sources:
            raise OptionError(f"there is no source {source}", help=suggest(source, self._sources))
        names = self._sources if source is None else (source,)
        with self._guard:
            self._running.inbox.publish([Entry("watermark", name, None, _micros(ts)) for name in names])

    def watermark(self) -> int | None:
        """Milliseconds since the epoch, or None before the first row."""
        micros = self._running.watermark()
        return None if micros is None else micros // 1000

    def accounting(self) -> dict[str, int]:
        """Totals since the stream began: rows_in = used + late + duplicate + error + evicted + rejected + shed."""
        account = self.account()
        return {name: account.totals.get(name, 0) if account else 0 for name in ("rows_in", USED, *SIDE_KINDS)}

    def account(self) -> Account | None:
        """The newest batch's account, with totals, gauges and the sources' watermarks."""
        return self._running.router.results.latest()

    def failed(self) -> EventideError | None:
        """Why the query has stopped by itself, if it has."""
        return self._running.failed()

    def await_termination(self, seconds: float | None = None) -> bool:
        """Wait until the query ends, at most `seconds`; whether it has. Raises why it failed, if it did."""
        end = None if seconds is None else time.monotonic() + seconds
        while self.is_active and (end is None or time.monotonic() < end):
            time.sleep(0.1)
        failure = self.failed()
        if failure is not None:
            raise failure
        return not self.is_active

    def stop(self, graceful: bool = False) -> None:
        """End the query; a graceful stop takes in all that is there and gives out what is still open."""
        self._live = False
        self._clock.join()
        self._refreshing.wait()
        with self._guard:
            try:
                if graceful:
                    self._running.drain()
                    self._running.flush()
            finally:
                self._running.stop()
                self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _keep_time(self) -> None:
        compact_at = 0.0
        while self._live:
            self._refreshing.in_background()
            with self._guard:
                if self._live:
                    self._running.keep_running()
                if self._live and self._running.is_active:
                    self._running.beat()
                if self._live and time.monotonic() >= compact_at:
                    self._running.compact(_ACCOUNTS_ONLY, math.inf, ())
                    compact_at = time.monotonic() + _COMPACT_SECONDS
            time.sleep(_BEAT_SECONDS)


def _micros(ts: Any) -> int:
    if isinstance(ts, bool) or not isinstance(ts, int | dt.datetime):
        raise OptionError(f"a watermark is an int of milliseconds or a datetime, not {ts!r}")
    if isinstance(ts, int):
        return ts * 1000
    return ((ts if ts.tzinfo else ts.replace(tzinfo=dt.UTC)) - _EPOCH) // dt.timedelta(microseconds=1)
