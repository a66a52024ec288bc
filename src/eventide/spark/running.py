"""One stream as a running Spark query: start, take in what is there, stop, and say why it failed."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from eventide.admission.options import AdmissionSpec
from eventide.admission.shedding import Shedding, kept_of
from eventide.errors import EventideError
from eventide.eventtime.heartbeat import Heartbeat
from eventide.eventtime.lanes import LaneSilence
from eventide.plan.trigger import Trigger
from eventide.spark.backlog import Backlog
from eventide.spark.cheaper_plan import CHEAPER, CheaperPlan
from eventide.spark.clock import SteadyClock
from eventide.spark.compile import Compiled
from eventide.spark.last_watermark import LastWatermark
from eventide.spark.manifest_log import ManifestLog
from eventide.spark.router import Router
from eventide.spark.session import Jvm
from eventide.spark.shard import NEXT_CLOSE
from eventide.spark.source_watermarks import SourceWatermarks
from eventide.spark.starting import start_query
from eventide.spark.tables import StreamTables
from eventide.spark.triggers import ends_by_itself, spark_trigger
from eventide.spark.why_ended import Need, WhyEnded
from eventide.storage.compaction import Keep, compact
from eventide.storage.inbox import Entry
from eventide.storage.paths import AnyPath
from eventide.storage.texts import is_pending, next_batch

_LOG = logging.getLogger("eventide")
# of manifests: Spark remembers all that it has seen until the query ends, by estimate a quarter of a kilobyte each
_NAMES_IN_MEMORY = 250_000
_DYING_SECONDS = 5.0  # between the end of its connections and the end of a JVM


class RunningStream:
    """The query of one stream. `backlog` is what waits for it, `limits` those of its sources that have any.

    Most streams never meet a line that only Spark can decode, nor a row for which an expression raises. So the first
    plan is made for neither; a query that stops at one starts again, once in a stream's life for each `Need`, with the
    same batch and a plan that has what it needs. For some a cheaper plan comes back: see `cheaper_plan`.
    """

    def __init__(
        self,
        name: str,
        folder: AnyPath,
        compiled: Compiled,
        replan: Callable[[Need], Compiled | None],
        router: Router,
        backlog: Backlog,
        reads: list[RunningStream],
        heartbeat: Heartbeat,
        check_sources: Callable[[], None],
        reads_outside: bool,
        limits: Mapping[str, AdmissionSpec],
        shedding: Shedding | None = None,
        lanes: Mapping[str, LaneSilence] | None = None,
        tables: StreamTables | None = None,
        trigger: Trigger | None = None,
    ) -> None:
        self.name = name
        self.compiled = compiled
        self._replan = replan  # the same stream with what a batch needs; None if it has no use for that
        self.router = router
        self.backlog = backlog
        self.inbox = backlog.inbox
        self.reads = reads
        self._heartbeat = heartbeat
        self._reads_outside = reads_outside  # whether rows come from sources that others write to
        self.limits = limits
        self._watermarks = SourceWatermarks(router, lanes or {})
        self.trigger = trigger or Trigger()
        self._own_pace: dict[str, Any] = {}  # Spark's trigger under which the query runs; empty: batch after batch
        self._shedding = shedding
        self._ended: int | None = None  # the last batch that was observed
        self._tables = tables
        self._awaited: dict[str, int] = {}  # versions of tables for which a batch was called
        has_history = any(spec.needs_history for spec in limits.values())
        self._decides = bool(has_history or shedding or backlog.batcher or lanes or tables)
        router.tell = self._batch_ended
        self._why = WhyEnded(name, folder, router, check_sources)
        self._folder = folder
        self._query: StreamingQuery | None = None
        self._manifest_log = ManifestLog(folder / "spark", self.inbox.folder)
        self._published_before = 0  # the newest manifest when the query was started
        self._afresh: dict[str, Any] | None = None  # Spark's trigger, while the query is being started afresh
        self._jvm = Jvm.running()
        self._is_told = False  # whether the query's failure was raised: whoever asks again may have mended the cause
        self._cheaper = {need: CheaperPlan(figures) for need, figures in CHEAPER.items()}
        self._clock = SteadyClock()
        self._last_watermark = LastWatermark(folder / "watermark.json", folder / "spark" / "commits", router)
        self._ends = False  # whether the query ends when it has taken in what is there
        self._waits = False  # whether somebody waits until all is taken in, and then looks for what is due

    @property
    def is_active(self) -> bool:
        return self._query is not None and not self._jvm.has_ended and self._query.isActive

    @property
    def goes_on(self) -> bool:
        """Whether the query runs, or will when `keep_running` is called."""
        return self.is_active or self._need() is not None

    def run(self) -> None:
        """Run in the background as the stream's own trigger says, unless it does already, or has taken in all that
        was there when it was told to.
        """
        pace = spark_trigger(self.trigger)
        if pace and self._own_pace == pace and self._query is not None and self.failed() is None:
            return
        if pace and self.is_active:
            self.stop()
        self.start(**pace)
        self._own_pace = pace

    @property
    def has_ended(self) -> bool:
        """Whether it has taken in all that was there, and was told to end then."""
        return self.trigger.ends and bool(self._own_pace) and not self.goes_on and self.failed() is None

    def start(self, **trigger: Any) -> None:
        """`trigger` is one of Spark's; without it the query takes in what comes until it is stopped."""
        if self._jvm.has_ended:
            raise self._why.lost(self.compiled)
        if not self._take_up_another_plan() and self._is_told:
            self.stop()
        if self._query is not None:
            self._raise_if_failed()
            if self.is_active or trigger:
                return
            self.stop()  # it has ended by its trigger
        self._is_told = False
        if self._tables is not None:
            self._tables.begin()
        if self._has_run:
            self.inbox.publish(self._watermarks.reminders())
        self._tell()
        self._published_before = self.inbox.last
        try:
            self._query = self._started(trigger)
        except Exception as error:
            raise self._why.failure(error, self.compiled) from None

    def _started(self, trigger: Mapping[str, Any]) -> StreamingQuery:
        self._ends = ends_by_itself(trigger)
        writer = self._writer().trigger(**trigger) if trigger else self._writer()
        return start_query(
            self.compiled.frame.sparkSession,
            writer,
            f"eventide {self.name}",
            ends=self._ends,
            evaluates_rows=self.compiled.evaluates_rows,
            reads_streams=not (self._reads_outside or self.backlog.spools),
        )

    def take_tables(self) -> None:
        """Let what follows find the newest versions of tables: a running query changes to them when a batch ends."""
        if self._call_for_tables():
            self._wait()

    def _call_for_tables(self) -> bool:
        """Call for a batch if there is a newer version, once for each."""
        newest = {} if self._tables is None or not self._tables.is_behind else self._tables.newest()
        if newest in ({}, self._awaited):
            return False
        self._awaited = newest
        self.inbox.wake()
        return True

    def publish(self) -> None:
        """Let the query see everything that its sources and the streams that it reads have for it."""
        self.backlog.publish(self._clock.micros())

    def process(self) -> None:
        """Take in all that is there, and run the batches that close windows because of it, at once."""
        if self._own_pace:
            self.stop()
        self._take_up_the_cheaper_plan()
        self.start()
        self.publish()
        self._wait()
        while self.backlog.held():
            self.publish()
            self._wait()
        if self.beat():
            self._wait()
        self.inbox.settle_all()

    @property
    def read_names(self) -> set[str]:
        """The streams that it reads."""
        return {stream.name for stream in self.reads}

    def read_upto(self, upstream: RunningStream) -> int:
        """The newest batch of a stream that it reads which it will not ask for again."""
        folder = upstream.router.results.folder
        names = [name for name, output in self.backlog.upstreams.items() if output.results.folder == folder]
        return min((self.inbox.settled.get(name, 0) for name in names), default=0) - 1

    def compact(self, keep: Mapping[str, Keep], upto: float, fences: Iterable[int]) -> None:
        """Forget what batches have taken in for good; put together what is stored up to batch `upto`, which all who
        read it have passed.
        """
        self.inbox.settle(self.router.settled)
        side = self.router.side
        upto, fences = min(upto, side.delivered), [*fences, *side.positions]
        compact(self.router.results, keep, upto, self._clock.micros(), fences)
        self._manifest_log.shorten(self.inbox.oldest)
        if self.is_active and not self.trigger.ends:
            has_many_names = self.inbox.last - self._published_before > _NAMES_IN_MEMORY
            pace = self._own_pace
            if self._take_up_the_cheaper_plan() or has_many_names:
                self._afresh = pace
        if self._afresh is not None:
            self._start_afresh(self._afresh)

    def _start_afresh(self, pace: dict[str, Any]) -> None:
        """Let Spark forget the names of the manifests that it has taken in. What fails is tried again."""
        self.stop()
        self._afresh = pace
        try:
            self.start(**pace)
        except EventideError as error:
            _LOG.warning("stream %s cannot be started again yet: %s", self.name, error)
            return
        self._own_pace, self._afresh = pace, None

    def _take_up_the_cheaper_plan(self) -> bool:
        """Go back to a cheaper plan, if it would have done for long; says whether it did. Then the query is to be
        started.
        """
        due = [need for need, plan in self._cheaper.items() if plan.is_due]
        if not due:
            return False
        self.stop()
        self.compiled = self._cheaper[due[0]].take_up()
        self._why.met.discard(due[0])
        return True

    def beat(self) -> bool:
        """Let time pass: publish what the heartbeat decides now; says whether there was anything."""
        self._call_for_tables()
        now = self._clock.micros()
        while self.router.heard:
            self._heartbeat.heard(self.router.heard.pop(), now)
        for source in self.backlog.held():
            self._heartbeat.heard(source, now)  # it is not silent: its rows wait for their turn
        account = self.router.results.latest()
        is_open = account is not None and any(gauge.startswith(f"{NEXT_CLOSE}#") for gauge in account.gauges)
        decisions = self._heartbeat.decide(now, self._watermarks.of_accounts(), is_open)
        self.inbox.publish([Entry(decision.kind, decision.source, None, decision.at) for decision in decisions])
        return any([self._call_for_what_is_due(), self._tell(), decisions])

    def _call_for_what_is_due(self) -> bool:
        """Call for a batch if the last one has moved the watermark so far that something is due."""
        if self._ends or not self._last_watermark.calls_for_batch():
            return False
        self.inbox.wake()
        return True

    def _batch_ended(self) -> None:
        """Decide what follows from a batch, before Spark looks for more to do: so it takes effect with the next one."""
        if not (self._waits or self._ends) and self._last_watermark.will_call_for_batch():
            self.inbox.wake()
        if not (self._decides or any(plan.waits for plan in self._cheaper.values())):
            return
        self._tell()
        if self._tables is not None:
            self._tables.change()
        account, now = self.router.results.latest(), self._clock.micros()
        if account is None or account.began is None or account.batch == self._ended:
            return
        self._ended = account.batch
        for plan in self._cheaper.values():
            plan.saw(account)
        taken, waiting = self.backlog.observe(account.began, now, kept_of(account))
        if self._shedding is not None:
            self._shedding.observe(account, now, taken, waiting)
            self.backlog.keep = self._shedding.keep
        if self.backlog.batcher is not None:
            self.publish()

    def load(self) -> dict[str, float | str]:
        """How loaded the engine is, and what share is shed; empty where nothing may be."""
        return {} if self._shedding is None else self._shedding.figures()

    def table_figures(self) -> dict[str, dict[str, Any]]:
        """Of each table that is looked up: the version in use and how it is doing."""
        return {} if self._tables is None else self._tables.figures()

    def _tell(self) -> bool:
        """Publish the watermarks that are known since the last batch; says whether there was anything."""
        news = self._watermarks.news(self._clock.micros())
        self.inbox.publish(news)
        return bool(news)

    def idle_lanes(self, now: int) -> dict[str, set[str]]:
        """The partitions that have been silent for their source's idle timeout, by source."""
        return self._watermarks.idle_lanes(now)

    def drain(self) -> None:
        """Take in what is there now, and nothing that comes later: a source outside may never be silent."""
        if not self._reads_outside:
            self.process()
            return
        self.stop()
        self.publish()
        self._run_to_end(availableNow=True)
        while self.backlog.held():
            self.publish()
            self._run_to_end(availableNow=True)

    def flush(self) -> None:
        """Give out everything that has begun by the latest event time, as a graceful stop does, after `drain`.

        What has come to a source outside in the meantime is taken in by the same batch, in front of the flush, so that
        no row follows it.
        """
        if not self._reads_outside:
            self.process()
        if seen := self._watermarks.newest_times():
            self.inbox.publish([Entry("flush", at=max(seen))])
            if self._reads_outside:
                self._run_to_end(once=True)
            else:
                self._wait()

    def idle(self, now: int) -> set[str]:
        """The sources that have been silent for their idle timeout."""
        return self._heartbeat.idle(now)

    def stop(self) -> None:
        query, self._query = self._query, None
        self._own_pace, self._afresh = {}, None
        if query is None or self._jvm.has_ended:
            return
        self._last_watermark.note()
        query.stop()

    def settle(self) -> None:
        """Stop, and finish the batch that was planned, if there is one: it began under this text of the stream.

        A batch that fails before anything of it was given is left to the next text, which may be the remedy.
        """
        self.stop()
        if not is_pending(self._folder / "spark"):
            return
        self._query = self._started({"once": True})
        try:
            self._query.awaitTermination()
        except StreamingQueryException as error:
            if self._take_up_another_plan():
                self.settle()
            elif self.router.has_given or self.router.results.has(next_batch(self._folder / "spark") - 1):
                raise self._why.failure(error, self.compiled) from None
            else:
                _LOG.warning("stream %s: the batch that failed is taken again under the new text", self.name)
        finally:
            self.stop()

    def _writer(self) -> DataStreamWriter:
        """The query, ready to start."""
        self.router.failure, self.router.has_given = None, False
        self.router.watch.end()
        if self.router.bound is not None:
            self.router.bound.draw(self.router.results.latest())
        writer = self.compiled.frame.writeStream.foreachBatch(self.router).queryName(f"eventide {self.name}")
        return writer.option("checkpointLocation", str(self._folder / "spark"))

    def watermark(self) -> int | None:
        """Microseconds; None before the first row."""
        self._last_watermark.note()
        return self._last_watermark.at

    def progress(self) -> Mapping[str, Any]:
        """Spark's newest progress report, empty before the first."""
        return {} if self._query is None or self._jvm.has_ended else (self._query.lastProgress or {})

    def failed(self) -> EventideError | None:
        """Why the query has stopped by itself, if it has."""
        if self._jvm.has_ended:
            return None if self._query is None else self._why.lost(self.compiled)
        query, error = self._query, self._error()
        if error is None or self._why.need(error, self.compiled) is not None:
            return None
        failure = self._why.failure(error, self.compiled)
        return failure if self._query is query else None  # by now another thread may have started it again

    def keep_running(self) -> None:
        """Start the query again if it has stopped at rows that need another plan."""
        pace = self._own_pace
        if self._take_up_another_plan():
            self.start(**pace)
            self._own_pace = pace

    def _need(self) -> Need | None:
        """What the plan lacks for the batch at which the query has stopped."""
        error = self._error()
        return None if error is None else self._why.need(error, self.compiled)

    def _take_up_another_plan(self) -> bool:
        """Make ready for the batch at which the query has stopped, if another plan may help."""
        need = self._need()
        if need is Need.TIME:
            _LOG.warning("stream %s: a Python process did not answer in time; the batch is tried again", self.name)
            self._why.try_again()
            self.stop()
            return True
        try:
            compiled = None if need is None else self._replan(need)
        except EventideError:
            self._is_told = True
            raise
        if compiled is None:
            self._why.is_beyond_guards |= need is not None
            return False
        if need is Need.GUARDS:
            cause = self._why.cause(self._error())
            _LOG.warning("stream %s: an expression failed for a row, such rows are errors now: %s", self.name, cause)
        for other, plan in self._cheaper.items():
            if other is need:
                plan.gives_way(self.compiled)
            else:
                plan.forget()
        self._why.met = self._cheaper.keys() & {need}
        self.compiled = compiled
        self.stop()
        return True

    def _error(self) -> StreamingQueryException | None:
        return None if self._query is None or self._jvm.has_ended else self._query.exception()

    def _run_to_end(self, **trigger: Any) -> None:
        """Run the query until its trigger ends it."""
        self.start(**trigger)
        if self._query is None:
            return
        try:
            self._query.awaitTermination()
        except Exception as error:
            self._raise_unless_it_goes_on(error)
            self._run_to_end(**trigger)
            return
        self.stop()

    def _wait(self) -> None:
        if self._query is None:
            return
        self._waits, before = True, self.router.batch
        try:
            self._query.processAllAvailable()
            if self._reads_outside and self.router.batch == before:
                # Spark may have looked at the sources just before it was asked, and then it tells of that look
                self._query.processAllAvailable()
            while self._call_for_what_is_due() or (self._last_watermark.awaits_batch() and self.is_active):
                self._query.processAllAvailable()
        except Exception as error:
            self._raise_unless_it_goes_on(error)
            self.start()
            self._wait()
        finally:
            self._waits = False

    def _raise_unless_it_goes_on(self, error: Exception) -> None:
        """Raise why the query has ended, unless another plan may help."""
        if self._has_lost_spark(error):
            raise self._why.lost(self.compiled) from None
        if not isinstance(error, StreamingQueryException):
            raise error
        if not self._take_up_another_plan():
            self._is_told = True
            raise self._why.failure(error, self.compiled) from None

    def _has_lost_spark(self, error: Exception) -> bool:
        """Whether the JVM has ended, or is about to: who waits for it hears of that first."""
        end = time.monotonic() + (_DYING_SECONDS if type(error).__module__.startswith("py4j") else 0.0)
        while not self._jvm.has_ended and time.monotonic() < end:
            time.sleep(0.05)
        return self._jvm.has_ended

    def _raise_if_failed(self) -> None:
        failure = self.failed()
        if failure is not None:
            self._is_told = True
            raise failure from None

    @property
    def _has_run(self) -> bool:
        return any((self._folder / "spark" / "commits").glob("[0-9]*"))
