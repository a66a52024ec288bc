"""The end of a batch: account, side output, sinks, results. One Spark job per batch, whatever the number of sinks."""

from __future__ import annotations

import copy
import json
import logging
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, functions as F

from eventide.admission.gate import TOKENS_LEFT
from eventide.admission.lags import aged
from eventide.connectors.files.write import FilesSink
from eventide.connectors.sink import Sink
from eventide.errors import EngineError
from eventide.eventtime.lanes import add_lanes
from eventide.kernels.contract import SIDE_KINDS, USED
from eventide.spark.batch_output import Given, Piece, arranged, assigned, divided, opened, rows_of, stored
from eventide.spark.side_output import SideOutput
from eventide.spark.stopwatch import Stopwatch
from eventide.spark.task_output import Assignment, OutputForm, completed
from eventide.storage.history import History
from eventide.storage.payloads import late_rows, to_payloads
from eventide.storage.results import ROWS_OUT, Account, Results, add_counts
from eventide.storage.time_bound import TimeBoundFile

ROWS_IN = "rows_in"
FALLBACK = "event_time_from_processing_time"
FAILED_RESULTS = "failed_results"
_LOG = logging.getLogger("eventide")


class LinesLeftToSparkError(Exception):
    """A scan has met lines that only Spark can decode, in a plan that does not; ends the query at this batch."""


@dataclass
class Router(ABC):
    """Called by Spark with each batch; idempotent by the batch's number.

    The account is written last. So a batch whose account is there has reached every sink, and one that is repeated
    after a crash reaches the sinks again under the same number.
    """

    stream: str
    results: Results
    sources: tuple[str, ...]  # of the inputs, by number
    bound: TimeBoundFile | None = None
    side: SideOutput = field(default_factory=lambda: SideOutput({}))
    heard: set[str] = field(default_factory=set)  # sources that gave rows since this was last emptied
    heard_lanes: set[tuple[str, str]] = field(default_factory=set)  # the same of partitions, each with its source
    readers: set[Callable[[], None]] = field(default_factory=set)  # called after each batch: streams that read this one
    tell: Callable[[], None] | None = None  # called after each batch: the stream itself
    failure: BaseException | None = None
    settled: int = 0  # manifests of the inbox up to this one were taken in by batches that have ended for good
    has_given: bool = False  # whether a batch of this run has come so far that sinks may have got it
    listeners: list[Callable[[str, Account], object]] = field(default_factory=list)  # told of each batch and its stream
    history: History = field(default_factory=History)
    watch: Stopwatch = field(default_factory=Stopwatch)
    _warned: bool = False

    def __call__(self, frame: DataFrame, batch: int) -> None:
        try:
            self.watch.begin()
            self._take(frame, batch)
            self._note(batch)
            if self.tell is not None:
                self.tell()
        except BaseException as error:
            self.failure = error
            raise

    @abstractmethod
    def _take(self, frame: DataFrame, batch: int) -> None:
        """Hand on what a batch gave, unless it is known.

        The frame is evaluated in any case: Spark insists that every shard commits the state of a repeated batch again.
        """

    def close(self, seconds: float) -> None:
        """Let go of what is held open; side sinks get `seconds` for what waits."""
        self.side.close(seconds)

    def _note(self, batch: int) -> None:
        """Remember what the batch did, for those who look at the stream."""
        account = self.results.latest()
        if account is not None and account.batch == batch:
            self.history.add(account)
            for listener in self.listeners:
                self._tell_of(account, listener)
        self.watch.end()

    def _tell_of(self, account: Account, listener: Callable[[str, Account], object]) -> None:
        """Whoever listens cannot harm the batch, which is done."""
        try:
            listener(self.stream, account)
        except Exception:
            _LOG.exception("stream %s: whoever listens to its batches failed at batch %s", self.stream, account.batch)

    @property
    def must_decode(self) -> bool:
        """Whether the query has ended because its plan does not decode what a scan has met."""
        return isinstance(self.failure, LinesLeftToSparkError)

    def _account(self, batch: int, accounts: list[str], failed: int, given: int = 0) -> Account:
        """`failed` are the results that only Spark could finish, and could not; `given` how many rows leave."""
        counts: Counter[str] = Counter()
        events: Counter[str] = Counter({FAILED_RESULTS: failed} if failed else {})
        events[ROWS_OUT] = given
        by_shard: dict[int, dict[str, int]] = {}
        watermark: int | None = None
        began: int | None = None
        before = self.results.latest()
        sources = {name: dict(figures) for name, figures in before.sources.items()} if before else {}
        admission = {name: dict(figures) for name, figures in before.admission.items()} if before else {}
        judged: set[str] = set()
        lanes = copy.deepcopy(before.lanes) if before else {}
        taken = before.taken if before else 0
        self.settled = taken  # Spark has committed the batch before this one
        for text in accounts:
            one: Mapping[str, Any] = json.loads(text)
            self._balance(batch, one)
            taken = max(taken, one["taken"])
            counts.update({ROWS_IN: one["rows_in"], **one["counts"]})
            events.update(one["events"])
            if one["gauges"] is not None:
                by_shard[one["shard"]] = one["gauges"]
            watermark, began = one["watermark"], one["now"]
            times = (
                ("watermark", one["watermarks"]),
                ("max_timestamp_seen", one["tops"]),
                ("flushed", one["flushes"]),
                ("offered", one["offered"]),
            )
            for what, by_input in times:
                for number, value in by_input.items():
                    kept = sources.setdefault(self.sources[int(number)], {})
                    kept[what] = max(value, kept.get(what, value))
            for number, rows in one["rows"].items():
                kept = sources.setdefault(self.sources[int(number)], {})
                kept["rows"] = kept.get("rows", 0) + rows
            self.heard.update(self.sources[int(number)] for number in one["tops"])
            for number, figures in one["admission"].items():
                name = self.sources[int(number)]
                if name not in judged:
                    judged.add(name)
                    admission[name] = aged(admission.get(name, {}))
                _add_admission(admission[name], figures)
            for number, found in one["lanes"].items():
                add_lanes(lanes.setdefault(self.sources[int(number)], {}), found)
                self.heard_lanes.update(
                    (self.sources[int(number)], lane) for lane in found if "watermark" in found[lane]
                )
        self._warn_of_fallback(events)
        totals = add_counts(before.totals if before else {}, counts, events)
        gauges = self._gauges(by_shard, before.gauges if before else {})
        return Account(
            batch, dict(counts), totals, dict(events), gauges, watermark, sources, admission, began, lanes, taken
        )

    def _warn_of_fallback(self, events: Counter[str]) -> None:
        """Once per stream and process; how often it happened is in the metrics."""
        if events[FALLBACK] and not self._warned:
            self._warned = True
            _LOG.warning(
                "stream %s: rows without an event time take the time of processing; see metrics %s",
                self.stream,
                FALLBACK,
            )

    def _balance(self, batch: int, one: Mapping[str, Any]) -> None:
        accounted = sum(one["counts"].get(kind, 0) for kind in (USED, *SIDE_KINDS))
        if accounted != one["rows_in"]:
            raise EngineError(
                f"stream {self.stream}, batch {batch}, shard {one['shard']}: {one['rows_in']} rows came in and "
                f"{accounted} are accounted "
                f"for ({one['counts']}); the batch is refused",
                help="this is a bug in Eventide; the checkpoint is unharmed",
            )

    @staticmethod
    def _gauges(by_shard: dict[int, dict[str, int]], before: dict[str, int]) -> dict[str, int]:
        """Gauges are kept per shard, as `name#shard`: a shard that was silent keeps its last value."""
        gauges = {name: value for name, value in before.items() if int(name.split("#")[1]) not in by_shard}
        for shard, values in by_shard.items():
            gauges.update({f"{name}#{shard}": value for name, value in values.items()})
        return gauges


def _add_admission(so_far: dict[str, float], figures: Mapping[str, float]) -> None:
    """Rows add up over batches and shards; what is left in the bucket is the same in every shard."""
    for name, value in figures.items():
        so_far[name] = value if name == TOKENS_LEFT else so_far.get(name, 0) + value


@dataclass
class StoringRouter(Router):
    """Stores what a batch gave, and hands it to sinks. One Spark job brings the accounts, with what is little of rows
    and payloads; the rest has been written by the tasks, and here it is only named.
    """

    form: OutputForm = field(default_factory=lambda: OutputForm(pa.schema([]), ()))
    sinks: list[Sink] = field(default_factory=list)
    late_sinks: list[Sink] = field(default_factory=list)

    def close(self, seconds: float) -> None:
        super().close(seconds)
        for sink in (*self.sinks, *self.late_sinks):
            sink.close()

    def _take(self, frame: DataFrame, batch: int) -> None:
        if self.results.has(batch):
            tag = F.col(frame.columns[0])
            frame.where(tag == "account").select(tag).toArrow()
            return
        sinks, late_sinks = list(self.sinks), list(self.late_sinks)
        table = assigned(frame, self.form, self._assignment(batch, sinks, late_sinks)).toArrow()
        self.watch.lap("compute")
        if table.num_rows:
            self._route(opened(table), batch, sinks, late_sinks)

    def _assignment(self, batch: int, sinks: Sequence[Sink], late_sinks: Sequence[Sink]) -> Assignment:
        targets, late_targets = (
            tuple(sink.target for sink in each if isinstance(sink, FilesSink)) for each in (sinks, late_sinks)
        )
        is_whole = self.side.outbox is not None or len(late_targets) < len(late_sinks)
        return Assignment(batch, str(self.results.folder), targets, late_targets, side=not is_whole)

    def _route(self, given: Given, batch: int, sinks: Sequence[Sink], late_sinks: Sequence[Sink]) -> None:
        if given.undecoded is not None:
            raise LinesLeftToSparkError(given.undecoded)
        self.has_given = True
        main = arranged(self.form, given.main)
        own, written = divided(given.side)
        failed = own["shard"].null_count + sum(each.failed for each in written)
        account = self._account(batch, given.accounts, failed, sum(map(rows_of, main)))
        payloads = to_payloads(completed(own, account.began, account.watermark))
        names = self.form.outputs.names
        for sink in sinks:
            self._give(sink, batch, main, lambda rows: rows.select(names))
        for sink in late_sinks:
            self._give(sink, batch, [payloads, *written], lambda rows: late_rows(rows, self.form.originals))
        self.side.send_back(batch, payloads)
        self.watch.lap("sinks")
        if self.bound is not None:
            self.bound.draw(account)
        account.took = self.watch.took(account.began)
        self.results.commit(stored(main), [self.side.keep(payloads), *stored(written)], account)
        self.side.stored(batch)
        for tell in list(self.readers):
            tell()

    def _give(self, sink: Sink, batch: int, pieces: Sequence[Piece], view: Callable[[pa.Table], pa.Table]) -> None:
        """Hand a sink the rows of a batch, as it should see them; what tasks have written for it by its name."""
        shown: list[pa.Table | str] = []
        for piece in pieces:
            if isinstance(piece, pa.Table):
                shown.append(view(piece))
            elif isinstance(sink, FilesSink) and sink.target.key in piece.staged:
                staged = piece.staged[sink.target.key]
                shown += [] if staged is None else [staged]
            elif piece.part is not None:
                shown.append(view(self.results.part(piece.part)))
        if isinstance(sink, FilesSink):
            sink.commit(batch, shown)
        else:
            sink.write(batch, pa.concat_tables(shown))
