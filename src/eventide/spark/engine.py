"""All streams of one database on one Spark session."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from eventide.admission.throttle import Queue
from eventide.connectors.arrow_types import from_arrow_type
from eventide.connectors.contract import Scans, SourceContext, TableFiles
from eventide.connectors.dataframe.read import ddl
from eventide.connectors.files.write import FilesSink
from eventide.connectors.foreach.write import ForeachSink, Function
from eventide.connectors.readers import OF_INBOX, with_secrets
from eventide.connectors.sink import Sink
from eventide.connectors.writers import open_sink
from eventide.errors import EngineError, SqlError
from eventide.eventtime.heartbeat import Heartbeat
from eventide.plan import logical
from eventide.plan.fusion import Fused
from eventide.plan.names import owner_of
from eventide.plan.physical import Physical
from eventide.plan.planner import plan
from eventide.plan.reads import sources_of, with_columns
from eventide.plan.stream_source import CONNECTOR, IS_LATE, STREAM
from eventide.spark import session as sessions, stream_parts, task_lookup
from eventide.spark.analysis import REFUSED, first_sentence
from eventide.spark.batch_facts import FactsOf
from eventide.spark.cluster import Executors
from eventide.spark.compile import Compiled, CompileOptions, compile_stream
from eventide.spark.moved_state import cutting_of
from eventide.spark.remote import refuse_remote
from eventide.spark.replay import check_replayable, corrections
from eventide.spark.router import Router, StoringRouter
from eventide.spark.running import RunningStream
from eventide.spark.side_output import SideOutput
from eventide.spark.store_access import need_store
from eventide.spark.stream_output import StreamOutput
from eventide.spark.stream_parts import EMBEDDED
from eventide.spark.stream_plans import StreamPlans
from eventide.spark.tables import TableReader
from eventide.spark.task_output import OutputForm
from eventide.storage.layout import Layout
from eventide.storage.paths import make_folder
from eventide.storage.payloads import late_schema, original_rows
from eventide.storage.replays import Replays, late_payloads
from eventide.storage.results import Account, Results
from eventide.storage.time_bound import TimeBoundFile
from eventide.tasks.cutting import Cutting

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG = logging.getLogger("eventide")
_LAST_DELIVERIES_SECONDS = 5.0  # for side sinks, when a stream is let go


class Engine:
    def __init__(
        self,
        layout: Layout,
        spark: SparkSession | None,
        options: sessions.SparkOptions,
        shards: int | None,
        default_shards: int | None = None,
    ) -> None:
        """`options` are for a Spark that is started here, where `spark` is None. `shards` are those that the user asks
        for, `default_shards` what else a stream gets: as many as there are cores, if not said.
        """
        refuse_remote(spark, "connect(spark=…)")
        self._layout = layout
        self._owns_spark = spark is None
        self._local_speed = options.local_speed
        self.spark = sessions.acquire(options) if spark is None else spark
        try:
            self.executors = Executors(self.spark)
            need_store(self.spark, layout.owners)
            self.executors.need_package()
            self.executors.need_checkpoint(layout.root)
            self._cores = sessions.default_shards(self.spark)
        except BaseException:
            self._release()
            raise
        self._default_shards = shards or default_shards or self._cores
        self._plans = StreamPlans(layout, self._compile, self._default_shards, shards)
        self._streams: dict[str, RunningStream] = {}
        self.tables = TableReader(layout, lambda: self._session(self._default_shards))
        self._functions: dict[str, list[tuple[Function, bool]]] = {}
        self.listeners: list[Callable[[str, Account], object]] = []  # told of each batch of every stream
        self.muted: set[str] = set()  # streams whose side output goes nowhere

    def open(
        self,
        stream: logical.Stream,
        sinks: Iterable[logical.Sink],
        side_sinks: Mapping[str, logical.Sink] | None = None,
        sql: str = "",
    ) -> RunningStream:
        """The stream, compiled and ready, from its checkpoint if it has one. Raises what is wrong with it.

        `sinks` take its rows or its late rows; `side_sinks` are those by name that its side output may go to. The
        streams that it reads must be open. `sql` is the statement that made it, to be kept.
        """
        if stream.name in self._streams:
            return self._streams[stream.name]
        stream = self._with_types(stream)
        physical = plan(stream)
        compiled = self._plans.compiled(physical, sql)
        read = stream_parts.sources_by_name(physical)
        upstreams = {name: self._output(source) for name, source in read.items() if source.connector == CONNECTOR}
        router = self._opened_router(stream, physical, compiled, side_sinks or {})
        running = RunningStream(
            stream.name,
            self._layout.stream(stream.name),
            compiled,
            partial(self._plans.replanned, physical),
            router,
            stream_parts.backlog(self._layout, physical, upstreams),
            [self._streams[source.options[STREAM]] for source in read.values() if source.connector == CONNECTOR],
            Heartbeat(stream_parts.timings(physical), compiled.spec.tick_every),
            partial(stream_parts.check_sources, physical),
            any(source.connector not in (EMBEDDED, CONNECTOR) for source in read.values()),
            {name: source.admission for name, source in read.items() if source.admission is not None},
            stream_parts.shedding(self._layout, stream, read),
            stream_parts.lanes(read),
            stream_parts.stream_tables(self._layout, stream, self.tables),
            stream.options.trigger,
        )
        self._streams[stream.name] = running
        for sink in sinks:
            self.attach(stream, sink)
        for function, late in self._functions.get(stream.name, ()):
            self._call(stream.name, function, late)
        return running

    def _opened_router(
        self,
        stream: logical.Stream,
        physical: Physical,
        compiled: Compiled,
        side_sinks: Mapping[str, logical.Sink],
    ) -> Router:
        """What takes the batches of a stream, with its results and side output, as it begins or goes on."""
        results = Results(self._layout.results(stream.name))
        results.tidy()
        identity = self._plans.identity(stream.name)
        side = (
            SideOutput(stream.routes)
            if owner_of(stream.name) in self.muted
            else stream_parts.side_output(self._layout, stream, side_sinks, results, identity)
        )
        bound = TimeBoundFile(self._layout.time_bound(stream.name)) if any(compiled.fused) else None
        inputs = tuple(input.source.name for input in physical.inputs)
        router = self._router(stream, results, inputs, bound, side, compiled)
        router.listeners = self.listeners
        looks_up = task_lookup.looks_up(physical.inputs)
        router.tells_tasks = looks_up or not all(compiled.fused)
        if looks_up or any(input.decoding or input.source.connector in OF_INBOX for input in physical.inputs):
            router.offsets = self._layout.spark(stream.name) / "offsets"
        return router

    def _with_types(self, stream: logical.Stream) -> logical.Stream:
        """The stream with the types of what it reads from other streams, which are known once those are analysed."""
        types = {
            source.name: self._columns(source) for source in sources_of(stream.query) if source.connector == CONNECTOR
        }
        return with_columns(stream, types) if types else stream

    def _columns(self, source: logical.Source) -> tuple[logical.Column, ...]:
        compiled = self._streams[source.options[STREAM]].compiled
        schema = late_schema(compiled.originals) if IS_LATE in source.options else compiled.outputs
        known = {field.name: ddl(from_arrow_type(field.type)) for field in schema}
        return tuple(logical.Column(column.name, known.get(column.name, column.type)) for column in source.columns)

    def _output(self, source: logical.Source) -> StreamOutput:
        upstream = self._streams[source.options[STREAM]]
        is_late = IS_LATE in source.options
        spec = upstream.compiled.spec
        return StreamOutput(upstream.router.results, spec.output_watermark, is_late, upstream.watermark)

    def _router(
        self,
        stream: logical.Stream,
        results: Results,
        sources: tuple[str, ...],
        bound: TimeBoundFile | None,
        side: SideOutput,
        compiled: Compiled,
    ) -> Router:
        """What takes the batches of a stream."""
        form = OutputForm(compiled.outputs, compiled.originals, stream.routes)
        return StoringRouter(stream.name, results, sources, bound, side, form=form)

    def _sinks(self, stream: str, late: bool) -> list[Sink]:
        """The sinks that take the rows of an open stream, or its late rows."""
        router = self._streams[stream].router
        if not isinstance(router, StoringRouter):
            raise EngineError(f"stream {stream} hands its batches to a function, and has no sinks")
        return router.late_sinks if late else router.sinks

    def cutting(self, stream: RunningStream, shards: int) -> Cutting | str:
        """How the state of an open stream is cut into so many shards, or why it cannot be."""
        return cutting_of(stream.compiled, self.spark, self._plans.shards(stream.name), shards)

    def opened(self, name: str) -> RunningStream | None:
        """The stream if it has been opened; opens nothing."""
        return self._streams.get(name)

    def fused(self, name: str) -> Fused | None:
        """What an open stream runs as one."""
        running = self._streams.get(name)
        return None if running is None else running.compiled.stages

    def queues(self, source: str) -> list[Queue]:
        """What waits for each open stream that reads an embedded source and is paced."""
        found = [stream.backlog.queue() for stream in self._streams.values() if source in stream.backlog.spools]
        return [queue for queue in found if queue is not None]

    def attach(self, stream: logical.Stream, sink: logical.Sink) -> None:
        """Let `sink` take what `stream` gives from its next batch on."""
        writer = open_sink(sink, self._plans.identity(stream.name))
        if isinstance(writer, FilesSink):
            writer.tidy()
        if writer is not None:
            self._sinks(stream.name, late=sink.stream != stream.name).append(writer)

    def replayed(self, stream: str) -> list[int]:
        """The last batch whose late rows were replayed, if any were."""
        folder = self._layout.replay(stream)
        return [Replays(folder).upto] if folder.exists() else []

    def foreach(self, stream: logical.Stream, function: Function, late: bool) -> None:
        """Let `function` take what `stream` gives, or its late rows, from its next batch on."""
        self._functions.setdefault(stream.name, []).append((function, late))
        if stream.name in self._streams:
            self._call(stream.name, function, late)

    def _call(self, stream: str, function: Function, late: bool) -> None:
        self._sinks(stream, late).append(ForeachSink(stream, function))

    def replay(self, stream: logical.Stream, sinks: Iterable[logical.Sink]) -> pa.Table:
        """Fold late rows that were not replayed yet into their closed windows; returns the corrections."""
        physical = plan(stream)
        check_replayable(physical)
        physical = replace(physical, plan_id=self._plans.first_id(stream.name))
        running, replays = self._streams[stream.name], Replays(self._layout.replay(stream.name))
        results, compiled = running.router.results, running.compiled
        late = late_payloads(results, replays.upto)
        if not late:
            return compiled.outputs.empty_table()
        number, upto = replays.begin(max(late))
        payloads = pa.concat_tables([payloads for batch, payloads in late.items() if batch <= upto])
        before = pa.concat_tables([results.read("main", compiled.outputs), replays.read(compiled.outputs)])
        rows, times = original_rows(payloads, compiled.originals[0]), payloads["event_time"].combine_chunks()
        session = self._session(self._default_shards)
        corrected = corrections(session, physical, rows, times, before, compiled.outputs)
        self._write_corrections(stream, sinks, number, corrected)
        replays.finish(number, upto, corrected, payloads.num_rows)
        return corrected

    def _write_corrections(
        self, stream: logical.Stream, sinks: Iterable[logical.Sink], number: int, rows: pa.Table
    ) -> None:
        """To the sinks, numbered apart from the stream's batches: under another identity, or below zero."""
        identity = f"{self._plans.identity(stream.name)}late"
        for sink in sinks:
            writer = open_sink(sink, identity) if sink.stream == stream.name else None
            if writer is not None:
                with contextlib.closing(writer):
                    writer.write(number, rows)
        for function, late in self._functions.get(stream.name, ()):
            if not late:
                ForeachSink(stream.name, function).write(-1 - number, rows)

    def forget(self, name: str) -> None:
        running = self._streams.pop(name, None)
        if running is not None:
            running.stop()
            running.router.close(_LAST_DELIVERIES_SECONDS)

    def reset(self) -> None:
        """Stop and forget all streams; the next `open` starts from their checkpoints."""
        for name in list(self._streams):
            self.forget(name)

    def select(self, sql: str, tables: Mapping[str, pa.Table]) -> pa.Table:
        """An ad-hoc query over tables, evaluated by Spark."""
        session = self._session(self._default_shards)
        for name, table in tables.items():
            sessions.frame_of(session, table).createOrReplaceTempView(f"`{name}`")
        try:
            return session.sql(sql).toArrow()
        except REFUSED as error:
            raise SqlError(first_sentence(error)) from None

    def close(self) -> None:
        self.reset()
        self._release()

    def _release(self) -> None:
        if self._owns_spark:
            self._owns_spark = False
            sessions.release(self.spark)

    def _session(self, shards: int) -> SparkSession:
        return sessions.streaming_session(self.spark, shards, self._local_speed)

    def change(self, old: logical.Stream, new: logical.Stream, sql: str, differences: Iterable[str]) -> None:
        """Let an open stream go on under another text from its next batch on; `open` it with that text afterwards.

        A batch that was planned under the old text is finished under it. The caller has compared the two.
        """
        running = self._streams[old.name]
        running.settle()
        latest = running.router.results.latest()
        self.forget(old.name)
        self._plans.change(old, self._with_types(new), sql, differences, latest)

    def _compile(self, physical: Physical, shards: int, options: CompileOptions) -> Compiled:
        name = physical.stream.name
        opened = tuple(replace(input, source=with_secrets(input.source)) for input in physical.inputs)
        physical = replace(physical, inputs=opened)
        for input in opened:
            self.executors.need_for(input.source)
        session = self._session(shards)
        make_folder(self._layout.inbox(name))
        scans = Scans(self._layout.scans(name), self._layout.time_bound(name), self._cores)
        context = SourceContext(
            session,
            self._layout.inbox(name),
            self._layout.root / "sources",
            self._layout.root / "streams",
            scans,
            orders=self._layout.shed_orders(name),
            tables=TableFiles(self._layout.tables, self._layout.table_log(name)),
            told=FactsOf(str(self._layout.stream(name))),
        )
        try:
            compiled = compile_stream(physical, context, shards, options)
        except REFUSED as error:
            raise SqlError(first_sentence(error)) from None
        sessions.start_workers(session)
        return compiled
