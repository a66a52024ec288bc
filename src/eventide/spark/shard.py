"""What the stateful operator does for a shard: rows to the kernel, its state, its one timer, and what comes out.

The timer is at the time for which the kernel last asked. What comes out are tagged blobs: main rows, side rows, and one
account per call.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

from eventide.errors import EngineError
from eventide.eventtime.lanes import Lanes, add_lanes
from eventide.kernels.contract import SIDE_OUTPUT_SCHEMA, SIDE_SCHEMA, USED, Clock, FoldingKernel, Output
from eventide.kernels.intake import IntakeSpec
from eventide.kernels.side_rows import NotReadError
from eventide.kernels.vector.busiest_key import MANY, busiest_key
from eventide.spark.clock import from_spark_ms, to_spark_ms
from eventide.spark.processor import States
from eventide.spark.state_store import SparkStore
from eventide.spark.task_output import Assignment, OutputForm, TaskOutput
from eventide.storage.inbox import MANIFEST, STREAM_KINDS
from eventide.tasks.packing import (
    FORWARDED,
    LANES,
    NOT_READ,
    OVERDRAWN,
    REST,
    SURVEY,
    UNDECODED,
    from_blob,
    left_out_of,
    order_of,
    survey_of,
    to_blob,
    trusted_of,
)
from eventide.tasks.select_list import Finish

if TYPE_CHECKING:
    from eventide.admission.gate import Gate, LetIn
    from eventide.admission.options import AdmissionSpec
    from eventide.admission.shedder import ShedOrder
    from eventide.admission.trust import Trusted
    from eventide.spark.moved_state import Moved

# Gauges: the event time at which the shard will next give something out, or forget something; the same once more if it
# only forgets then.
NEXT_CLOSE, NEXT_FORGETS = "next_close", "next_forgets"


@dataclass
class SourceTimes:
    """What a batch says about each input: the watermark that it may claim, the latest event time seen, and flushed; and
    how many rows were admitted.
    """

    claims: dict[int, int] = field(default_factory=dict)
    judged: dict[int, int] = field(default_factory=dict)  # of the claims, those that no task could tell
    tops: dict[int, int] = field(default_factory=dict)
    flushes: dict[int, int] = field(default_factory=dict)
    figures: dict[int, dict[str, float]] = field(default_factory=dict)  # of admission
    offered: dict[int, int] = field(default_factory=dict)  # the latest event time, of rows that were shed as well
    lanes: dict[int, Lanes] = field(default_factory=dict)  # of inputs whose partitions have a watermark each
    rows: Counter[int] = field(default_factory=Counter)  # how many came, whatever becomes of them
    taken: int = 0  # the newest manifest of the inbox

    def note(self, let_in: LetIn) -> None:
        """What was only known when rows had been admitted."""
        for times, found in ((self.claims, let_in.claims), (self.tops, let_in.tops)):
            for number, value in found.items():
                times[number] = max(value, times.get(number, value))
        self.figures, self.offered, self.judged = let_in.figures, let_in.offered, let_in.claims

    def add(self, row: Row) -> None:
        if row.control == MANIFEST:
            self.taken = max(self.taken, row.at)
        if row.control == LANES:
            add_lanes(self.lanes.setdefault(row.input, {}), json.loads(row.facts))
        flushed = row.at if row.control == "flush" else None
        for times, value in ((self.claims, row.claim), (self.tops, row.top), (self.flushes, flushed)):
            if value is not None:
                times[row.input] = max(value, times.get(row.input, value))


@dataclass(frozen=True)
class ShardWork:
    """What a task must know. `numbers` are the group keys of the shards.

    `finish` makes of the kernel's rows what the user sees, and `form` what is stored of it; without them Spark does,
    after the operator.
    """

    spec: IntakeSpec
    plan_id: str
    numbers: tuple[int, ...]
    finish: Finish | None = None
    form: OutputForm | None = None
    admission: Mapping[int, AdmissionSpec] = field(default_factory=dict)  # of inputs that have limits
    shed_window: tuple[int, int] | None = None  # offset and size of windows that may be shed as a whole
    moved: Moved | None = None  # from which other shards its state has come


@dataclass
class Received:
    """What came to a shard in a batch, unpacked."""

    tables: dict[int, list[tuple[int | None, pa.Table]]] = field(default_factory=dict)  # by input, each with its survey
    slices: dict[int, dict[int, pa.Table]] = field(default_factory=dict)  # by input and survey, of all tasks
    left_out: dict[int, Counter[int]] = field(default_factory=dict)  # rows that tasks have shed, by input and priority
    trusted: dict[int, list[Trusted]] = field(default_factory=dict)  # of rows that tasks let pass, by input
    partials: list[pa.Table] = field(default_factory=list)
    folded: int = 0
    forwarded: int = 0
    given: list[tuple[str, bytes]] = field(default_factory=list)  # what tasks have made of rows they forwarded, tagged
    controls: dict[str, list[Any]] = field(default_factory=dict)
    times: SourceTimes = field(default_factory=SourceTimes)
    rest: dict[int, list[tuple[int, pa.Table]]] = field(default_factory=dict)  # of rows that the query leaves out
    facts: Counter[str] = field(default_factory=Counter)
    undecoded: str | None = None

    def add(self, row: Row) -> None:
        self.times.add(row)
        if row.control == UNDECODED:
            self.undecoded = self.undecoded or row.facts
        elif row.facts is not None and row.control != LANES:
            self.facts.update(json.loads(row.facts))
        if row.control == FORWARDED:
            tagged = from_blob(row.blob)
            self.given += zip(tagged["tag"].to_pylist(), tagged["blob"].to_pylist(), strict=True)
            self.forwarded += row.folded
            self.times.rows[row.input] += row.folded
        elif row.folded is not None:
            self.partials.append(from_blob(row.blob))
            self.folded += row.folded
            self.times.rows[row.input] += row.folded
        elif row.control == SURVEY:
            slices = from_blob(row.blob)
            self.slices.setdefault(row.input, {})[survey_of(slices) or 0] = slices
            left_out, trusted = left_out_of(slices), trusted_of(slices)
            if trusted is not None:
                from eventide.admission.trust import Trusted  # which streams without limits need not load

                self.trusted.setdefault(row.input, []).append(Trusted.from_bytes(trusted))
            self.left_out.setdefault(row.input, Counter()).update(left_out)
            self.times.rows[row.input] += sum(left_out.values())
        elif row.control == REST:
            table = from_blob(row.blob)
            self.rest.setdefault(row.input, []).append((survey_of(table) or 0, table))
        elif row.blob is not None:
            table = from_blob(row.blob)
            self.tables.setdefault(row.input, []).append((survey_of(table), table))
            self.times.rows[row.input] += table.num_rows
        elif row.control in STREAM_KINDS:
            self.controls.setdefault(row.control, []).append(row.at)

    def orders(self) -> dict[int, ShedOrder]:
        """What the shedder was to do, by input."""
        from eventide.admission.shedder import ShedOrder

        told = {number: order_of(next(iter(slices.values()))) for number, slices in self.slices.items()}
        return {number: ShedOrder.from_bytes(order) for number, order in told.items() if order is not None}

    @property
    def is_empty(self) -> bool:
        return not (self.tables or self.slices or self.partials or self.controls or self.forwarded)

    @property
    def count(self) -> int:
        rows: int = sum(table.num_rows for tables in self.tables.values() for _, table in tables)
        return self.folded + self.forwarded + rows + sum(each.total() for each in self.left_out.values())


class ShardWorker:
    """Lives as long as a task, which may have several shards, one after the other."""

    def __init__(self, work: ShardWork, handle: StatefulProcessorHandle, states: States) -> None:
        self._finish = work.finish
        self._form = work.form
        self._plan_id = work.plan_id
        self._shard_of = {number: shard for shard, number in enumerate(work.numbers)}
        self._handle = handle
        self._store = SparkStore(states, work.moved)
        self._kernel = work.spec.build()
        self._gate = _gate(work) if work.admission else None
        self._is_void = False  # whether the batch comes again, and what is in the store does not count

    def on_rows(self, key: Any, rows: Iterator[Row], timers: Any) -> Iterator[Row]:
        if key[0] not in self._shard_of:
            self._drop()
            return
        clock, began = _clock(timers), time.perf_counter()
        received = Received()
        for row in rows:
            received.add(row)
        if received.undecoded is not None:
            yield Row(tag=UNDECODED, blob=received.undecoded.encode())
        if received.is_empty:
            yield self._account(key, clock, 0, Output(), received.times)
            return
        self._store.begin(self._shard_of[key[0]])
        tables, output = self._let_in(received)
        if tables is None:
            yield Row(tag=OVERDRAWN, blob=b"")
            return
        # only some tell of problems
        batch = {number: pa.concat_tables(found, promote_options="default") for number, found in tables.items()}
        try:
            output = output.merge(self._given(received, batch, clock))
        except NotReadError:
            self._is_void = True
            yield Row(tag=NOT_READ, blob=b"")
            return
        # microseconds spent, and the key with most of the rows, where many came
        effort: dict[str, Any] = {"spent": int((time.perf_counter() - began) * 1e6)}
        if max((table.num_rows for table in batch.values()), default=0) >= MANY:
            effort["busiest"] = busiest_key(list(batch.values()))
        yield from self._done(key, clock, received.count, output, received.times, effort)
        yield from (Row(tag=tag, blob=blob) for tag, blob in received.given)

    def _given(self, received: Received, batch: Mapping[int, pa.Table], clock: Clock) -> Output:
        """What the kernel gives for the rows that were let in, and for what the stream was told."""
        output = Output()
        if received.partials and isinstance(self._kernel, FoldingKernel):
            folded = pa.concat_tables(received.partials)
            output = output.merge(self._kernel.on_folded(folded, received.folded, clock, self._store))
        if batch or not (received.partials or received.controls):
            output = output.merge(self._kernel.on_rows(batch, clock, self._store))
        if "wake" in received.controls:
            output = output.merge(self._kernel.on_time(clock, self._store))
        if "tick" in received.controls:
            output = output.merge(self._kernel.on_tick(clock, self._store))
        if "flush" in received.controls:
            output = output.merge(self._kernel.on_flush(max(received.controls["flush"]), clock, self._store))
        output.counts[USED] += received.forwarded
        output.events.update(received.facts)
        return output

    def _let_in(self, received: Received) -> tuple[dict[int, list[pa.Table]] | None, Output]:
        """The rows that limits admit, by input; the output has the others. None if tasks let rows pass that limits do
        not admit.
        """
        if not received.slices:
            return {number: [table for _, table in found] for number, found in received.tables.items()}, Output()
        if self._gate is None:
            raise EngineError("slices of a survey came to a shard that knows no limits")
        let_in = self._gate.let_in(
            received.slices,
            received.tables,
            self._store,
            received.orders(),
            received.left_out,
            received.rest,
            received.trusted,
        )
        if let_in.is_overdrawn:
            return None, let_in.output
        received.times.note(let_in)
        return {number: tables for number, tables in let_in.rows.items() if tables}, let_in.output

    def on_timer(self, key: Any, timers: Any) -> Iterator[Row]:
        if self._is_void:
            return
        if key[0] not in self._shard_of:
            self._store.drop()
            return
        clock = _clock(timers)
        self._store.begin(self._shard_of[key[0]])
        self._store.set_timer(None)  # Spark forgets a timer that has expired
        yield from self._done(key, clock, 0, self._kernel.on_time(clock, self._store), SourceTimes())

    def _drop(self) -> None:
        """Of a shard that is no more: what it held has moved to others."""
        timer = self._store.drop()
        if timer is not None:
            self._handle.deleteTimer(timer)

    def _done(
        self,
        key: Any,
        clock: Clock,
        received: int,
        output: Output,
        times: SourceTimes,
        effort: Mapping[str, Any] | None = None,
    ) -> Iterator[Row]:
        self._move_timer(output.wake_at)
        self._store.end()
        shard = self._shard_of[key[0]]
        gauges = output.gauges
        if output.wake_at is not None:
            due = (NEXT_CLOSE, NEXT_FORGETS) if output.only_forgets else (NEXT_CLOSE,)
            gauges = {**gauges, **dict.fromkeys(due, output.wake_at)}
        # first: who comes behind may need its times
        yield self._account(key, clock, received, output, times, gauges, effort)
        side = (self._complete(table, clock, shard) for table in output.side if table.num_rows)
        if self._finish is None or self._form is None:
            yield from (Row(tag="main", blob=to_blob(table)) for table in output.main if table.num_rows)
            yield from (Row(tag="side", blob=to_blob(table)) for table in side)
            return
        given = TaskOutput(self._form, shard, partial(Assignment.of_task, self._form.store))
        for table in output.main:
            given.add_main(self._finish(table))
        for table in side:
            given.add_side(table)
        yield from (Row(tag=tag, blob=blob) for tag, blob in given.end())

    def _account(
        self,
        key: Any,
        clock: Clock,
        received: int,
        output: Output,
        times: SourceTimes,
        gauges: dict[str, int] | None = None,
        effort: Mapping[str, Any] | None = None,
    ) -> Row:
        """One call's part of the batch's account; `gauges` are None where the kernel was not asked."""
        account = {
            "shard": self._shard_of[key[0]],
            "rows_in": received,
            "counts": output.counts,
            "events": output.events,
            "gauges": gauges,
            "now": clock.now,
            "watermark": clock.watermark,
            "watermarks": times.claims,
            "judged": times.judged,
            "tops": times.tops,
            "flushes": times.flushes,
            "admission": times.figures,
            "offered": times.offered,
            "lanes": times.lanes,
            "rows": times.rows,
            "taken": times.taken,
            **(effort or {}),
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


def _gate(work: ShardWork) -> Gate:
    from eventide.admission.gate import Gate  # which streams without limits need not load

    return Gate(work.admission, work.spec.inner.side_rows, work.shed_window)


def _clock(timer_values: Any) -> Clock:
    return Clock(
        from_spark_ms(timer_values.getCurrentWatermarkInMs()), timer_values.getCurrentProcessingTimeInMs() * 1000
    )
