"""The end of a batch: account, side output, sinks, results. One Spark job per batch, whatever the number of sinks."""

from __future__ import annotations

import copy
import json
import logging
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from eventide.admission.gate import TOKENS_LEFT
from eventide.admission.lags import aged
from eventide.connectors.sink import Sink
from eventide.errors import EngineError
from eventide.eventtime.lanes import add_lanes
from eventide.kernels.contract import SIDE_KINDS, USED
from eventide.kernels.vector.text import readable
from eventide.spark.pack import ACCOUNT, SIDE, TAG
from eventide.spark.side_output import SideOutput
from eventide.spark.stopwatch import Stopwatch
from eventide.storage.history import History
from eventide.storage.payloads import PAYLOAD_SCHEMA, late_rows, to_payloads
from eventide.storage.results import OUTPUT_OP, OUTPUT_TIME, ROWS_OUT, Account, Results, add_counts
from eventide.storage.time_bound import TimeBoundFile
from eventide.tasks.packing import UNDECODED, from_blob
from eventide.tasks.select_list import RANK

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
        for text in accounts:
            one: Mapping[str, Any] = json.loads(text)
            self._balance(batch, one)
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
        return Account(batch, dict(counts), totals, dict(events), gauges, watermark, sources, admission, began, lanes)

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
    """Stores what a batch gave, and hands it to sinks. All of it passes the driver as Arrow, in one Spark job."""

    outputs: pa.Schema = field(default_factory=lambda: pa.schema([]))
    originals: tuple[pa.Schema, ...] = ()
    sinks: list[Sink] = field(default_factory=list)
    late_sinks: list[Sink] = field(default_factory=list)

    def close(self, seconds: float) -> None:
        super().close(seconds)
        for sink in (*self.sinks, *self.late_sinks):
            sink.close()

    def _take(self, frame: DataFrame, batch: int) -> None:
        table = frame.toArrow()
        self.watch.lap("compute")
        if table.num_rows and not self.results.has(batch):
            self._route(_opened(table) if table.column_names == ["tag", "blob"] else _sorted_out(table), batch)

    def _route(self, given: _Given, batch: int) -> None:
        if given.undecoded is not None:
            raise LinesLeftToSparkError(given.undecoded)
        self.has_given = True
        timed = self._in_order(given.main)
        main = timed.select(self.outputs.names)
        failed = 0 if given.side is None else given.side["shard"].null_count
        account = self._account(batch, given.accounts, failed, main.num_rows)
        side = PAYLOAD_SCHEMA.empty_table() if given.side is None else to_payloads(_completed(given.side, account))
        for sink in self.sinks:
            sink.write(batch, main)
        if self.late_sinks:
            late = late_rows(side, self.originals)
            for sink in self.late_sinks:
                sink.write(batch, late)
        self.side.send_back(batch, side)
        self.watch.lap("sinks")
        if self.bound is not None:
            self.bound.draw(account)
        account.took = self.watch.took(account.began)
        self.results.write(timed, self.side.keep(side), account)
        self.side.stored(batch)
        for tell in list(self.readers):
            tell()

    def _in_order(self, main: pa.Table | None) -> pa.Table:
        """The output columns, OUTPUT_TIME and, of a change log, OUTPUT_OP, in the order in which rows leave."""
        schema = self.outputs.append(pa.field(OUTPUT_TIME, pa.int64()))
        if main is None:
            return schema.empty_table()
        if main.num_rows and main[RANK].null_count == 0:
            # stable: what is taken back, of all shards, comes first
            main = main.take(pc.array_sort_indices(main[RANK]))
            main = main.append_column(OUTPUT_OP, main[RANK])
            schema = schema.append(pa.field(OUTPUT_OP, pa.int32()))
        columns = [
            main[field.name] if main[field.name].type == field.type else main[field.name].cast(field.type)
            for field in schema
        ]
        return readable(pa.Table.from_arrays(columns, schema=schema))


@dataclass(frozen=True)
class _Given:
    """What the operator gave in a batch; None where there is nothing of a kind."""

    main: pa.Table | None
    side: pa.Table | None
    accounts: list[str]
    undecoded: str | None  # where a scan has met lines that only Spark can decode


def _completed(side: pa.Table, account: Account) -> pa.Table:
    """Side rows, those of results that failed with what is known of the batch."""
    known = {"processing_time": account.began, "watermark": account.watermark}
    for name, value in known.items() if side["shard"].null_count else ():
        place = side.schema.get_field_index(name)
        filled = pc.coalesce(side[name], pa.scalar(value, pa.int64()).cast(side[name].type))
        side = side.set_column(place, side.schema.field(place), filled)
    return side


def _opened(table: pa.Table) -> _Given:
    """From tagged blobs."""
    blobs: dict[str, list[bytes]] = {}
    for tag, blob in zip(table["tag"].to_pylist(), table["blob"], strict=True):
        blobs.setdefault(tag, []).append(blob.as_buffer())
    tables = {tag: pa.concat_tables(map(from_blob, blobs[tag])) for tag in ("main", "side") if tag in blobs}
    accounts, undecoded = ([bytes(blob).decode() for blob in blobs.get(tag, [])] for tag in ("account", UNDECODED))
    return _Given(tables.get("main"), tables.get("side"), accounts, undecoded[0] if undecoded else None)


def _sorted_out(table: pa.Table) -> _Given:
    """From rows of all kinds that Spark has finished."""
    main, side, accounts, undecoded = (
        table.filter(pc.equal(table[TAG], tag)) for tag in ("main", "side", "account", UNDECODED)
    )
    struct = side[SIDE].combine_chunks()
    fields = {struct.type.field(i).name: column for i, column in enumerate(struct.flatten())}
    where = undecoded[ACCOUNT].to_pylist()
    return _Given(
        main, pa.table(fields) if side.num_rows else None, accounts[ACCOUNT].to_pylist(), where[0] if where else None
    )
