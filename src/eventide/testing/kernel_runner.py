"""A stream on bare kernels: the reference model's batches, the engine's kernels, and no Spark."""

from __future__ import annotations

import json
import pickle
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eventide.errors import EngineError
from eventide.kernels.contract import DEDUP, DETAIL, PROBLEM, ROWTIME, SEQ, TS, Clock, Kernel, Output, iter_rows
from eventide.kernels.intake import IntakeSpec
from eventide.kernels.state.memory_store import MemoryStore
from eventide.plan.changes import lateness
from eventide.plan.co_location import CoLocation, co_location
from eventide.plan.kernel_spec import KernelTypes, kernel_spec
from eventide.plan.logical import Stream
from eventide.plan.physical import AggregateWindows, JoinRows, OverRows, RankRows
from eventide.plan.windows import Tumble, Unbounded
from eventide.tasks.cutting import AsAWhole, ByKey, Cutting
from eventide.tasks.scalars import parsed
from eventide.testing.aggregates import frozen
from eventide.testing.arrivals import Arrival
from eventide.testing.batches import MILLISECOND, BatchRunner, Payload, Step
from eventide.testing.expressions import evaluate
from eventide.testing.value_types import packed_types, result_type, typed
from eventide.testing.values import micros_of

FIRST = -(1 << 62)  # before all times: whatever waits, looks at its clock


class KernelRunner(BatchRunner):
    """One kernel for all shards, as in a Spark task, and an in-memory store for each shard."""

    def __init__(self, stream: Stream, shards: int = 1, resolution: int = MILLISECOND) -> None:
        super().__init__(stream, resolution)
        self.spec = self._spec()
        self.stores = [MemoryStore() for _ in range(shards)]
        self._kernel: Kernel = self.spec.build()
        self._wake_at: list[int | None] = [None] * shards
        self._gauges: list[dict[str, int]] = [{} for _ in range(shards)]
        self._told: int | None = None
        self._seq = 0

    def _spec(self) -> IntakeSpec:
        operator = self.physical.operator
        sides = sorted({input.side for input in self.physical.inputs})
        self._types = tuple(packed_types(self.physical, side) for side in sides)
        results = {call.name: result_type(call, self._types[0]) for call in self.physical.aggregates}
        condition = operator.condition if isinstance(operator, JoinRows) else None
        compiled = None if condition is None else Condition(condition)
        return kernel_spec(self.physical, KernelTypes(self._types, results, condition=compiled))

    def change(self, stream: Stream) -> None:
        """Go on from the stores under another text; as on Spark, all shards are woken then."""
        before, layout, late = self.spec.past, self.spec.layout, lateness(self.physical.stream)
        super().change(stream)
        past = before.followed_by(layout, None if self.watermark is None else self.watermark - late)
        self.spec = self._spec().continuing(past)
        self._kernel = self.spec.build()
        self._wake_at = [FIRST] * len(self.stores)

    @property
    def output_watermark(self) -> int | None:
        """The watermark of what the stream gives."""
        if self.watermark is not None:
            gauges: dict[str, list[int]] = {}
            for name, value in (each for shard in self._gauges for each in shard.items()):
                gauges.setdefault(name, []).append(value)
            told = self.spec.output_watermark(self.watermark, gauges)
            self._told = self._told if told is None else told
        return self._told

    @property
    def is_open(self) -> bool:
        """Whether something is waiting for time to pass."""
        return any(wake_at is not None for wake_at in self._wake_at)

    def output_types(self) -> dict[str, pa.DataType]:
        """The types of what the user sees."""
        types = dict(zip((name.lower() for name in self._main_names()), self.spec.main_schema.types, strict=True))
        types["window_id"] = pa.string()
        return {named.name: typed(parsed(named.sql), types) for named in self.physical.outputs}

    def restart(self) -> None:
        """Only what was pickled survives: the spec and the stores. Spark keeps the timers."""
        self.spec, self.stores = pickle.loads(pickle.dumps((self.spec, self.stores)))
        self._kernel = self.spec.build()

    def rescale(self, shards: int) -> None:
        """Go on with another number of shards; as on Spark, all of them are woken then."""
        before = len(self.stores)
        together = co_location(self.physical) is CoLocation.EVERYTHING
        cutting: Cutting = AsAWhole(before, shards) if together else ByKey(self.spec, _ByKeys(), before, shards)
        parts = [part for shard in cutting.cut_up for part in cutting.cut(self.stores[shard])]
        self.stores = [MemoryStore() for _ in range(shards)]
        for shard in sorted({target for target, _, _ in parts}):
            mine = [(rows, part) for target, rows, part in parts if target == shard]
            rows, blobs = cutting.put_together([part for _, part in mine])
            if rows != sum(count for count, _ in mine):
                raise EngineError(f"shard {shard} holds {rows} rows, and {mine} were sent")
            for space, bucket, blob in blobs:
                self.stores[shard].append(space, bucket, blob)
        self._wake_at = [FIRST] * shards
        self._gauges = [{} for _ in range(shards)]

    @property
    def is_movable(self) -> bool:
        """Whether `rescale` can be called."""
        place = co_location(self.physical)
        return place is CoLocation.EVERYTHING or (place is not CoLocation.WINDOW and self.spec.build().is_movable)

    def _take(self, arrivals: list[Arrival], watermark: int | None, now: int, step: Step) -> None:
        clock = Clock(watermark, now)
        by_shard: dict[int, list[Arrival]] = {}
        for arrival in arrivals:
            by_shard.setdefault(self._shard(arrival), []).append(arrival)
        for shard, rows in sorted(by_shard.items()):
            self._keep(shard, self._kernel.on_rows(self._batch(rows), clock, self.stores[shard]), step)
        if watermark is not None:
            self._pass_time(watermark, now, step)

    def _pass_time(self, watermark: int, now: int, step: Step) -> None:
        for shard, wake_at in enumerate(self._wake_at):
            if wake_at is not None and wake_at <= watermark:
                self._keep(shard, self._kernel.on_time(Clock(watermark, now), self.stores[shard]), step)

    def _tick(self, watermark: int | None, now: int, step: Step) -> None:
        for shard, store in enumerate(self.stores):
            self._keep(shard, self._kernel.on_tick(Clock(watermark, now), store), step)

    def _flush(self, until: int, watermark: int | None, now: int, step: Step) -> None:
        for shard, store in enumerate(self.stores):
            self._keep(shard, self._kernel.on_flush(until, Clock(watermark, now), store), step)

    def _shard(self, arrival: Arrival) -> int:
        """Rows that must meet go to the same shard, by the engine's rules."""
        operator = self.physical.operator
        match co_location(self.physical):
            case CoLocation.EVERYTHING:
                return 0
            case CoLocation.WINDOW if isinstance(operator, AggregateWindows) and isinstance(operator.window, Tumble):
                meet: Any = ((arrival.time or 0) - operator.window.offset) // operator.window.size
            case CoLocation.KEY:
                meet = [arrival.packed[key.sql] for key in self.physical.inputs[arrival.input].keys]
                return _shard_of_keys(meet, len(self.stores))
            case _:
                meet = arrival.identity
        return zlib.crc32(repr(meet).encode()) % len(self.stores)

    def _batch(self, rows: Sequence[Arrival]) -> dict[int, pa.Table]:
        """The rows by input, numbered in the order of their arrival."""
        numbered = list(enumerate(rows, self._seq))
        self._seq += len(rows)
        found = sorted({row.input for row in rows})
        return {
            number: self._table(number, [(seq, row) for seq, row in numbered if row.input == number])
            for number in found
        }

    def _table(self, input: int, numbered: Sequence[tuple[int, Arrival]]) -> pa.Table:
        rows = [row for _, row in numbered]
        columns = {
            TS: pa.array([row.time for row in rows], pa.int64()),
            PROBLEM: pa.array([row.problem for row in rows], pa.string()),
            DETAIL: pa.nulls(len(rows), pa.string()),
            SEQ: pa.array([seq for seq, _ in numbered], pa.int64()),
        }
        if self.spec.deduplicates:
            columns[DEDUP] = pa.array(
                [None if row.identity is None else repr(row.identity) for row in rows], pa.string()
            )
        for name, kind in self._types[self.physical.inputs[input].side].items():
            columns[name] = pa.array([row.packed[name] for row in rows], kind)
        return pa.table(columns)

    def _keep(self, shard: int, output: Output, step: Step) -> None:
        names = self._main_names()
        for table in output.main:
            step.main += [dict(zip(names, row.values(), strict=True)) for row in table.to_pylist()]
        for payload in iter_rows(output.side):
            step.side.append(_payload(payload))
        step.counts.update(output.counts)
        self._wake_at[shard] = output.wake_at
        self._gauges[shard].update(output.gauges)

    def _main_names(self) -> list[str]:
        first, operator = self.physical.inputs[0], self.physical.operator
        if isinstance(operator, JoinRows | RankRows | OverRows):
            return list(self.spec.main_schema.names)
        if not isinstance(operator, AggregateWindows):
            return list(self.spec.main_schema.names)
        keys = [f"__k{number}" for number in range(len(first.keys))]
        times = [ROWTIME] if isinstance(operator.window, Unbounded) else []
        calls = [call.name for call in operator.aggregates]
        return ["window_start", "window_end", "emit_epoch", "op", *keys, *calls, *times]


class _ByKeys:
    """Rows of state go where `KernelRunner._shard` sends rows with their keys."""

    def shards_of(self, rows: pa.Table, shards: int, task: int) -> npt.NDArray[np.uint64]:
        keys = rows.select([name for name in rows.column_names if re.fullmatch(r"__k\d+", name)]).to_pylist()
        return np.array([_shard_of_keys(list(row.values()), shards) for row in keys], np.uint64)


def _shard_of_keys(keys: list[Any], shards: int) -> int:
    return zlib.crc32(repr(frozen(keys)).encode()) % shards


@dataclass(frozen=True)
class Condition:
    """The residual condition of a join, evaluated as the reference model does."""

    sql: str

    def __call__(self, pairs: pa.Table) -> pa.Array:
        return pa.array([evaluate(self.sql, row) for row in pairs.to_pylist()], pa.bool_())


def _payload(row: dict[str, Any]) -> Payload:
    time = row["event_time"]
    original = json.loads(row["original_event"]) if row["original_event"] is not None else {}
    return Payload(row["kind"], row["reason"], None if time is None else micros_of(time), original, row["source"] or "")
