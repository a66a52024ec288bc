"""Joins without a bound in time whose rows are never taken back: pairs are only added, and rows that wait stay as they
were written.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given, strategies as st

from eventide.kernels.contract import Clock
from eventide.kernels.state.memory_store import MemoryStore
from eventide.plan.joins import AnyTime
from tests.kernels.harness import Driver, blobs, join_spec

ROWS = st.lists(st.tuples(st.integers(0, 30), st.sampled_from(["a", "b", "c", None]), st.integers(0, 3)), max_size=4)


class WritingStore(MemoryStore):
    """Knows how many rows' worth of bytes were written."""

    written = 0

    def append(self, space: str, bucket: int, blob: bytes) -> int:
        self.written += len(blob)
        return super().append(space, bucket, blob)

    def replace(self, space: str, bucket: int, blob: bytes) -> None:
        self.written += len(blob)
        super().replace(space, bucket, blob)


def joined(**more: Any) -> Driver:
    return Driver(join_spec(AnyTime(**more), emits_changes=False))


def pairs(rows: list[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
    return Counter((row[3], row[4], row[5]) for row in rows)


@given(st.lists(st.tuples(ROWS, ROWS), min_size=1, max_size=20))
def test_every_pair_of_equal_keys_comes_out_once(batches: list[tuple[list[Any], list[Any]]]) -> None:
    join = joined()
    for left, right in batches:
        join.batch(left, right=right)
    every_left, every_right = ([row for batch in batches for row in batch[side]] for side in (0, 1))
    expected = Counter((one[1], one[2], other[2]) for one in every_left for other in every_right if one[1] == other[1])
    assert pairs(join.main) == Counter({pair: count for pair, count in expected.items() if pair[0] is not None})


def test_rows_that_came_in_many_batches_lie_in_few_blobs() -> None:
    join = joined()
    for number in range(50):
        join.batch([(number, "a", number)])
    assert blobs(join.store) <= 11  # eight of rows, one of the directory, one of what has arrived, and one to spare
    assert pairs(join.batch([], right=[(50, "a", 0)])) == Counter(("a", number, 0) for number in range(50))


def test_rows_are_forgotten_by_their_time_in_whichever_batch_they_came() -> None:
    join = joined(ttl=10)
    for ts in (5, 1, 9):
        join.batch([(ts, "a", ts)])
    join.batch([], watermark=15)
    assert join.events["rows_expired"] == 2
    assert pairs(join.batch([], right=[(16, "a", 0)])) == Counter({("a", 9, 0): 1})
    join.advance(26)
    assert join.gauges == {**join.gauges, "left_buffered": 0, "right_buffered": 0}


def test_a_batch_writes_no_row_that_was_held_before() -> None:
    store = WritingStore()
    join = Driver(join_spec(AnyTime(), emits_changes=False), store)
    kernel = join.spec.build()
    many = join.pack([(ts, f"k{ts % 97}", ts) for ts in range(5_000)])
    kernel.on_rows({0: many}, Clock(None, 0), store)
    store.written = 0
    few = join.pack([(1, f"k{number}", 0) for number in range(97)])
    kernel.on_rows({0: few, 1: few}, Clock(None, 0), store)
    assert store.written < many.nbytes / 5
