"""What the kernels cost on their own: no Spark, one shard, one thread.

    python benchmarks/kernels.py [name ...]

For every case: milliseconds of computing per batch (the best of the last three), and the milliseconds that the state
store would add at 0.2 ms per call and 10 ns per byte, which is what Spark's costs.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from eventide.kernels.aggregates import AggregateSpec
from eventide.kernels.contract import DEDUP, DETAIL, PROBLEM, SEQ, TS, Clock, InputSpec, KernelSpec
from eventide.kernels.intake import IntakeSpec
from eventide.kernels.joins.spec import JoinSpec
from eventide.kernels.logic.windowed import WindowedAggregation
from eventide.kernels.state.memory_store import MemoryStore
from eventide.plan.joins import Asof, Interval, JoinBound, OverlappingSessions, SameWindow
from eventide.plan.modes import EmitMode, JoinKind
from eventide.plan.windows import Hop, Session, Slide, Tumble

SECOND = 1_000_000
BIGINT, DOUBLE = pa.int64(), pa.float64()
BASIC: dict[str, Any] = {
    "keys": (("user", "__k0"),),
    "key_types": (pa.string(),),
    "aggregates": (
        AggregateSpec("__a0", "count", (), (), BIGINT),
        AggregateSpec("__a1", "sum", ("__i0",), (DOUBLE,), DOUBLE),
        AggregateSpec("__a2", "max", ("__i0",), (DOUBLE,), DOUBLE),
    ),
}
Rows = pa.Table | dict[int, pa.Table]  # of one input, or by input
Batch = tuple[Rows, int | None]


class CostedStore(MemoryStore):
    """Adds up what its calls would cost in Spark's state store."""

    seconds = 0.0

    def _pay(self, calls: int, size: int) -> None:
        self.seconds += calls * 0.2e-3 + size * 10e-9

    def append(self, space: str, bucket: int, blob: bytes) -> int:
        self._pay(1, len(blob))
        return super().append(space, bucket, blob)

    def read(self, space: str, bucket: int) -> list[bytes]:
        blobs = super().read(space, bucket)
        self._pay(max(1, len(blobs)), sum(map(len, blobs)))
        return blobs

    def replace(self, space: str, bucket: int, blob: bytes) -> None:
        self._pay(1, len(blob))
        super().replace(space, bucket, blob)

    def delete(self, space: str, bucket: int) -> None:
        self._pay(1, 0)
        super().delete(space, bucket)


def rows(count: int, users: int, start: float, end: float, seed: int = 0, ids: bool = False) -> pa.Table:
    """Rows of random users at random moments between two seconds."""
    chance = np.random.default_rng([seed, count, users])
    names = pa.array(np.arange(users)).cast(pa.string()).take(pa.array(chance.integers(0, users, count)))
    columns = {
        TS: pa.array(chance.integers(int(start * SECOND), int(end * SECOND), count)),
        PROBLEM: pa.nulls(count, pa.string()),
        DETAIL: pa.nulls(count, pa.string()),
        "__k0": names,
        "__i0": pa.array(chance.random(count)),
    }
    if ids:
        columns[DEDUP] = pa.array(chance.integers(0, 1 << 60, count)).cast(pa.string())
    return pa.table(columns)


@dataclass(frozen=True)
class Figures:
    computing: float  # milliseconds
    store: float
    emitted: int
    state: int  # bytes


def measure(spec: KernelSpec, batches: Iterator[Batch]) -> Figures:
    """The cheapest of the last three batches, including closing."""
    kernel, store, found = spec.build(), CostedStore(), []
    for given, watermark in batches:
        store.seconds = 0.0
        began = time.perf_counter()
        clock = Clock(watermark, 0)
        tables = given if isinstance(given, dict) else {0: given}
        output = kernel.on_rows(tables, clock, store).merge(kernel.on_time(clock, store))
        took = time.perf_counter() - began
        emitted = sum(main.num_rows for main in output.main)
        found.append(Figures(took * 1e3, store.seconds * 1e3, emitted, output.gauges.get("state_bytes", 0)))
    return min(found[-3:], key=lambda figures: figures.computing)


def steady(count: int, users: int, seconds: int = 10, batches: int = 5, **more: Any) -> Iterator[Batch]:
    """Batch after batch of `seconds` of event time, with the watermark at the end of the previous batch."""
    for number in range(batches):
        watermark = number * seconds * SECOND or None
        yield rows(count, users, number * seconds, (number + 1) * seconds, number, **more), watermark


def with_many_open(users: int, touched: int) -> Iterator[Batch]:
    """A session for every user, then batches that touch a few of them."""
    everyone = rows(users, users, 0, 60).set_column(3, "__k0", pa.array(np.arange(users)).cast(pa.string()))
    yield everyone, None
    for number in range(3):
        yield rows(touched, users, 60 + number, 61 + number, number), 1


def taking(spec: Any, **more: Any) -> IntakeSpec:
    return IntakeSpec(spec, **more)


def paned(size: int, slide: int, **more: Any) -> IntakeSpec:
    window = Tumble(size * SECOND) if size == slide else Hop(size * SECOND, slide * SECOND)
    return taking(WindowedAggregation(window, **BASIC, **more))


def tumbling() -> Iterator[tuple[str, KernelSpec, Iterator[Batch]]]:
    for users in (1_000, 100_000, 1_000_000):
        yield f"tumbling 10 s, 500k rows, {users:,} users", paned(10, 10), steady(500_000, users)
    for mode in (EmitMode.ON_UPDATE, EmitMode.CHANGES):
        yield (
            f"tumbling 10 s, 500k rows, 100,000 users, {mode.value}",
            paned(10, 10, emit=mode),
            steady(500_000, 100_000),
        )
    yield "tumbling 10 s, 3 rows", paned(10, 10), steady(3, 1_000, seconds=1, batches=12)


def hopping() -> Iterator[tuple[str, KernelSpec, Iterator[Batch]]]:
    for size in (10, 100, 1_000):
        yield (
            f"hopping {size} s every 1 s, 500k rows, 1,000 users",
            paned(size, 1),
            steady(500_000, 1_000, batches=3 + size // 10),
        )


def backfill() -> Iterator[tuple[str, KernelSpec, Iterator[Batch]]]:
    yield "tumbling 1 s, 500k rows over 10,000 s", paned(1, 1), iter([(rows(500_000, 1_000, 0, 10_000), None)])


def sessions() -> Iterator[tuple[str, KernelSpec, Iterator[Batch]]]:
    spec = taking(WindowedAggregation(Session(600 * SECOND), **BASIC))
    for users in (10_000, 100_000, 1_000_000):
        for touched in (10, 1_000):
            yield f"sessions, {users:,} open, {touched:,} rows", spec, with_many_open(users, touched)
    yield "sessions, 100,000 open, 500k rows", spec, with_many_open(100_000, 500_000)


def sliding() -> Iterator[tuple[str, KernelSpec, Iterator[Batch]]]:
    for lookback in (1, 10, 60):
        spec = taking(WindowedAggregation(Slide(lookback * SECOND), **BASIC))
        yield f"sliding {lookback} s, 100k rows, 1,000 users", spec, steady(100_000, 1_000)


def deduplicating() -> Iterator[tuple[str, KernelSpec, Iterator[Batch]]]:
    spec = WindowedAggregation(Tumble(10 * SECOND), **BASIC)
    for count in (1_000, 100_000):
        name = f"tumbling 10 s with ids within 1 min, {count:,} rows"
        yield name, taking(spec, dedup_within=(60 * SECOND,)), steady(count, 1_000, batches=8, ids=True)


def joined(bound: JoinBound, kind: JoinKind = JoinKind.LEFT) -> JoinSpec:
    names = (("user", "__k0"),)
    inputs = tuple(InputSpec(name, names, (*names, ("v", "__i0"))) for name in ("l", "r"))
    return JoinSpec(
        kind,
        bound,
        keys=("__k0",),
        key_types=(pa.string(),),
        null_safe=(False,),
        left=(*names, ("v", "__i0")),
        left_types=(pa.string(), DOUBLE),
        right=(("w", "__i0"),),
        right_types=(DOUBLE,),
        inputs=inputs,
    )


def both(count: int, users: int, start: float, end: float, seed: int) -> dict[int, pa.Table]:
    """Half of the rows on each side."""
    sides = {side: rows(count // 2, users, start, end, 2 * seed + side) for side in (0, 1)}
    return {side: table.append_column(SEQ, pa.array(np.arange(table.num_rows))) for side, table in sides.items()}


def in_step(users: int) -> Iterator[Batch]:
    """Four seconds of 100,000 rows each, with the watermark at the beginning of the batch before."""
    return ((both(400_000, users, at * 4, at * 4 + 4, at), (at - 1) * 4 * SECOND) for at in range(1, 6))


def after_many(held: int, users: int) -> Iterator[Batch]:
    """A minute of rows that are all held, then batches of ten rows of its last second."""
    yield both(held, users, 0, 60, 0), None
    for number in range(3):
        yield both(10, users, 59, 60, 1 + number), None


def joining() -> Iterator[tuple[str, KernelSpec, Iterator[Batch]]]:
    """As wide as a key needs for one partner on average, at 100,000 rows a second."""
    for users in (1_000, 100_000):
        width = users * 2 * SECOND // 100_000
        bounds: dict[str, JoinBound] = {"interval": Interval(0, width), "tumbling": SameWindow(Tumble(width))}
        for name, bound in bounds.items():
            yield f"{name} left join, 400k rows, {users:,} users", joined(bound), in_step(users)
    for name, bound in {"as-of": Asof(), "session": OverlappingSessions(SECOND)}.items():
        yield f"{name} join, 400k rows, 100,000 users", joined(bound, JoinKind.INNER), in_step(100_000)
    for held in (10_000, 100_000, 1_000_000):
        wide = joined(Interval(-5 * SECOND, 5 * SECOND))
        yield f"interval left join, {held:,} rows held, 10 rows", wide, after_many(held, held)
    yield "interval left join, 400k rows, 1 user", joined(Interval(0, 20)), in_step(1)


CASES: dict[str, Callable[[], Iterator[tuple[str, KernelSpec, Iterator[Batch]]]]] = {
    "tumbling": tumbling,
    "hopping": hopping,
    "backfill": backfill,
    "sessions": sessions,
    "sliding": sliding,
    "deduplicating": deduplicating,
    "joining": joining,
}


def main() -> None:
    print(f"{'':60} {'computing':>10} {'+ store':>9} {'emitted':>9} {'state':>9}")
    for name in sys.argv[1:] or CASES:
        for title, spec, batches in CASES[name]():
            found = measure(spec, batches)
            print(
                f"{title:60} {found.computing:7.1f} ms {found.store:6.1f} ms {found.emitted:9,} "
                f"{found.state / 1e6:6.1f} MB",
                flush=True,
            )


if __name__ == "__main__":
    main()
