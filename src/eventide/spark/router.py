"""The end of a batch: account, side output, sinks, results. One Spark job per batch, whatever the number of sinks."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql import DataFrame, functions as F

from eventide.connectors.files.write import FilesSink
from eventide.connectors.sink import Sink
from eventide.spark.batch_account import BatchAccount
from eventide.spark.batch_facts import tell_tasks
from eventide.spark.batch_output import Piece, arranged, assigned, divided, opened, rows_of, stored
from eventide.spark.batch_times import batch_time
from eventide.spark.side_output import SideOutput
from eventide.spark.stopwatch import Stopwatch
from eventide.spark.task_output import Assignment, OutputForm, Written, completed
from eventide.storage.history import History
from eventide.storage.paths import AnyPath, store_in
from eventide.storage.payloads import late_rows, to_payloads
from eventide.storage.results import ROWS_OUT, Account, Results
from eventide.storage.time_bound import TimeBoundFile

FALLBACK = "event_time_from_processing_time"
FAILED_RESULTS = "failed_results"
_LOG = logging.getLogger("eventide")


class LinesLeftToSparkError(Exception):
    """A scan has met lines that only Spark can decode, in a plan that does not; ends the query at this batch."""


class OverdrawnError(Exception):
    """Tasks let rows pass that limits of their source do not admit; ends the query at this batch."""


class OriginalsLeftOutError(Exception):
    """Rows are put aside of which not all columns were read; ends the query at this batch."""


@dataclass(frozen=True)
class Outcome:
    """What a batch gave, in the order in which it leaves, once its account balances."""

    main: list[Piece]
    payloads: pa.Table  # those that came along
    written: list[Written]  # those that tasks have written
    account: Account


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
    batch: int | None = None  # the newest one that Spark has handed over
    settled: int = 0  # manifests of the inbox up to this one were taken in by batches that have ended for good
    has_given: bool = False  # whether a batch of this run has come so far that sinks may have got it
    listeners: list[Callable[[str, Account], object]] = field(default_factory=list)  # told of each batch and its stream
    history: History = field(default_factory=History)
    watch: Stopwatch = field(default_factory=Stopwatch)
    tells_tasks: bool = False  # whether tasks pack rows that Spark hands them
    offsets: AnyPath | None = None  # where Spark logs when batches began, if tasks must know
    form: OutputForm = field(default_factory=lambda: OutputForm(pa.schema([]), ()))
    _warned: bool = False

    def __call__(self, frame: DataFrame, batch: int) -> None:
        try:
            self.batch = batch
            self.watch.begin()
            if self.tells_tasks:
                self._tell_tasks(frame, batch)
            self._take(frame, batch)
            self._note(batch)
            if self.tell is not None:
                self.tell()
        except BaseException as error:
            self.failure = error
            raise

    def _tell_tasks(self, frame: DataFrame, batch: int) -> None:
        began = None if self.offsets is None else batch_time(self.offsets, batch)
        tell_tasks(frame, str(self.results.folder.parent), self.results.latest(), began)

    def _take(self, frame: DataFrame, batch: int) -> None:
        """Hand on what a batch gave, unless it is known.

        The frame is evaluated in any case: Spark insists that every shard commits the state of a repeated batch again.
        """
        if self.results.has(batch):
            tag = F.col(frame.columns[0])
            frame.where(tag == "account").select(tag).toArrow()
        else:
            self._hand_on(frame, batch)

    @abstractmethod
    def _hand_on(self, frame: DataFrame, batch: int) -> None:
        """Take a batch that is not known, and write its account when everybody has what is theirs."""

    def _outcome(
        self, frame: DataFrame, batch: int, sinks: Sequence[Sink] = (), late_sinks: Sequence[Sink] = ()
    ) -> Outcome | None:
        """Run the batch; None if not even an account came of it. One Spark job brings the accounts, with what is little
        of rows and payloads; the rest has been written by the tasks, and here it is only named.
        """
        table = assigned(frame, self.form, self._assignment(batch, sinks, late_sinks)).toArrow()
        self.watch.lap("compute")
        if table.num_rows == 0:
            return None
        given = opened(table)
        if given.undecoded is not None:
            raise LinesLeftToSparkError(given.undecoded)
        if given.is_overdrawn:
            raise OverdrawnError(f"not all rows of batch {batch} are admitted")
        if given.lacks_originals:
            raise OriginalsLeftOutError(f"rows of batch {batch} are put aside")
        self.has_given = True
        main = arranged(self.form, given.main)
        own, written = divided(given.side)
        failed = own["shard"].null_count + sum(each.failed for each in written)
        account = self._account(batch, given.accounts, failed, sum(map(rows_of, main)))
        return Outcome(main, to_payloads(completed(own, account.began, account.watermark)), written, account)

    def _assignment(self, batch: int, sinks: Sequence[Sink], late_sinks: Sequence[Sink]) -> Assignment:
        targets, late_targets = (
            tuple(sink.target for sink in each if isinstance(sink, FilesSink)) for each in (sinks, late_sinks)
        )
        is_whole = self.side.outbox is not None or len(late_targets) < len(late_sinks)
        folder = self.results.folder
        return Assignment(batch, str(folder), targets, late_targets, not is_whole, store_in(folder))

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

    @property
    def must_ask(self) -> bool:
        """Whether the query has ended because its plan lets rows pass before limits are asked."""
        return isinstance(self.failure, OverdrawnError)

    @property
    def must_read_all(self) -> bool:
        """Whether the query has ended because its plan does not read what only payloads show."""
        return isinstance(self.failure, OriginalsLeftOutError)

    def _account(self, batch: int, accounts: list[str], failed: int, given: int = 0) -> Account:
        """`failed` are the results that only Spark could finish, and could not; `given` how many rows leave."""
        before = self.results.latest()
        self.settled = before.taken if before else 0  # Spark has committed the batch before this one
        gathered = BatchAccount(self.stream, batch, self.sources, before)
        gathered.events.update({FAILED_RESULTS: failed} if failed else {})
        gathered.events[ROWS_OUT] = given
        for text in accounts:
            gathered.add(text)
        self.heard |= gathered.heard
        self.heard_lanes |= gathered.heard_lanes
        self._warn_of_fallback(gathered.events)
        return gathered.account()

    def _warn_of_fallback(self, events: Counter[str]) -> None:
        """Once per stream and process; how often it happened is in the metrics."""
        if events[FALLBACK] and not self._warned:
            self._warned = True
            _LOG.warning(
                "stream %s: rows without an event time take the time of processing; see metrics %s",
                self.stream,
                FALLBACK,
            )


@dataclass
class StoringRouter(Router):
    """Stores what a batch gave, and hands it to sinks."""

    sinks: list[Sink] = field(default_factory=list)
    late_sinks: list[Sink] = field(default_factory=list)

    def close(self, seconds: float) -> None:
        super().close(seconds)
        for sink in (*self.sinks, *self.late_sinks):
            sink.close()

    def _hand_on(self, frame: DataFrame, batch: int) -> None:
        sinks, late_sinks = list(self.sinks), list(self.late_sinks)
        outcome = self._outcome(frame, batch, sinks, late_sinks)
        if outcome is not None:
            self._store(outcome, batch, sinks, late_sinks)

    def _store(self, outcome: Outcome, batch: int, sinks: Sequence[Sink], late_sinks: Sequence[Sink]) -> None:
        main, payloads, written, account = outcome.main, outcome.payloads, outcome.written, outcome.account
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
