"""The embedded database: SQL in, rows in, rows out. The whole API for Python users."""

from __future__ import annotations

import contextlib
import datetime as dt
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from eventide.admission.throttle import Written
from eventide.arguments import moment_micros
from eventide.definitions import Definitions, kept_catalog
from eventide.diagnose.describe import list_objects, text_result
from eventide.diagnose.observe import accounting_of, progress_of
from eventide.diagnose.observer import LiveObserver
from eventide.errors import EventideError, OptionError, suggest
from eventide.handover import hand_over
from eventide.inspection import Inspection
from eventide.kernels.contract import SIDE_KINDS
from eventide.migration import undo_unfinished
from eventide.notebook.html import streams_html
from eventide.result import Result
from eventide.sql import statements as st
from eventide.sql.catalog import LATE_SUFFIX
from eventide.sql.dialect import tokenize
from eventide.sql.functions import refuse_jvm_calls_in
from eventide.sql.options import MOST_SHARDS
from eventide.sql.parser import parse_statements
from eventide.sql.tokens import Span
from eventide.storage.layout import Layout, Lock, hold
from eventide.storage.lease import Lease
from eventide.storage.opening import checkpoint_folder
from eventide.storage.paths import store_in
from eventide.storage.payloads import JSON_FIELDS
from eventide.storage.spool import Spools
from eventide.streams import Streams
from eventide.writing import Writer

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider
    from pyspark.sql import SparkSession

    from eventide.notebook.watch import Watch
    from eventide.tasks.cutting import Cutting
    from eventide.web.serve import Dashboard

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
        conf = dict(conf or {})
        self._layout = Layout(self._temporary or checkpoint_folder(checkpoint or "", _settings(spark, conf)))
        self._layout.make_private()
        self._lock: Lock | Lease | None = hold(self._layout)
        try:
            undo_unfinished(self._layout)
            self.catalog = kept_catalog(self._layout, allow_jvm_calls)
            from eventide.spark.session import SparkOptions, started

            store = store_in(self._layout.root)
            options = SparkOptions(master, {**(store.spark_settings() if store else {}), **conf}, local_speed)
            with started(options, "eventide.spark.engine") if spark is None else contextlib.nullcontext():
                from eventide.spark.engine import Engine

                self._engine = Engine(self._layout, spark, options, shards)
            hand_over(self._layout, self.catalog)
        except BaseException:
            self._lock.release()
            self._remove_temporary()
            raise
        self._guard = threading.RLock()
        self._spools = Spools(self._layout.source)
        self._streams = Streams(self.catalog, self._engine, self._spools, self._guard)
        self._writer = Writer(self._spools, self._guard, self._engine.queues, self._streams.publish)
        self._definitions = Definitions(self.catalog, self._layout, self._engine, self._spools, self._streams)
        self._dashboard: Dashboard | None = None
        self._inspection = Inspection(self.catalog, self._layout, self._engine, self._streams)

    @property
    def spark(self) -> SparkSession:
        """The Spark session that the database runs on."""
        return self._engine.spark

    # Statements -----------------------------------------------------------------------------------------------

    def execute(self, sql: str) -> Result:
        """Run one or more statements; returns the last one's result."""
        with self._exclusive():
            result = text_result("status", [])
            for statement in parse_statements(sql):
                result = self._execute(statement)
            return result

    def _execute(self, statement: st.Statement) -> Result:
        if isinstance(statement, st.Create):
            return text_result("status", self._definitions.create(statement))
        if isinstance(statement, st.Alter):
            return text_result("status", self._definitions.alter(statement))
        if isinstance(statement, st.Drop):
            return text_result("status", [self._definitions.drop(statement)])
        if isinstance(statement, st.RefreshTable):
            news = self._engine.tables.read(self.catalog.table(statement.name))
            return text_result("status", [f"{statement.name} {'is read anew' if news else 'is as it was'}"])
        if isinstance(statement, st.Show):
            return list_objects(self.catalog, statement.what)
        if isinstance(statement, st.Describe):
            return self._inspection.describe(statement.name, statement.is_extended)
        if isinstance(statement, st.Explain):
            return text_result("plan", self._inspection.explain(statement).splitlines())
        if not self._allow_jvm_calls:
            refuse_jvm_calls_in(Span(statement.text, tuple(tokenize(statement.text))))
        return Result(self._inspection.select(statement))

    def mute(self, streams: Iterable[str]) -> None:
        """Let streams that are made from now on keep their side output, until the database is opened again."""
        self._engine.muted.update(streams)

    def cutting(self, stream: str, shards: int) -> Cutting | str:
        """How the state of a stream is cut into so many shards, or why it cannot be: see `rescaling`."""
        with self._exclusive():
            return self._engine.cutting(self._streams.open(stream), shards)

    # Rows in --------------------------------------------------------------------------------------------------

    def write(self, source: str, rows: Any, timeout: float | None = None) -> Written:
        """Write rows to an embedded source; durable when it returns. Returns the number of rows that were taken.

        That is all of them, unless the source is throttled and the engine cannot keep up: then it is the first ones,
        and `.wait` says after how many seconds to come again with the rest. With a `timeout` the call waits for room
        so many seconds.
        """
        with self._exclusive():
            definition = self.catalog.source(source)
        return self._writer.write(definition, rows, timeout)

    def advance_watermark(self, source: str, ts: int | dt.datetime) -> None:
        """Promise that no row of `source` with event time <= `ts` follows; milliseconds since the epoch or a
        datetime.
        """
        with self._exclusive():
            definition = self.catalog.source(source)
            at = moment_micros(ts)
            self._spools.append(definition.name, lambda spool, number: spool.append_watermark(at, number))
            self._streams.publish()

    def tick(self) -> None:
        """Process everything written so far, and close the windows that are due."""
        with self._exclusive():
            self._streams.process()

    # Rows out -------------------------------------------------------------------------------------------------

    def read(self, name: str) -> Result:
        """All rows of a stream so far, or with `name$late` (or the name in LATE DATA TO) its late rows."""
        with self._exclusive():
            return Result(self._inspection.rows(name))

    def foreach(self, name: str, function: Callable[[int, pa.Table], object]) -> None:
        """Call `function(batch, rows)` for every batch of a stream, or of `stream$late`, from the next one on.

        After a crash a batch comes again with the same number and rows. The function is not kept in the checkpoint:
        register it again after each `connect`, before the first `tick` or `start`.
        """
        with self._exclusive():
            stream, is_late = self.catalog.resolve_readable(name)
            self._engine.foreach(self.catalog.stream(stream), function, is_late)

    def side_output(self, stream: str, kind: str | None = None) -> Result:
        """The payloads of rows that the stream did not use, of one kind or of all."""
        with self._exclusive():
            if kind is not None and kind not in SIDE_KINDS:
                raise OptionError(f"there is no side output {kind}", help=suggest(kind, SIDE_KINDS))
            payloads = self._inspection.payloads(stream)
            return Result(payloads if kind is None else payloads.filter(pc.equal(payloads["kind"], kind)), JSON_FIELDS)

    def late_replay(self, stream: str) -> Result:
        """Fold late rows into the windows they missed, and emit the corrected rows with the next `emit_epoch`.

        Returns the corrections, which `read` and the stream's sinks get as well. Each late row is replayed once. If a
        stream cannot be replayed exactly, an error says why.
        """
        with self._exclusive():
            definition = self.catalog.stream(stream)
            name = definition.name
            self.catalog.resolve_readable(f"{name}{LATE_SUFFIX}")
            self.catalog.refuse_if_in_parts(definition.name)
            self._streams.open(name)
            return Result(self._engine.replay(definition, self.catalog.sinks_of(name)))

    def watermark(self, stream: str) -> int | None:
        """Milliseconds since the epoch, or None before the first row."""
        with self._exclusive():
            micros = self._streams.open(self.catalog.stream(stream).name).watermark()
            return None if micros is None else micros // 1000

    def accounting(self, stream: str) -> dict[str, int]:
        """Totals since the stream began: rows_in = used + late + duplicate + error + evicted + rejected + shed."""
        with self._exclusive():
            return accounting_of(self._streams.open(self.catalog.stream(stream).name))

    def metrics(self) -> dict[str, Any]:
        """Figures for every stream: accounting, events, gauges, watermark, replayed late rows."""
        with self._exclusive():
            return self._inspection.metrics()

    def progress(self) -> list[dict[str, Any]]:
        """One line per stream for a live display; cheap enough to call every second, and never waits for a batch."""
        running = [self._engine.opened(name) for name in list(self.catalog.graph())]
        return [progress_of(stream) for stream in running if stream is not None]

    def explain(self, stream: str) -> str:
        """The plan of a stream as a tree, with the streams that it reads below the inputs that read them."""
        return self._inspection.explain_stream(stream)

    def why(self, stream: str) -> str:
        """In words: what the stream is waiting for, which source or rule holds it back, and what would move it on."""
        with self._exclusive():
            return self._inspection.why(stream)

    def dashboard(self, host: str = "127.0.0.1", port: int | None = None, token: str | None = None) -> Dashboard:
        """Serve a page that shows all streams live, until `close`; `.url` is its address. Needs eventide[dashboard].

        Only this machine can reach it, unless `host` says otherwise; then the address carries a token. The page shows,
        and changes nothing.
        """
        from eventide.web.serve import Dashboard
        from eventide.web.views import LocalView

        with self._exclusive():
            if self._dashboard is None:
                self._dashboard = Dashboard(LocalView(self._observer()), host, port, token)
            return self._dashboard

    def watch(self, stream: str, rows: int = 10, every: float = 1.0) -> Watch:
        """Show the latest rows of a stream in a notebook and keep them up to date, until `.stop()`."""
        from eventide.notebook.watch import Watch

        with self._exclusive():
            return Watch(self._observer(), stream, rows, every)

    def _repr_html_(self) -> str:
        """How a notebook shows it."""
        return streams_html([] if self._lock is None else self.progress(), self._layout.root.name)

    def trace(self, tracer_provider: TracerProvider | None = None) -> None:
        """Make an OpenTelemetry span of every batch from now on, with its phases. Needs eventide[opentelemetry].

        Without a provider, that of the process is used.
        """
        from eventide.diagnose.tracing import BatchSpans

        with self._exclusive():
            self._engine.listeners.append(BatchSpans(tracer_provider))

    def _observer(self) -> LiveObserver:
        return LiveObserver(self.catalog, self._layout, self._engine)

    # Running --------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Run all streams in the background until `stop`: rows are processed as they come."""
        with self._exclusive():
            self._streams.start()

    def has_ended(self) -> bool:
        """Whether `start` has nothing left to do: all streams have the trigger 'available now', and have taken in what
        there was.
        """
        with self._exclusive():
            return self._streams.have_ended

    def stop(self, graceful: bool = True) -> None:
        """Stop all streams. A graceful stop first processes everything that is there and emits what is open; a quick
        one does not.
        """
        self._streams.halt()
        with self._exclusive():
            self._streams.stop(graceful)

    def close(self) -> None:
        """Stop quickly and release everything: queries, Spark if it was started here, a temporary checkpoint."""
        self._streams.halt()
        with self._guard:
            if self._lock is None:
                return
            if self._dashboard is not None:
                self._dashboard.close()
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

    @contextlib.contextmanager
    def _exclusive(self) -> Iterator[None]:
        """Keep other threads out of the database, which must be open."""
        with self._guard:
            if self._lock is None:
                raise EventideError("the database is closed", help="connect again; a checkpoint folder keeps its state")
            yield

    def _remove_temporary(self) -> None:
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)


def _settings(spark: SparkSession | None, conf: Mapping[str, str]) -> Mapping[str, str]:
    """Spark's settings, as far as they are known before it starts."""
    if spark is None:
        return conf
    from eventide.spark.store_access import settings_of

    return settings_of(spark)
