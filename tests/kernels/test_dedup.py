import numpy as np
import pyarrow as pa

from eventide.kernels.contract import DEDUP, TS
from eventide.kernels.dedup import Memory
from eventide.kernels.intake import IntakeSpec
from eventide.kernels.state.memory_store import MemoryStore
from tests.kernels.harness import KEYED_SUMS, Driver, paned_spec

TUMBLE = paned_spec(10, 10, **KEYED_SUMS)


def within(span: int) -> Driver:
    return Driver(IntakeSpec(TUMBLE, dedup_within=(span,)))


def test_a_second_row_with_the_same_id_is_a_duplicate_across_batches_and_restarts() -> None:
    driver = within(100)
    driver.batch([(1, "A", 10, "p1"), (2, "A", 20, "p2"), (2, "A", 20, "p2")])
    driver.restart()
    driver.batch([(1, "A", 10, "p1"), (3, "A", 5, "p3")])
    assert driver.advance(10) == [(0, 10, 0, 1, "A", 3, 35)]
    assert driver.counts == {"used": 3, "duplicate": 2}
    assert [(p["kind"], p["reason"], p["original_event"]) for p in driver.side] == [
        ("duplicate", "duplicate_id", '{"k": "A", "v": 20}'),
        ("duplicate", "duplicate_id", '{"k": "A", "v": 10}'),
    ]


def test_the_first_to_arrive_is_taken() -> None:
    driver = within(100)
    driver.batch([(5, "A", 1, "x"), (1, "A", 2, "x")])
    assert driver.advance(10) == [(0, 10, 0, 1, "A", 1, 1)]


def test_the_same_id_further_away_is_another_event() -> None:
    #   0    4         12       20     within 10
    #   x    x(dup)    x        x(dup of 12)
    driver = within(10)
    driver.batch([(0, "A", 1, "x"), (4, "A", 1, "x"), (12, "A", 1, "x"), (20, "A", 1, "x")])
    assert driver.counts == {"used": 2, "duplicate": 2}
    driver.batch([(1, "A", 1, "x"), (22, "A", 1, "x"), (23, "A", 1, "x")])
    assert driver.counts == {"used": 3, "duplicate": 4}


def test_null_is_not_an_id() -> None:
    driver = within(10)
    driver.batch([(0, "A", 1, None), (0, "A", 1, None)])
    assert driver.counts == {"used": 2}


def test_ids_are_forgotten_when_no_duplicate_could_be_used_any_more() -> None:
    driver = within(5)
    driver.batch([(0, "A", 1, "x")])
    driver.batch([(0, "A", 1, "x")], watermark=9)
    assert driver.counts == {"used": 1, "duplicate": 1}
    driver.batch([], watermark=100)
    assert driver.store.spaces() == []


def test_many_ids_are_told_apart() -> None:
    memory, store, count = Memory("ids", 10, 0, "plan"), MemoryStore(), 20_000
    ids = [f"id-{n}" for n in range(count)]
    rows = pa.table({TS: pa.array(np.zeros(count, np.int64)), DEDUP: pa.array(ids)})
    assert not memory.duplicates(rows, None, store).any()
    assert memory.duplicates(rows, None, store).all()
    some = pa.table({TS: pa.array([0, 0, 11]), DEDUP: pa.array(["id-5", "other", "id-6"])})
    assert memory.duplicates(some, None, store).tolist() == [True, False, False]


def test_ids_may_have_several_columns() -> None:
    memory, store = Memory("ids", 10, 0, "plan"), MemoryStore()
    ids = pa.array([{"a": 1, "b": "x"}, {"a": 1, "b": "y"}, {"a": 1, "b": "x"}])
    assert memory.duplicates(pa.table({TS: pa.array([0, 0, 0]), DEDUP: ids}), None, store).tolist() == [
        False,
        False,
        True,
    ]
