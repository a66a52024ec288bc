"""The end of a batch: account, side output, sinks, results. One Spark job per batch, whatever the number of sinks."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from eventide.connectors.sink import Sink
from eventide.errors import EngineError
from eventide.kernels.contract import SIDE_KINDS, USED
from eventide.kernels.vector.text import readable
from eventide.spark.pack import ACCOUNT, SIDE, TAG
from eventide.spark.side import SideOutput
from eventide.storage.payloads import PAYLOAD_SCHEMA, original_rows, to_payloads
from eventide.storage.results import Account, Results, add_counts
from eventide.storage.time_bound import TimeBoundFile
from eventide.tasks.packing import from_blob
from eventide.tasks.select_list import RANK

ROWS_IN = "rows_in"
FALLBACK = "event_time_from_processing_time"
_LOG = logging.getLogger("eventide")


@dataclass
class Router:
    """Called by Spark with each batch; idempotent by the batch's number.

    The account is written last. So a batch whose account is there has reached every sink, and one that is repeated
    after a crash reaches the sinks again under the same number.
    """

    stream: str
    results: Results
    outputs: pa.Schema
    originals: pa.Schema
    sources: tuple[str, ...]
    sinks: list[Sink] = field(default_factory=list)
    late_sinks: list[Sink] = field(default_factory=list)
    side: SideOutput = field(default_factory=lambda: SideOutput({}))
    bound: TimeBoundFile | None = None
    heard: set[str] = field(default_factory=set)  # sources that gave rows since this was last emptied
    failure: BaseException | None = None
    _warned: bool = False

    def __call__(self, frame: DataFrame, batch: int) -> None:
        try:
            table = (
                frame.toArrow()
            )  # of a batch that is known, too: Spark insists that every shard commits its state again
            if not self.results.has(batch):
                self._route(table, batch)
        except BaseException as error:
            self.failure = error
            raise

    def close(self, seconds: float) -> None:
        """Let the sinks go; side sinks get `seconds` for what waits."""
        self.side.close(seconds)
        for sink in (*self.sinks, *self.late_sinks):
            sink.close()

    def _route(self, table: pa.Table, batch: int) -> None:
        if table.num_rows == 0:
            return
        given = _opened(table) if table.column_names == ["tag", "blob"] else _sorted_out(table)
        main = self._in_order(given.main)
        side = to_payloads(given.side) if given.side is not None else PAYLOAD_SCHEMA.empty_table()
        account = self._account(batch, given.accounts)
        for sink in self.sinks:
            sink.write(batch, main)
        if self.late_sinks:
            late = original_rows(side.filter(pc.equal(side["kind"], "late")), self.originals)
            for sink in self.late_sinks:
                sink.write(batch, late)
        self.side.send_back(batch, side)
        if self.bound is not None:
            self.bound.draw(account)
        self.results.write(main, self.side.keep(side), account)
        self.side.stored(batch)

    def _in_order(self, main: pa.Table | None) -> pa.Table:
        if main is None:
            return self.outputs.empty_table()
        if main.num_rows and main[RANK].null_count == 0:
            main = main.take(
                pc.array_sort_indices(main[RANK])
            )  # stable: what is taken back, of all shards, comes first
        columns = [
            main[field.name] if main[field.name].type == field.type else main[field.name].cast(field.type)
            for field in self.outputs
        ]
        return readable(pa.Table.from_arrays(columns, schema=self.outputs))

    def _account(self, batch: int, accounts: list[str]) -> Account:
        counts: Counter[str] = Counter()
        events: Counter[str] = Counter()
        by_shard: dict[int, dict[str, int]] = {}
        watermark: int | None = None
        before = self.results.latest()
        sources = {branch: dict(marks) for branch, marks in before.sources.items()} if before else {}
        for text in accounts:
            one: Mapping[str, Any] = json.loads(text)
            self._balance(batch, one)
            counts.update({ROWS_IN: one["rows_in"], **one["counts"]})
            events.update(one["events"])
            if one["gauges"] is not None:
                by_shard[one["shard"]] = one["gauges"]
            watermark = one["watermark"]
            for mark, figures in (
                ("watermark", one["watermarks"]),
                ("max_timestamp_seen", one["tops"]),
                ("flushed", one["flushes"]),
            ):
                for branch, value in figures.items():
                    kept = sources.setdefault(self.sources[int(branch)], {})
                    kept[mark] = max(value, kept.get(mark, value))
            for branch in one["tops"]:
                self.heard.add(self.sources[int(branch)])
        self._warn_of_fallback(events)
        totals = add_counts(before.totals if before else {}, counts, events)
        gauges = self._gauges(by_shard, before.gauges if before else {})
        return Account(batch, dict(counts), totals, dict(events), gauges, watermark, sources)

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


@dataclass(frozen=True)
class _Given:
    """What the operator gave in a batch; None where there is nothing of a kind."""

    main: pa.Table | None
    side: pa.Table | None
    accounts: list[str]


def _opened(table: pa.Table) -> _Given:
    """From tagged blobs."""
    blobs: dict[str, list[bytes]] = {}
    for tag, blob in zip(table["tag"].to_pylist(), table["blob"], strict=True):
        blobs.setdefault(tag, []).append(blob.as_buffer())
    tables = {tag: pa.concat_tables(map(from_blob, blobs[tag])) for tag in ("main", "side") if tag in blobs}
    return _Given(tables.get("main"), tables.get("side"), [bytes(blob).decode() for blob in blobs.get("account", [])])


def _sorted_out(table: pa.Table) -> _Given:
    """From rows of all kinds that Spark has finished."""
    main, side, accounts = (table.filter(pc.equal(table[TAG], tag)) for tag in ("main", "side", "account"))
    struct = side[SIDE].combine_chunks()
    fields = {struct.type.field(i).name: column for i, column in enumerate(struct.flatten())}
    return _Given(main, pa.table(fields) if side.num_rows else None, accounts[ACCOUNT].to_pylist())
