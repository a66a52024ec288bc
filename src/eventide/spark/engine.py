"""All streams of one database on one Spark session."""

from __future__ import annotations

import contextlib
import logging
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from eventide.admission.pacing import AdaptiveBatcher, Pacing
from eventide.admission.shed_log import ShedLog
from eventide.admission.shedding import Shedding
from eventide.admission.throttle import Queue
from eventide.connectors.arrow_types import from_arrow_type
from eventide.connectors.contract import Scans, SourceContext, TableFiles
from eventide.connectors.dataframe.read import ddl
from eventide.connectors.files.listing import Listing
from eventide.connectors.files.waiting import TAKEN, FilesWaiting
from eventide.connectors.files.write import FilesSink
from eventide.connectors.foreach.write import ForeachSink, Function
from eventide.connectors.readers import with_secrets
from eventide.connectors.registry import reads
from eventide.connectors.sink import Sink
from eventide.connectors.writers import open_sink
from eventide.errors import CheckpointError, EngineError, OptionError, SqlError
from eventide.eventtime.durations import SECOND
from eventide.eventtime.heartbeat import Heartbeat, SourceTiming
from eventide.eventtime.lanes import LaneSilence
from eventide.plan import logical
from eventide.plan.changes import lateness
from eventide.plan.difference import canonical, difference
from eventide.plan.fusion import Fused
from eventide.plan.names import owner_of
from eventide.plan.pace import pace_of
from eventide.plan.physical import Physical, ProcessTimeWatermark
from eventide.plan.planner import plan, plan_id
from eventide.plan.reads import sources_of, tables_of, window_of, with_columns
from eventide.plan.side_output import Route
from eventide.plan.stream_source import CONNECTOR, IS_LATE, STREAM
from eventide.plan.windows import Tumble
from eventide.spark import session as sessions
from eventide.spark.analysis import REFUSED, first_sentence
from eventide.spark.backlog import Backlog
from eventide.spark.cluster import Executors
from eventide.spark.compile import Compiled, Origin, compile_stream
from eventide.spark.inputs import unfused
from eventide.spark.moving import follow
from eventide.spark.remote import refuse_remote
from eventide.spark.replay import check_replayable, corrections
from eventide.spark.router import Router, StoringRouter
from eventide.spark.running import RunningStream
from eventide.spark.side_channel import Channel
from eventide.spark.side_output import SideOutput
from eventide.spark.stream_output import StreamOutput
from eventide.spark.tables import StreamTables, TableReader
from eventide.spark.task_output import OutputForm
from eventide.spark.why_ended import Need
from eventide.storage.atomic import read_json, write_json
from eventide.storage.inbox import Inbox
from eventide.storage.layout import Layout
from eventide.storage.outbox import Outbox
from eventide.storage.payloads import JSON_FIELDS, late_schema, original_rows
from eventide.storage.replays import Replays, late_payloads
from eventide.storage.results import Account, Results
from eventide.storage.spool import Spool
from eventide.storage.tables import VersionLog
from eventide.storage.texts import Text, Texts, next_batch
from eventide.storage.time_bound import TimeBoundFile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG = logging.getLogger("eventide")
EMBEDDED = "embedded"  # the connector of rows that are written by this process
_LAST_DELIVERIES_SECONDS = 5.0  # for side sinks, when a stream is let go


class Engine:
    def __init__(
        self,
        layout: Layout,
        spark: SparkSession | None,
        options: sessions.SparkOptions,
        shards: int | None,
    ) -> None:
        """`options` are for a Spark that is started here, where `spark` is None."""
        refuse_remote(spark, "connect(spark=…)")
        self._layout = layout
        self._owns_spark = spark is None
        self._asked_shards = shards
        self._local_speed = options.local_speed
        self.spark = sessions.acquire(options) if spark is None else spark
        try:
            self.executors = Executors(self.spark)
            self.executors.need_package()
            self.executors.need_checkpoint(layout.root)
            self._cores = sessions.default_shards(self.spark)
        except BaseException:
            self._release()
            raise
        self._default_shards = shards or self._cores
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
        settings, compiled = self._settings(stream, physical, sql)
        names = tuple(input.source.name for input in physical.inputs)
        heartbeat = Heartbeat(_timings(physical), compiled.spec.tick_every)
        results = Results(self._layout.results(stream.name))
        results.tidy()
        side = self._side_output(stream, side_sinks or {}, results, settings["identity"])
        bound = TimeBoundFile(self._layout.time_bound(stream.name)) if any(compiled.fused) else None
        router = self._router(stream, results, names, bound, side, compiled)
        router.listeners = self.listeners
        read = {input.source.name: input.source for input in physical.inputs}
        running = RunningStream(
            stream.name,
            self._layout.stream(stream.name),
            compiled,
            partial(self._replanned, stream, physical),
            router,
            self._backlog(physical, Inbox(self._layout.inbox(stream.name))),
            [self._streams[source.options[STREAM]] for source in read.values() if source.connector == CONNECTOR],
            heartbeat,
            partial(_check_sources, physical),
            any(source.connector not in (EMBEDDED, CONNECTOR) for source in read.values()),
            {source.name: source.admission for source in read.values() if source.admission is not None},
            self._shedding(stream, read.values()),
            {
                source.name: LaneSilence(source.idle_timeout)
                for source in read.values()
                if reads(source.connector).has_partitions
            },
            self._stream_tables(stream),
            stream.options.trigger,
        )
        self._streams[stream.name] = running
        for sink in sinks:
            self.attach(stream, sink)
        for function, late in self._functions.get(stream.name, ()):
            self._call(stream.name, function, late)
        return running

    def _backlog(self, physical: Physical, inbox: Inbox) -> Backlog:
        """What waits for the stream: in the spools of its sources, in the streams that it reads, in folders."""
        sources = {input.source.name: input.source for input in physical.inputs}
        upstreams = {name: self._output(source) for name, source in sources.items() if source.connector == CONNECTOR}
        spools = {name: Spool(self._layout.source(name)) for name in sources if name not in upstreams}
        folders = [
            self._files_waiting(physical.stream.name, number, with_secrets(input.source))
            for number, input in enumerate(physical.inputs)
            if input.source.connector == "files" and any(map(_is_load_measured, sources.values()))
        ]
        paces = [pace for each in sources.values() if each.connector == "embedded" and (pace := pace_of(each))]
        batcher = AdaptiveBatcher(Pacing(min(paces) / SECOND)) if paces else None
        return Backlog(inbox, spools, upstreams, [folder for folder in folders if folder is not None], batcher)

    def _files_waiting(self, stream: str, number: int, source: logical.Source) -> FilesWaiting | None:
        """None where only Spark can list the folder."""
        try:
            listing = Listing(source.options["path"])
        except OptionError:
            return None
        return FilesWaiting(listing.new_files, self._layout.scans(stream) / str(number) / TAKEN)

    def _shedding(self, stream: logical.Stream, sources: Iterable[logical.Source]) -> Shedding | None:
        specs = {source.name: source.admission for source in sources if source.admission and _is_load_measured(source)}
        window = window_of(stream.query)
        kept = window.size + stream.emit.allowed_lateness if isinstance(window, Tumble) else None
        return Shedding(specs, ShedLog(self._layout.shed_orders(stream.name)), kept) if specs else None

    def _stream_tables(self, stream: logical.Stream) -> StreamTables | None:
        tables = tables_of(stream.query)
        log, offsets = VersionLog(self._layout.table_log(stream.name)), self._layout.spark(stream.name) / "offsets"
        return StreamTables(tables, self.tables, log, offsets) if tables else None

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

    def _side_output(
        self, stream: logical.Stream, sinks: Mapping[str, logical.Sink], results: Results, identity: str
    ) -> SideOutput:
        if owner_of(stream.name) in self.muted:
            return SideOutput(stream.routes)
        by_sink: dict[str, dict[str, Route]] = {}
        for kind, route in stream.routes.items():
            if route.names_sink:
                by_sink.setdefault(route.sink, {})[kind] = route
        channels = [
            Channel(
                f"{name} of {stream.name}",
                routes,
                partial(open_sink, sinks[name], identity, JSON_FIELDS),
                results,
                self._layout.side(stream.name) / f"{name}.json",
            )
            for name, routes in by_sink.items()
        ]
        goes_back = any(route.source is not None for route in stream.routes.values())
        return SideOutput(
            stream.routes, channels, Outbox(self._layout.reinject(stream.name), stream.name) if goes_back else None
        )

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
        writer = open_sink(sink, read_json(self._layout.plan(stream.name))["identity"])
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
        first = Texts.of(read_json(self._layout.plan(stream.name))).all[0]
        physical = replace(physical, plan_id=first.plan_id)  # which names the windows
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
        identity = f"{read_json(self._layout.plan(stream.name))['identity']}late"
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
        path, settings = self._layout.plan(old.name), read_json(self._layout.plan(old.name))
        texts, first = Texts.of(settings), next_batch(self._layout.spark(old.name))
        now, passed = time.time_ns() // 1000, _passed(texts, first, running.router.results.latest(), lateness(old))
        self.forget(old.name)
        new = self._with_types(new)
        text = Text(plan_id(new), canonical(new), sql, first, now, passed, tuple(differences))
        write_json(path, texts.followed_by(text).into(settings))
        for change in text.differences:
            _LOG.info("stream %s, from batch %d on: %s", old.name, text.from_batch, change)

    def _compile(
        self,
        physical: Physical,
        shards: int,
        decodes: bool = False,
        guards: bool = False,
        origin: Origin | None = None,
    ) -> Compiled:
        name = physical.stream.name
        opened = tuple(replace(input, source=with_secrets(input.source)) for input in physical.inputs)
        physical = replace(physical, inputs=opened)
        for input in opened:
            self.executors.need_for(input.source)
        session = self._session(shards)
        self._layout.inbox(name).mkdir(parents=True, exist_ok=True)
        scans = Scans(self._layout.scans(name), self._layout.time_bound(name), self._cores)
        context = SourceContext(
            session,
            self._layout.inbox(name),
            self._layout.root / "sources",
            self._layout.root / "streams",
            scans,
            orders=self._layout.shed_orders(name),
            tables=TableFiles(self._layout.tables, self._layout.table_log(name)),
        )
        try:
            compiled = compile_stream(physical, context, shards, decodes=decodes, guards=guards, origin=origin)
        except REFUSED as error:
            raise SqlError(first_sentence(error)) from None
        sessions.start_workers(session)
        return compiled

    def _replanned(self, stream: logical.Stream, physical: Physical, need: Need) -> Compiled | None:
        """The stream as it runs from now on, with a plan that has what its batch needs; None if there is none."""
        path = self._layout.plan(stream.name)
        kept = read_json(path)
        compiled = self._compiled_as(physical, {**kept, need.value: True})
        if need is Need.GUARDS and not compiled.guarded:
            return None
        write_json(path, {**kept, need.value: True})
        return compiled

    def _compiled_as(self, physical: Physical, kept: Mapping[str, Any]) -> Compiled:
        """The stream with what its checkpoint says of its plan."""
        as_kept = unfused(physical, [number for number, fused in enumerate(kept["fused"]) if not fused])
        decodes, guards = (kept.get(need.value, False) for need in (Need.DECODING, Need.GUARDS))
        texts = self._texts(physical.stream.name, dict(kept), physical.plan_id)
        origin = Origin(texts.all[0].plan_id, texts.past)
        return self._compile(as_kept, kept["shards"], decodes, guards, origin)

    def _settings(self, stream: logical.Stream, physical: Physical, sql: str = "") -> tuple[dict[str, Any], Compiled]:
        """What was fixed when the stream first ran: its meaning, its place, its shards, its identity, and who reads its
        files.
        """
        path = self._layout.plan(stream.name)
        kept: dict[str, Any] | None = read_json(path)
        text, place = canonical(stream), str(self._layout.root)
        if kept is None:
            shards = stream.options.shards or self._default_shards
            compiled = self._compile(physical, shards)
            kept = {
                "plan_id": physical.plan_id,
                "plan": text,
                "shards": shards,
                "identity": uuid.uuid4().hex[:12],
                "place": place,
            }
            kept["fused"] = list(compiled.fused)
            first = Text(physical.plan_id, text, sql, since=time.time_ns() // 1000)
            kept = Texts((first,)).with_layout(compiled.spec.layout).into(kept)
            write_json(path, kept)
            return kept, compiled
        if kept["place"] != place:
            follow(self._layout.spark(stream.name), stream.name, kept["place"], place)
            kept = {**kept, "place": place}
            write_json(path, kept)
        texts = self._texts(stream.name, kept, physical.plan_id)
        if texts.newest.plan_id != physical.plan_id:
            raise another_plan(stream.name, texts.newest.plan, text)
        asked = stream.options.shards or self._asked_shards
        if asked not in (None, kept["shards"]):
            raise CheckpointError(
                f"stream {stream.name} has {kept['shards']} shards in this checkpoint, and {asked} are asked for",
                help=f"ask for {kept['shards']} or for none; `eventide rescale {place} --shards {asked}` changes it",
            )
        compiled = self._compiled_as(physical, kept)
        if list(compiled.fused) != kept["fused"]:
            raise CheckpointError(
                f"stream {stream.name} has begun with a fused scan, and Spark's own reader would not know which "
                "files it has taken",
                help="leave 'fused_scan' as it was, or start anew with another checkpoint folder",
            )
        known = texts.with_layout(compiled.spec.layout).into(kept)
        if known != kept:
            write_json(path, known)
        return known, compiled

    def _texts(self, name: str, kept: Mapping[str, Any], plan_id: str) -> Texts:
        """The texts of a stream; one that a crash has kept from beginning is forgotten."""
        texts = Texts.of(kept)
        if texts.newest.plan_id != plan_id:
            texts = texts.without_unused(next_batch(self._layout.spark(name)))
        return texts


def _passed(texts: Texts, first: int, account: Account | None, lateness: int) -> int | None:
    """What ends by then has closed before batch `first`, which is the first of another text."""
    known = [] if texts.newest.passed is None else [texts.newest.passed]
    if account is not None and account.watermark is not None and texts.newest.from_batch < first:
        known.append(account.watermark - lateness)
    return max(known, default=None)


def _is_load_measured(source: logical.Source) -> bool:
    return source.admission is not None and source.admission.is_load_measured


def _check_sources(physical: Physical) -> None:
    for input in physical.inputs:
        reads(input.source.connector).ready(with_secrets(input.source))


def _timings(physical: Physical) -> list[SourceTiming]:
    by_name = {input.source.name: input for input in physical.inputs}
    return [
        SourceTiming(name, input.source.idle_timeout, isinstance(input.watermark, ProcessTimeWatermark))
        for name, input in by_name.items()
    ]


def another_plan(stream: str, old: str, new: str) -> CheckpointError:
    return CheckpointError(
        f"the checkpoint of stream {stream} belongs to another query:\n{difference(old, new)}",
        help=f"CREATE OR REPLACE STREAM {stream} ... KEEP STATE goes on where it can; without KEEP STATE, it starts "
        "anew",
    )
