"""Drives a kernel as a runner does, and checks on the way what every kernel guarantees."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from eventide.kernels.aggregates import AggregateSpec
from eventide.kernels.contract import (
    DEDUP,
    DETAIL,
    PROBLEM,
    ROWTIME,
    SEQ,
    TS,
    WINDOW_END,
    WINDOW_START,
    Clock,
    InputSpec,
    KernelSpec,
    Output,
    iter_rows,
)
from eventide.kernels.intake import IntakeSpec
from eventide.kernels.joins.spec import JoinSpec
from eventide.kernels.logic.windowed import WindowedAggregation
from eventide.kernels.state.memory_store import MemoryStore
from eventide.plan.joins import JoinBound
from eventide.plan.modes import EmitMode, JoinKind
from eventide.plan.windows import Cumulate, Hop, Session, Slide, Tumble, Window

BIGINT, DOUBLE, STRING = pa.int64(), pa.float64(), pa.string()
COUNT = AggregateSpec("__a0", "count", (), (), BIGINT)
SUM = AggregateSpec("__a1", "sum", ("__i0",), (BIGINT,), BIGINT)
KEYED: dict[str, Any] = {"keys": (("k", "__k0"),), "key_types": (STRING,), "originals": (("k", "__k0"), ("v", "__i0"))}
KEYED_SUMS: dict[str, Any] = {**KEYED, "aggregates": (COUNT, SUM)}


def paned_spec(size: int, slide: int, offset: int = 0, **more: Any) -> WindowedAggregation:
    window = Tumble(size, offset) if slide == size else Hop(size, slide, offset)
    return _spec(window, more)


def cumulating_spec(size: int, slide: int, offset: int = 0, **more: Any) -> WindowedAggregation:
    return _spec(Cumulate(size, slide, offset), more)


def session_spec(gap: int, **more: Any) -> WindowedAggregation:
    return _spec(Session(gap), more)


def slide_spec(lookback: int, lookahead: int | None = None, **more: Any) -> WindowedAggregation:
    return _spec(Slide(lookback, lookahead), more)


def _spec(window: Window, more: dict[str, Any]) -> WindowedAggregation:
    """`emit` may be given by its name."""
    return WindowedAggregation(window, **{**more, "emit": EmitMode(more.get("emit", EmitMode.ON_WINDOW_CLOSE))})


def join_spec(bound: JoinBound, kind: str = "inner", **more: Any) -> JoinSpec:
    """A join by key; pairs show key, left value and right value."""
    names = (("k", "__k0"),)
    inputs = tuple(InputSpec(name, names, (*names, (value, "__i0"))) for name, value in (("l", "v"), ("r", "w")))
    columns = {"left": (*names, ("v", "__i0")), "left_types": (STRING, BIGINT), "right": (("w", "__i0"),)}
    keyed = {"keys": ("__k0",), "key_types": (STRING,), "null_safe": (False,), "right_types": (BIGINT,)}
    return JoinSpec(JoinKind(kind), bound, **{**keyed, **columns, "inputs": inputs, **more})


Row = tuple[Any, ...]  # (ts, key, value) or (ts, key, value, id)


def table(rows: list[Row]) -> pa.Table:
    """Packed rows; a row whose ts is None is a problem row."""
    columns = {
        TS: pa.array([row[0] for row in rows], pa.int64()),
        PROBLEM: pa.array(["event_time_unparseable" if row[0] is None else None for row in rows], pa.string()),
        DETAIL: pa.array(["'yesterday'" if row[0] is None else None for row in rows], pa.string()),
        SEQ: pa.array(range(len(rows)), pa.int64()),
        "__k0": pa.array([row[1] for row in rows], pa.string()),
        "__i0": pa.array([row[2] for row in rows], pa.int64()),
    }
    if not rows or len(rows[0]) > 3:
        columns[DEDUP] = pa.array([row[3] for row in rows], pa.string())
    return pa.table(columns)


def micros(moment: datetime | None) -> int | None:
    if moment is None:
        return None
    apart = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (apart.days * 86_400 + apart.seconds) * 1_000_000 + apart.microseconds


def main_row(row: dict[str, Any]) -> Row:
    """Windows and the time of a pair as microseconds; of rows that are forwarded only what the user sees."""
    if WINDOW_START not in row:
        return tuple(value for name, value in row.items() if name != ROWTIME)
    head = [micros(row.pop(name)) for name in (WINDOW_START, WINDOW_END, ROWTIME) if name in row]
    return (*head, *row.values())


@dataclass
class Driver:
    """One shard: rows and watermarks in, everything that came out collected. `spec` is wrapped in an intake if it has
    none.
    """

    spec: KernelSpec
    store: MemoryStore = field(default_factory=MemoryStore)
    watermark: int | None = None
    now: int = 0
    newest: int | None = None
    rows_in: int = 0
    main: list[Row] = field(default_factory=list)
    side: list[dict[str, Any]] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    events: Counter[str] = field(default_factory=Counter)
    gauges: dict[str, int] = field(default_factory=dict)
    wake_at: int | None = None
    pack: Callable[[list[Row]], pa.Table] = table

    def __post_init__(self) -> None:
        if not isinstance(self.spec, IntakeSpec):
            self.spec = IntakeSpec(self.spec)  # type: ignore[arg-type]

    def batch(self, rows: list[Row], watermark: int | None = None, right: list[Row] | None = None) -> list[Row]:
        """Rows under a watermark, then the closing work under the same one; the main rows that came of it.

        Emissions as (window_start, window_end, emit_epoch, op, keys..., results...), times in microseconds; of joins as
        (window_start, window_end, rowtime, columns...). `right` are the rows of a second input.
        """
        self.watermark = watermark if watermark is not None else self.watermark
        both = [*rows, *(right or [])]
        self.newest = max((row[0] for row in [*both, (self.newest,)] if row[0] is not None), default=None)
        self.rows_in += len(both)
        packed = {number: self.pack(some) for number, some in enumerate((rows, right or [])) if some}
        fresh = self._call("on_rows", packed)
        if sum(self.counts.values()) != self.rows_in:
            raise AssertionError(f"{self.rows_in} rows in, accounted for {self.counts}")
        if self.wake_at is not None and self.watermark is not None and self.wake_at <= self.watermark:
            fresh += self._call("on_time")
        return fresh

    def advance(self, watermark: int) -> list[Row]:
        """A batch without rows."""
        self.watermark = watermark
        due = self.wake_at is not None and self.wake_at <= watermark
        return self._call("on_time") if due else []

    def tick(self, now: int) -> list[Row]:
        self.now = now
        return self._call("on_tick")

    def flush(self, until: int | None = None) -> list[Row]:
        """A graceful stop of a stream whose latest event time is `until`; unless told, that of this shard."""
        until = self.newest if until is None else until
        return [] if until is None else self._call("on_flush", until)

    def restart(self) -> None:
        """Only the store survives; kernels are rebuilt for every call anyway."""
        self.store = self.store.snapshot()

    def _call(self, name: str, *args: Any) -> list[Row]:
        before = self.store.snapshot()
        output = self._once(name, self.store, *args)
        repeated = self._once(name, before, *args)
        if (output, self.store) != (repeated, before):
            raise AssertionError(f"{name} repeated from the same state gave something else")
        self._check_schemas(output)
        fresh = [main_row(row) for row in iter_rows(output.main)]
        self.main += fresh
        self.side += iter_rows(output.side)
        self.counts += output.counts
        self.events += output.events
        self.gauges.update(output.gauges)
        self.wake_at = output.wake_at
        return fresh

    def _once(self, name: str, store: MemoryStore, *args: Any) -> Output:
        output: Output = getattr(self.spec.build(), name)(*args, Clock(self.watermark, self.now), store)
        return output

    def _check_schemas(self, output: Output) -> None:
        for found in output.main:
            if found.schema != self.spec.main_schema:
                raise AssertionError(f"main table has {found.schema}, promised was {self.spec.main_schema}")


def blobs(store: MemoryStore) -> int:
    """How many blobs a store holds."""
    return sum(store.size(space, bucket)[0] for space in store.spaces() for bucket in store.buckets(space))
