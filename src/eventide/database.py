"""The embedded database: SQL in, rows in, rows out. The whole API for Python users."""

from __future__ import annotations

import contextlib
import datetime as dt
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from eventide.arguments import checkpoint_folder, moment_micros
from eventide.changing import Switch
from eventide.connectors.embedded.json_rows import encode_rows
from eventide.diagnose.describe import describe, list_objects, text_result
from eventide.diagnose.observe import accounting_of, metrics_of, progress_of
from eventide.diagnose.why import Seen, why
from eventide.errors import EventideError, OptionError, SourceError, located, suggest
from eventide.kernels.contract import SIDE_KINDS
from eventide.migration import undo_unfinished
from eventide.plan import logical
from eventide.plan.explain import explain
from eventide.plan.planner import plan
from eventide.result import Result
from eventide.sql import statements as st
from eventide.sql.catalog import LATE_SUFFIX, Catalog
from eventide.sql.dialect import tokenize
from eventide.sql.functions import refuse_jvm_calls_in
from eventide.sql.options import MOST_SHARDS
from eventide.sql.parser import parse_statements
from eventide.sql.tokens import Span
from eventide.storage.atomic import read_json, write_json
from eventide.storage.layout import Layout, Lock
from eventide.storage.payloads import JSON_FIELDS, PAYLOAD_SCHEMA, late_rows
from eventide.storage.replays import Replays, replay_totals
from eventide.storage.spool import Spools
from eventide.streams import Streams

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from eventide.spark.running import RunningStream

_OPTIONS = ("master", "conf", "shards", "local_speed", "allow_jvm_calls")


def connect(checkpoint: str | Path | None = None, spark: SparkSession | None = None, **options: Any) -> Database:
    """Open a database.

    `checkpoint` is the folder that holds everything that must survive; None makes a temporary one, deleted by `close`.
    `spark` is an existing session to run on; without it, a local Spark is started, one per process.
    Options: `master`, `conf` (a dict of Spark settings), `shards` (state partitions of streams; those of a checkpoint
    are fixed), `local_speed` (False: nothing is done to make a Spark on this machine faster), `allow_jvm_calls`
    (whether SQL, that of the checkpoint included, may call `java_method` and `reflect`).
    """
    for name in options:
        if name not in _OPTIONS:
            raise OptionError(f"connect() has no option {name}", help=suggest(name, _OPTIONS))
    shards = options.get("shards")
    if shards is not None and (
        isinstance(shards, bool) or not isinstance(shards, int) or not 1 <= shards <= MOST_SHARDS
    ):
        raise OptionError(f"shards is a whole number from 1 to {MOST_SHARDS}, not {shards!r}")
    return Database(checkpoint, spark, **options)


class Database:
    """See `connect`. A database can be used from several threads; its calls run one after the other."""

    def __init__(
        self,
        checkpoint: str | Path | None,
        spark: SparkSession | None,
        master: str | None = None,
        conf: Mapping[str, str] | None = None,
        shards: int | None = None,
        local_speed: bool | None = None,
        allow_jvm_calls: bool = False,
    ) -> None:
        self._allow_jvm_calls = allow_jvm_calls
        self._temporary = Path(tempfile.mkdtemp(prefix="eventide-")) if checkpoint is None else None
        self._layout = Layout(self._temporary or checkpoint_folder(checkpoint or ""))
        self._layout.make_private()
        self._lock: Lock | None = Lock(self._layout.lock)
        try:
            undo_unfinished(self._layout)
            self.catalog = self._load_catalog()
            from eventide.spark.session import SparkOptions, started

            options = SparkOptions(master, conf or {}, local_speed)
            with started(options, "eventide.spark.engine") if spark is None else contextlib.nullcontext():
                from eventide.spark.engine import Engine

                self._engine = Engine(self._layout, spark, options, shards)
        except BaseException:
            self._lock.release()
            self._remove_temporary()
            raise
        kept = self.catalog
        self._restored = {*kept.sources, *kept.streams, *kept.sinks, *kept.views}
        self._guard = threading.RLock()
        self._spools = Spools(self._layout.source)
        self._streams = Streams(self._levels, self._spools, self._guard)

    @property
    def spark(self) -> SparkSession:
        """The Spark session that the database runs on."""
        return self._engine.spark

    # Statements -----------------------------------------------------------------------------------------------

    def execute(self, sql: str) -> Result:
        """Run one or more statements; returns the last one's result."""
        with self._guard:
            self._check_open()
            result = text_result("status", [])
            for statement in parse_statements(sql):
                result = self._execute(statement)
            return result

    def _execute(self, statement: st.Statement) -> Result:
        if isinstance(statement, st.CreateSource | st.CreateStream | st.CreateSink | st.CreateView):
            return self._create(statement)
        if isinstance(statement, st.Alter):
            return self._alter(statement)
        if isinstance(statement, st.Drop):
            return self._drop(statement)
        if isinstance(statement, st.Show):
            return list_objects(self.catalog, statement.what)
        if isinstance(statement, st.Describe):
            return describe(self.catalog, statement.name, lambda stream: self._open(stream).compiled)
        if isinstance(statement, st.Explain):
            return text_result("plan", self._explain(statement).splitlines())
        return self._select(statement)

    def _create(self, statement: st.Create) -> Result:
        name = self._kept_name(st.name_of(statement))
        if self._keeps(statement, name):
            different = self._go_on(statement, name)
            self._restored.discard(name)
            return text_result("status", different or [f"{name} continues from its checkpoint"])
        before = self.catalog.copy()
        self.catalog.apply(statement)
        try:
            self._realise(statement, name, before)
        except BaseException:
            self.catalog = before
            raise
        self._restored.discard(name)
        self._save_catalog()
        return text_result("status", [f"{name} created"])

    def _kept_name(self, name: str) -> str:
        """A restored object's name as spelled in the checkpoint, whatever the case it is written in now."""
        return next((kept for kept in self._restored if kept.lower() == name.lower()), name)

    def _realise(self, statement: st.Create, name: str, before: Catalog) -> None:
        if isinstance(statement, st.CreateSource):
            if statement.or_replace and name in before.sources:
                self._remove_source(name)
        elif isinstance(statement, st.CreateStream):
            if statement.or_replace and name in before.streams:
                self._remove_stream(name)
            elif name in before.streams:
                return
            try:
                opened = [self._open(part.name) for part in self.catalog.parts(name)]
            except EventideError as error:
                self._remove_stream(name)
                raise located(error, statement.text) from None
            for running in opened:
                self._streams.join(running)
        elif isinstance(statement, st.CreateSink):
            self._realise_sink(self.catalog.sinks[name], before)

    def _realise_sink(self, sink: logical.Sink, before: Catalog) -> None:
        if sink.name in before.sinks:
            if sink != before.sinks[sink.name]:
                self._reopen([*self.catalog.routers(sink.name), *_read_by(sink, self.catalog)])
            return
        for name in _read_by(sink, self.catalog):
            self._open(name)
            self._engine.attach(self.catalog.stream(name), sink)

    def _reopen(self, streams: list[str]) -> None:
        """Reopen streams, and those that read them, with what the catalog says now."""
        reopened = self.catalog.with_readers(streams)
        for name in reversed(reopened):
            self._engine.forget(name)
        for name in reopened if self._streams.is_live else ():
            self._streams.join(self._open(name))

    def _keeps(self, statement: st.Create, name: str) -> bool:
        """Whether what is there goes on: a script that is run again on its checkpoint, or KEEP STATE."""
        if isinstance(statement, st.CreateStream | st.CreateSource) and statement.keep_state:
            known = self.catalog.streams if isinstance(statement, st.CreateStream) else self.catalog.sources
            return any(each.lower() == name.lower() for each in known)
        return name in self._restored and not statement.or_replace and not statement.if_not_exists

    def _go_on(self, statement: st.Create, name: str) -> list[str]:
        """Let what is there go on as the statement says; gives what is different now."""
        new = self.catalog.redefined(name, statement.text)
        if not isinstance(statement, st.CreateSink):
            return self._change(new)
        before, self.catalog = self.catalog, new
        self._realise_sink(new.sinks[name], before)
        self._save_catalog()
        return []

    def _alter(self, statement: st.Alter) -> Result:
        new = self.catalog.copy()
        new.apply(statement)
        return text_result("status", self._change(new) or [f"{statement.name} is as it was"])

    def _change(self, new: Catalog) -> list[str]:
        """Let all streams go on under another catalog, or raise why they cannot; gives what differs."""
        switch = Switch.between(self.catalog, new, self._layout)
        for name in switch.changed:
            self._open(name)
        self.catalog = new
        try:
            switch.carry_out(self._engine, self._open)
        except BaseException:
            switch.undo(self._engine)
            self.catalog = switch.old
            raise
        self._save_catalog()
        for name in switch.reopened:
            self._streams.join(self._open(name))
        return switch.lines()

    def _drop(self, statement: st.Drop) -> Result:
        before = self.catalog.copy()
        if not self.catalog.apply(statement):
            return text_result("status", [f"{statement.name} did not exist"])
        name = before.definition(statement.name).name
        if statement.kind == "stream":
            self._remove_stream(name)
        elif statement.kind == "source":
            self._remove_source(name)
        elif statement.kind == "sink":
            self._reopen(_read_by(before.sinks[name], before))
        self._restored.discard(name)
        self._save_catalog()
        return text_result("status", [f"{name} dropped"])

    def _remove_source(self, name: str) -> None:
        shutil.rmtree(self._layout.source(name), ignore_errors=True)
        self._spools.forget(name)

    def _remove_stream(self, name: str) -> None:
        """Forget a stream and its inner streams, those of an earlier definition too, with all that they have kept."""
        for folder in [self._layout.stream(name), *self._layout.inner_streams(name)]:
            self._engine.forget(folder.name)
            shutil.rmtree(folder, ignore_errors=True)

    def _explain(self, statement: st.Explain) -> str:
        if statement.stream is not None:
            *inner, stream = self.catalog.lower(statement.stream)
        elif statement.name in self.catalog.views:
            *inner, stream = self.catalog.lower_view(self.catalog.views[statement.name])
        else:
            return self.explain(statement.name or "")
        return self._explained(stream, {each.name: each for each in inner})

    def _explained(self, stream: logical.Stream, inner: Mapping[str, logical.Stream]) -> str:
        """The plan of a stream, and of the streams that it reads; `inner` are those that the catalog does not have."""
        return explain(
            plan(stream), read=lambda name: plan(inner[name] if name in inner else self.catalog.stream(name))
        )

    def _select(self, statement: st.Select) -> Result:
        if not self._allow_jvm_calls:
            refuse_jvm_calls_in(Span(statement.text, tuple(tokenize(statement.text))))
        return Result(
            self._engine.select(statement.spark_sql, {name: self._read_table(name) for name in statement.tables})
        )

    # Rows in --------------------------------------------------------------------------------------------------

    def write(self, source: str, rows: Any) -> int:
        """Write rows to an embedded source; durable when it returns. Returns the number of rows."""
        with self._guard:
            self._check_open()
            definition = self.catalog.source(source)
            if definition.connector != "embedded":
                raise SourceError(f"source {source} reads {definition.connector}; db.write feeds embedded sources only")
            texts = encode_rows(definition, rows)
            if texts:
                received = time.time_ns() // 1000
                self._spools.append(definition.name, lambda spool, number: spool.append_rows(texts, received, number))
                self._streams.publish()
            return len(texts)

    def advance_watermark(self, source: str, ts: int | dt.datetime) -> None:
        """Promise that no row of `source` with event time <= `ts` follows; milliseconds since the epoch or a
        datetime.
        """
        with self._guard:
            self._check_open()
            definition = self.catalog.source(source)
            at = moment_micros(ts)
            self._spools.append(definition.name, lambda spool, number: spool.append_watermark(at, number))
            self._streams.publish()

    def tick(self) -> None:
        """Process everything written so far, and close the windows that are due."""
        with self._guard:
            self._check_open()
            self._streams.process()

    # Rows out -------------------------------------------------------------------------------------------------

    def read(self, name: str) -> Result:
        """All rows of a stream so far, or with `name$late` (or the name in LATE DATA TO) its late rows."""
        with self._guard:
            self._check_open()
            return Result(self._read_table(name))

    def foreach(self, name: str, function: Callable[[int, pa.Table], object]) -> None:
        """Call `function(batch, rows)` for every batch of a stream, or of `stream$late`, from the next one on.

        After a crash a batch comes again with the same number and rows. The function is not kept in the checkpoint:
        register it again after each `connect`, before the first `tick` or `start`.
        """
        with self._guard:
            self._check_open()
            stream, is_late = self.catalog.resolve_readable(name)
            self._engine.foreach(self.catalog.stream(stream), function, is_late)

    def side_output(self, stream: str, kind: str | None = None) -> Result:
        """The payloads of rows that the stream did not use, of one kind or of all."""
        with self._guard:
            self._check_open()
            if kind is not None and kind not in SIDE_KINDS:
                raise OptionError(f"there is no side output {kind}", help=suggest(kind, SIDE_KINDS))
            payloads = self._payloads(self.catalog.stream(stream).name)
            return Result(payloads if kind is None else payloads.filter(pc.equal(payloads["kind"], kind)), JSON_FIELDS)

    def late_replay(self, stream: str) -> Result:
        """Fold late rows into the windows they missed, and emit the corrected rows with the next `emit_epoch`.

        Returns the corrections, which `read` and the stream's sinks get as well. Each late row is replayed once. If a
        stream cannot be replayed exactly, an error says why.
        """
        with self._guard:
            self._check_open()
            definition = self.catalog.stream(stream)
            name = definition.name
            self.catalog.resolve_readable(f"{name}{LATE_SUFFIX}")
            self.catalog.refuse_if_in_parts(definition.name)
            self._open(name)
            return Result(self._engine.replay(definition, self.catalog.sinks_of(name)))

    def watermark(self, stream: str) -> int | None:
        """Milliseconds since the epoch, or None before the first row."""
        with self._guard:
            self._check_open()
            micros = self._open(self.catalog.stream(stream).name).watermark()
            return None if micros is None else micros // 1000

    def accounting(self, stream: str) -> dict[str, int]:
        """Totals since the stream began: rows_in = used + late + duplicate + error + evicted + rejected + shed."""
        with self._guard:
            self._check_open()
            return accounting_of(self._open(self.catalog.stream(stream).name))

    def metrics(self) -> dict[str, Any]:
        """Figures for every stream: accounting, events, gauges, watermark, replayed late rows."""
        with self._guard:
            self._check_open()
            return {
                name: {**metrics_of(self._open(name)), **replay_totals(self._layout.replay(name))}
                for name in self.catalog.graph()
            }

    def progress(self) -> list[dict[str, Any]]:
        """One line per stream for a live display; cheap enough to call every second, and never waits for a batch."""
        running = [self._engine.opened(name) for name in list(self.catalog.graph())]
        return [progress_of(stream) for stream in running if stream is not None]

    def explain(self, stream: str) -> str:
        """The plan of a stream as a tree, with the streams that it reads below the inputs that read them."""
        return self._explained(self.catalog.stream(stream), {})

    def why(self, stream: str) -> str:
        """In words: what the stream is waiting for, which source or rule holds it back, and what would move it on."""
        with self._guard:
            self._check_open()
            now = time.time_ns() // 1000
            seen = self._seen(stream, now)
            return why(
                seen.stream,
                seen.account,
                watermark=seen.watermark,
                now=now,
                idle=seen.idle,
                read=lambda name: self._seen(name, now),
            )

    def _seen(self, stream: str, now: int) -> Seen:
        definition = self.catalog.stream(stream)
        running = self._open(definition.name)
        return Seen(definition, running.router.results.latest(), running.watermark(), running.idle(now))

    def _read_table(self, name: str) -> pa.Table:
        stream, is_late = self.catalog.resolve_readable(name)
        running = self._open(stream)
        if not is_late:
            given, folder = running.router.results.read("main", running.compiled.outputs), self._layout.replay(stream)
            return (
                pa.concat_tables([given, Replays(folder).read(running.compiled.outputs)]) if folder.exists() else given
            )
        payloads = self._payloads(stream)
        return late_rows(payloads, running.compiled.originals)

    def _payloads(self, stream: str) -> pa.Table:
        return self._open(stream).router.results.read("side", PAYLOAD_SCHEMA)

    # Running --------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Run all streams in the background until `stop`: rows are processed as they come."""
        with self._guard:
            self._check_open()
            self._streams.start()

    def stop(self, graceful: bool = True) -> None:
        """Stop all streams. A graceful stop first processes everything that is there and emits what is open; a quick
        one does not.
        """
        self._streams.halt()
        with self._guard:
            self._check_open()
            self._streams.stop(graceful)

    def close(self) -> None:
        """Stop quickly and release everything: queries, Spark if it was started here, a temporary checkpoint."""
        self._streams.halt()
        with self._guard:
            if self._lock is None:
                return
            try:
                self._engine.close()
            finally:
                self._lock.release()
                self._lock = None
                self._remove_temporary()

    def __enter__(self) -> Database:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _open(self, name: str) -> RunningStream:
        for read in self.catalog.reads(name):
            self._open(read)
        stream, sinks = self.catalog.stream(name), self.catalog.sinks
        return self._engine.open(stream, self.catalog.sinks_of(name), sinks, self.catalog.text(name))

    def _levels(self) -> list[list[RunningStream]]:
        """All streams, open: those that read sources only, those that read these, and so on."""
        by_level: dict[int, list[RunningStream]] = {}
        for name in self.catalog.graph():
            by_level.setdefault(self.catalog.level(name), []).append(self._open(name))
        return [by_level[level] for level in sorted(by_level)]

    # The checkpoint -------------------------------------------------------------------------------------------

    def _load_catalog(self) -> Catalog:
        return Catalog.from_texts(read_json(self._layout.catalog) or [], self._allow_jvm_calls)

    def _save_catalog(self) -> None:
        write_json(self._layout.catalog, self.catalog.texts())

    def _check_open(self) -> None:
        if self._lock is None:
            raise EventideError("the database is closed", help="connect again; a checkpoint folder keeps its state")

    def _remove_temporary(self) -> None:
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)


def _read_by(sink: logical.Sink, catalog: Catalog) -> list[str]:
    """The stream whose rows a sink gets, unless the sink is for side output."""
    return [] if sink.stream is None else [catalog.resolve_readable(sink.stream)[0]]
