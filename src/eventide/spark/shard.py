"""What the stateful operator does for a shard: rows to the kernel, its state, its one timer, and what comes out.

The timer is at the time for which the kernel last asked. What comes out are tagged blobs: main rows, side rows, and one
account per call.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

from eventide.kernels.contract import SIDE_OUTPUT_SCHEMA, SIDE_SCHEMA, Clock, FoldingKernel, KernelSpec, Output
from eventide.spark.clock import from_spark_ms, to_spark_ms
from eventide.spark.processor import States
from eventide.spark.state_store import SparkStore
from eventide.storage.inbox import STREAM_KINDS
from eventide.tasks.packing import UNDECODED, from_blob, to_blob
from eventide.tasks.select_list import Finish

NEXT_CLOSE = "next_close"  # gauge: the event time at which the shard will next give something out


@dataclass
class SourceTimes:
    """What a batch says of each input's time: the watermark that it may claim, the latest event time seen, and
    flushed.
    """

    claims: dict[int, int] = field(default_factory=dict)
    tops: dict[int, int] = field(default_factory=dict)
    flushes: dict[int, int] = field(default_factory=dict)

    def add(self, row: Row) -> None:
        flushed = row.at if row.control == "flush" else None
        for times, value in ((self.claims, row.claim), (self.tops, row.top), (self.flushes, flushed)):
            if value is not None:
                times[row.input] = max(value, times.get(row.input, value))


@dataclass(frozen=True)
class ShardWork:
    """What a task must know. `numbers` are the group keys of the shards.

    `finish` makes of the kernel's rows what the user sees; without it Spark does, behind the operator.
    """

    spec: KernelSpec
    plan_id: str
    numbers: tuple[int, ...]
    finish: Finish | None = None


class ShardWorker:
    """Lives as long as a task, which may have several shards, one after the other."""

    def __init__(self, work: ShardWork, handle: StatefulProcessorHandle, states: States) -> None:
        self._finish = work.finish
        self._plan_id = work.plan_id
        self._shard_of = {number: shard for shard, number in enumerate(work.numbers)}
        self._handle = handle
        self._store = SparkStore(states)
        self._kernel = work.spec.build()

    def on_rows(self, key: Any, rows: Iterator[Row], timers: Any) -> Iterator[Row]:
        clock = _clock(timers)
        tables: dict[int, list[pa.Table]] = {}
        partials, controls, times, facts = [], dict[str, list[Any]](), SourceTimes(), Counter[str]()
        undecoded: list[str] = []
        folded = 0
        for row in rows:
            times.add(row)
            if row.control == UNDECODED:
                undecoded.append(row.facts)
            elif row.facts is not None:
                facts.update(json.loads(row.facts))
            if row.folded is not None:
                partials.append(from_blob(row.blob))
                folded += row.folded
            elif row.blob is not None:
                tables.setdefault(row.input, []).append(from_blob(row.blob))
            elif row.control in STREAM_KINDS:
                controls.setdefault(row.control, []).append(row.at)
        if undecoded:
            yield Row(tag=UNDECODED, blob=undecoded[0].encode())
        if not tables and not partials and not controls:
            yield self._account(key, clock, 0, Output(), times)
            return
        self._store.begin()
        output, received = Output(), folded
        if partials and isinstance(self._kernel, FoldingKernel):
            output = self._kernel.on_folded(pa.concat_tables(partials), folded, clock, self._store)
        if tables:
            # only some tell of problems
            batch = {number: pa.concat_tables(found, promote_options="default") for number, found in tables.items()}
            received += sum(table.num_rows for table in batch.values())
            output = output.merge(self._kernel.on_rows(batch, clock, self._store))
        if "wake" in controls:
            output = output.merge(self._kernel.on_time(clock, self._store))
        if "tick" in controls:
            output = output.merge(self._kernel.on_tick(clock, self._store))
        if "flush" in controls:
            output = output.merge(self._kernel.on_flush(max(controls["flush"]), clock, self._store))
        output.events.update(facts)
        yield from self._done(key, clock, received, output, times)

    def on_timer(self, key: Any, timers: Any) -> Iterator[Row]:
        clock = _clock(timers)
        self._store.begin()
        self._store.set_timer(None)  # Spark forgets a timer that has expired
        yield from self._done(key, clock, 0, self._kernel.on_time(clock, self._store), SourceTimes())

    def _done(self, key: Any, clock: Clock, received: int, output: Output, times: SourceTimes) -> Iterator[Row]:
        self._move_timer(output.wake_at)
        self._store.end()
        shard = self._shard_of[key[0]]
        for table in output.main:
            if self._finish is not None:
                table = self._finish(table)
            if table.num_rows:
                yield Row(tag="main", blob=to_blob(table))
        for table in output.side:
            if table.num_rows:
                yield Row(tag="side", blob=to_blob(self._complete(table, clock, shard)))
        gauges = output.gauges if output.wake_at is None else {**output.gauges, NEXT_CLOSE: output.wake_at}
        yield self._account(key, clock, received, output, times, gauges)

    def _account(
        self,
        key: Any,
        clock: Clock,
        received: int,
        output: Output,
        times: SourceTimes,
        gauges: dict[str, int] | None = None,
    ) -> Row:
        """One call's part of the batch's account; `gauges` are None where the kernel was not asked."""
        account = {
            "shard": self._shard_of[key[0]],
            "rows_in": received,
            "counts": output.counts,
            "events": output.events,
            "gauges": gauges,
            "watermark": clock.watermark,
            "watermarks": times.claims,
            "tops": times.tops,
            "flushes": times.flushes,
        }
        return Row(tag="account", blob=json.dumps(account).encode())

    def _move_timer(self, wake_at: int | None) -> None:
        wanted = None if wake_at is None else to_spark_ms(wake_at)
        if wanted == self._store.timer:
            return
        if self._store.timer is not None:
            self._handle.deleteTimer(self._store.timer)
        if wanted is not None:
            self._handle.registerTimer(wanted)
        self._store.set_timer(wanted)

    def _complete(self, table: pa.Table, clock: Clock, shard: int) -> pa.Table:
        own = [clock.now, clock.watermark, self._plan_id, shard]
        for column, value in zip(list(SIDE_OUTPUT_SCHEMA)[len(SIDE_SCHEMA) :], own, strict=True):
            table = table.append_column(column, pa.repeat(pa.scalar(value, column.type), table.num_rows))
        return table


def _clock(timer_values: Any) -> Clock:
    return Clock(
        from_spark_ms(timer_values.getCurrentWatermarkInMs()), timer_values.getCurrentProcessingTimeInMs() * 1000
    )
