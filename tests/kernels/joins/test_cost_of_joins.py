"""What a join costs when little comes and much is held, in calls and bytes of its store; and what is left of it."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from eventide.kernels.contract import SEQ, TS, Clock
from eventide.kernels.state.memory_store import MemoryStore
from eventide.plan.joins import AnyTime, Asof, Interval, JoinBound, OverlappingPanes, OverlappingSessions, SameWindow
from eventide.plan.windows import Hop, Tumble
from tests.kernels.harness import join_spec

SECOND = 1_000_000
MINUTE = 60 * SECOND
TEN, HOPS = Tumble(10 * SECOND), Hop(10 * SECOND, 5 * SECOND)
SMALL, FEW, MANY, VERY_MANY = 10, 10_000, 200_000, 1_000_000
BOUNDS: dict[str, JoinBound] = {
    "interval": Interval(-5 * SECOND, 5 * SECOND),
    "tumbling": SameWindow(TEN),
    "hopping": SameWindow(HOPS),
    "tumbling with hopping": OverlappingPanes(TEN, HOPS),
    "as of": Asof(tolerance=5 * SECOND),
    "sessions": OverlappingSessions(SECOND),
    "any time": AnyTime(MINUTE),
}
NEVER_READ = ("interval", "tumbling", "hopping", "tumbling with hopping")  # what has closed without a word to say


class CountingStore(MemoryStore):
    """Counts what is asked of it."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: Counter[str] = Counter()

    def read(self, space: str, bucket: int) -> list[bytes]:
        blobs = super().read(space, bucket)
        self.calls["reads"] += len(blobs)
        self.calls["bytes read"] += sum(map(len, blobs))
        return blobs

    def append(self, space: str, bucket: int, blob: bytes) -> int:
        self.calls["writes"] += 1
        return super().append(space, bucket, blob)

    def replace(self, space: str, bucket: int, blob: bytes) -> None:
        self.calls["writes"] += 1
        super().replace(space, bucket, blob)


def rows(count: int, keys: int, first: int, last: int, seed: int) -> pa.Table:
    chance = np.random.default_rng(seed)
    names = pa.array(chance.integers(0, keys, count)).cast(pa.string())
    times = pa.array(chance.integers(first, last, count))
    return pa.table({TS: times, SEQ: pa.array(np.arange(count)), "__k0": names, "__i0": pa.array(np.arange(count))})


def cost_of_a_small_batch(bound: JoinBound, kind: str, held: int, keys: int) -> Counter[str]:
    """Ten rows that meet a join which holds rows of a minute. The ten before them may still put in order what came at
    once.
    """
    kernel, store, clock = join_spec(bound, kind).build(), CountingStore(), Clock(None, 0)
    kernel.on_rows({side: rows(held // 2, keys, 0, MINUTE, side) for side in (0, 1)}, clock, store)
    for number in (1, 2):
        store.calls.clear()
        few = {side: rows(SMALL // 2, keys, MINUTE - SECOND, MINUTE, 2 * number + side) for side in (0, 1)}
        kernel.on_rows(few, clock, store)
    return store.calls


def state_bytes(held: int) -> int:
    """No row takes less: two numbers of eight bytes, a value and a short key."""
    return held * 30


@pytest.mark.parametrize("held", [MANY, pytest.param(VERY_MANY, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", BOUNDS)
def test_what_a_small_batch_costs_hardly_depends_on_how_much_is_held(name: str, held: int) -> None:
    """Where a hundred times as many rows are held, calls are a few more and bytes a few times as many: rows that
    shared a part may each have a part of their own now, in two slots.
    """
    few, many = (cost_of_a_small_batch(BOUNDS[name], "inner", count, count) for count in (FEW, held))
    assert many["reads"] <= 2 * few["reads"] + 2 * SMALL, (few, many)
    assert many["writes"] <= 2 * few["writes"] + SMALL, (few, many)
    assert many["bytes read"] <= 10 * max(few["bytes read"], 1000), (few, many)
    assert many["bytes read"] <= 0.1 * state_bytes(held), (few, many)


def test_a_hot_key_is_read_only_where_it_can_match() -> None:
    found = cost_of_a_small_batch(Interval(-10_000, 10_000), "left", 400_000, 1)
    assert found["bytes read"] <= 0.05 * state_bytes(400_000)


@pytest.mark.parametrize("name", BOUNDS)
def test_rows_are_forgotten_on_time_and_without_rows_of_their_key(name: str) -> None:
    kernel, store = join_spec(BOUNDS[name]).build(), CountingStore()
    output = kernel.on_rows({side: rows(5000, 100_000, 0, MINUTE, side) for side in (0, 1)}, Clock(None, 0), store)
    assert (output.gauges["left_buffered"], output.gauges["right_buffered"]) == (5000, 5000)
    store.calls.clear()
    output = kernel.on_time(Clock(2 * MINUTE, 0), store)
    assert (output.gauges["left_buffered"], output.gauges["right_buffered"]) == (0, 0)
    assert set(store.spaces()) <= {"meta"} and sum(store.size("meta", at)[1] for at in store.buckets("meta")) < 4096
    if name in NEVER_READ:
        assert store.calls["bytes read"] < 20_000  # the directory alone
