"""A stream on bare kernels: the reference model's batches, the engine's kernels, and no Spark."""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Callable, Sequence
from types import NoneType
from typing import Any

import pyarrow as pa

from eventide.kernels.aggregates import AggregateSpec
from eventide.kernels.contract import DEDUP, DETAIL, PROBLEM, SEQ, TS, Clock, Kernel, Output, iter_rows
from eventide.kernels.intake import InnerSpec, IntakeSpec
from eventide.kernels.logic.forward import ForwardSpec
from eventide.kernels.logic.panes import CumulateSpec, PanedSpec
from eventide.kernels.logic.sessions import SessionSpec
from eventide.kernels.logic.slides import SlideSpec
from eventide.kernels.side_rows import Sides
from eventide.kernels.state.memory_store import MemoryStore
from eventide.plan.co_location import CoLocation, co_location, late_policy
from eventide.plan.logical import Cumulate, Hop, Session, Slide, Stream, Tumble
from eventide.plan.physical import Physical
from eventide.testing.aggregates import frozen
from eventide.testing.arrivals import Arrival
from eventide.testing.batches import MILLISECOND, BatchRunner, Payload, Step
from eventide.testing.expressions import unsupported
from eventide.testing.value_types import Types, packed_types, result_type
from eventide.testing.values import micros_of


class KernelRunner(BatchRunner):
    """One kernel for all shards, as in a Spark task, and an in-memory store for each shard."""

    def __init__(self, stream: Stream, shards: int = 1, resolution: int = MILLISECOND) -> None:
        super().__init__(stream, resolution)
        self.spec = kernel_spec(self.physical)
        self.stores = [MemoryStore() for _ in range(shards)]
        self._kernel: Kernel = self.spec.build()
        self._wake_at: list[int | None] = [None] * shards
        self._types = packed_types(self.physical)
        self._seq = 0

    def restart(self) -> None:
        """Only what was pickled survives: the spec and the stores. Spark keeps the timers."""
        self.spec, self.stores = pickle.loads(pickle.dumps((self.spec, self.stores)))
        self._kernel = self.spec.build()

    def _take(self, arrivals: list[Arrival], watermark: int | None, now: int, step: Step) -> None:
        clock = Clock(watermark, now)
        by_shard: dict[int, list[Arrival]] = {}
        for arrival in arrivals:
            by_shard.setdefault(self._shard(arrival), []).append(arrival)
        for shard, rows in sorted(by_shard.items()):
            self._keep(shard, self._kernel.on_rows(self._table(rows), clock, self.stores[shard]), step)
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
        match co_location(self.physical):
            case CoLocation.EVERYTHING:
                return 0
            case CoLocation.WINDOW if isinstance(self.physical.window, Tumble):
                meet: Any = ((arrival.time or 0) - self.physical.window.offset) // self.physical.window.size
            case CoLocation.GROUP:
                meet = frozen([arrival.packed[key.sql] for key in self.physical.keys])
            case _:
                meet = arrival.identity
        return zlib.crc32(repr(meet).encode()) % len(self.stores)

    def _table(self, rows: Sequence[Arrival]) -> pa.Table:
        self._seq += len(rows)
        columns = {
            TS: pa.array([row.time for row in rows], pa.int64()),
            PROBLEM: pa.array([row.problem for row in rows], pa.string()),
            DETAIL: pa.nulls(len(rows), pa.string()),
            SEQ: pa.array(range(self._seq - len(rows), self._seq), pa.int64()),
        }
        if self.spec.dedup_within is not None:
            columns[DEDUP] = pa.array(
                [None if row.identity is None else repr(row.identity) for row in rows], pa.string()
            )
        for name, kind in self._types.items():
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

    def _main_names(self) -> list[str]:
        physical = self.physical
        if physical.window is None:
            return [original.name for original in physical.originals]
        keys = [f"__k{number}" for number in range(len(physical.keys))]
        return ["window_start", "window_end", "emit_epoch", "op", *keys, *[call.name for call in physical.aggregates]]


def _payload(row: dict[str, Any]) -> Payload:
    time = row["event_time"]
    return Payload(row["kind"], row["reason"], None if time is None else micros_of(time))


# From a plan to a kernel's spec, with the types that Spark would have found -------------------------------------------


def kernel_spec(physical: Physical) -> IntakeSpec:
    kind = type(physical.window)
    if kind not in _INNER:
        raise unsupported(f"a kernel for {kind.__name__}")
    inner = _INNER[kind](physical, packed_types(physical), physical.window)
    sides = Sides(
        tuple((key.name, key.sql) for key in physical.keys),
        tuple((original.name, original.sql) for original in physical.originals),
        physical.emit.mode.value != "final",
    )
    spans = {branch.source.dedup.within for branch in physical.branches if branch.source.dedup}
    if len(spans) > 1:
        raise unsupported("sources that deduplicate within different spans")
    return IntakeSpec(
        inner, sides, late_policy(physical).value, physical.options.max_lateness, max(spans, default=None)
    )


def _common(physical: Physical, types: Types) -> dict[str, Any]:
    """The parameters common to all windows."""
    return {
        "lateness": physical.emit.allowed_lateness,
        "keys": tuple((key.name, key.sql) for key in physical.keys),
        "key_types": tuple(types[key.sql] for key in physical.keys),
        "originals": tuple((original.name, original.sql) for original in physical.originals),
        "aggregates": tuple(
            AggregateSpec(
                call.name,
                call.function,
                call.inputs,
                tuple(types[name] for name in call.inputs),
                result_type(call, types),
                call.distinct,
                call.parameters,
            )
            for call in physical.aggregates
        ),
        "emit": physical.emit.mode.value,
        "every": physical.emit.every,
        "max_groups": physical.options.max_groups,
    }


def _forward(physical: Physical, types: Types, window: None) -> ForwardSpec:
    originals = tuple((original.name, original.sql) for original in physical.originals)
    return ForwardSpec(originals, tuple(types[packed] for _, packed in originals), physical.ordered)


# A new kernel is one more line here.
_INNER: dict[type, Callable[[Physical, Types, Any], InnerSpec]] = {
    Tumble: lambda physical, types, w: PanedSpec(w.size, w.size, w.offset, **_common(physical, types)),
    Hop: lambda physical, types, w: PanedSpec(w.size, w.slide, w.offset, **_common(physical, types)),
    Cumulate: lambda physical, types, w: CumulateSpec(w.size, w.step, w.offset, **_common(physical, types)),
    Session: lambda physical, types, w: SessionSpec(w.gap, **_common(physical, types)),
    Slide: lambda physical, types, w: SlideSpec(w.lookback, w.lookahead, **_common(physical, types)),
    NoneType: _forward,
}
