"""A writer that is faster than the engine."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from eventide.admission.throttle import BATCHES, Queue, Written, taken_of

queues = st.builds(Queue, st.integers(0, 500), st.integers(1, 200), st.sampled_from([0.5, 2.0]))


def test_what_was_written_is_a_number_of_rows_that_also_says_how_long_to_wait() -> None:
    written = Written(3, 1.5)
    assert written == 3 and written + 1 == 4 and written.wait == 1.5
    assert Written(3).wait == 0


def test_where_nobody_paces_everything_is_taken() -> None:
    assert taken_of([10, 20], []) == 2


@given(st.lists(st.integers(1, 50)), st.lists(queues, min_size=1, max_size=3))
def test_what_waits_is_never_longer_than_two_batches(sizes: list[int], queues: list[Queue]) -> None:
    taken = taken_of(sizes, queues)
    for queue in queues:
        waits = queue.waiting + sum(sizes[:taken])
        assert waits <= BATCHES * queue.batch or taken == 0 or (taken == 1 and queue.waiting == 0)
    if taken < len(sizes):
        assert any(queue.waiting + sum(sizes[: taken + 1]) > BATCHES * queue.batch for queue in queues)


def test_a_row_larger_than_the_queue_is_taken_when_nothing_waits() -> None:
    assert taken_of([1000, 10], [Queue(0, 100, 1.0)]) == 1
    assert taken_of([1000, 10], [Queue(1, 100, 1.0)]) == 0


@pytest.mark.parametrize(("waiting", "wait"), [(0, 0.0), (100, 0.0), (150, 1.0), (200, 2.0), (400, 6.0)])
def test_the_wait_ends_when_there_is_room_for_a_batch(waiting: int, wait: float) -> None:
    queue = Queue(waiting, 100, 2.0)
    assert queue.wait == wait
    worked_off = wait / queue.target * queue.batch
    assert Queue(round(waiting - worked_off), 100, 2.0).room >= queue.batch


@given(st.integers(20, 200), st.integers(1, 400))
def test_a_producer_twice_as_fast_as_the_engine_is_slowed_to_its_pace(batch: int, size: int) -> None:
    """One step is a batch of the engine, which works off `batch` bytes; the producer brings as much again."""
    waiting = brought = done = 0
    for _ in range(50):
        rows = [size] * max(1, 2 * batch // size)
        taken = taken_of(rows, [Queue(waiting, batch, 1.0)])
        waiting, brought = waiting + taken * size, brought + taken * size
        worked = min(waiting, batch)
        waiting, done = waiting - worked, done + worked
        assert waiting <= max(BATCHES * batch, size)
    assert brought == done + waiting
    assert done >= 0.9 * 50 * min(batch, size * max(1, 2 * batch // size)) or size > batch
