"""Tables that a kernel gives: in memory while they are few, on disk beyond that, and always in their order."""

from __future__ import annotations

import pyarrow as pa
import pytest

from eventide.kernels import given_tables
from eventide.kernels.contract import Clock
from eventide.kernels.given_tables import GivenTables
from eventide.kernels.state.memory_store import MemoryStore
from eventide.plan.joins import Interval
from tests.kernels.harness import join_spec
from tests.kernels.joins.test_interval_joins import rows


def numbers(tables: GivenTables) -> list[int]:
    return [value for table in tables for value in table["n"].to_pylist()]


def test_tables_come_back_in_order_wherever_they_waited() -> None:
    tables = GivenTables(most=100)
    for start in range(0, 100, 10):
        tables.append(pa.table({"n": range(start, start + 10)}))
    assert numbers(tables) == list(range(100)) == numbers(tables)


def test_two_that_are_put_together_keep_their_order_and_take_more() -> None:
    first, second = (GivenTables([pa.table({"n": values})], most=8) for values in ([1, 2, 3], [4, 5, 6]))
    both = first + second
    both.append(pa.table({"n": [7]}))
    assert numbers(both) == [1, 2, 3, 4, 5, 6, 7] and len(both) == 3
    assert numbers(first) == [1, 2, 3]


def test_empty_tables_are_left_out() -> None:
    assert len(GivenTables([pa.table({"n": pa.array([], pa.int64())})])) == 0


def test_a_hot_key_on_both_sides_holds_few_of_its_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    """2,000 x 2,000 pairs are some hundred megabytes; without the disk all of them would be held at once."""
    most = 8 << 20
    monkeypatch.setattr(given_tables, "MOST_BYTES", most)
    kernel, store = join_spec(Interval(0, 0)).build(), MemoryStore()
    kernel.on_rows({0: rows(2000, 1, 0, 1, 1)}, Clock(None, 0), store)
    before = pa.total_allocated_bytes()
    output = kernel.on_rows({1: rows(2000, 1, 0, 1, 2)}, Clock(None, 0), store)
    held = pa.total_allocated_bytes() - before
    pairs, size = 0, 0
    for table in output.main:
        pairs, size = pairs + table.num_rows, size + table.nbytes
    assert pairs == 2000 * 2000
    assert held <= most + (8 << 20) < size / 4
