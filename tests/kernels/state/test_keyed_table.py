"""How many buckets a table has: few as long as every batch is a large one, many from the first small batch on."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from eventide.kernels.state.keyed_table import HASH, START, Directory, KeyedTable, Summary
from eventide.kernels.state.memory_store import MemoryStore
from eventide.kernels.vector.columns import Ints, ints

SCHEMA = pa.schema([(START, pa.int64()), (HASH, pa.int64())])


def nothing_due(table: pa.Table) -> Summary:
    zeros = np.zeros(table.num_rows, np.int64)
    return Summary(zeros, zeros, zeros)


def take(table: KeyedTable, hashes: Ints, store: MemoryStore) -> Directory:
    """A batch that puts one row for each hash in place of what is held for it."""
    directory = table.load(store)
    found = table.find(hashes, directory, store)
    fresh = pa.Table.from_arrays([pa.array(np.zeros(len(hashes), np.int64)), pa.array(hashes)], schema=SCHEMA)
    table.write(found.buckets, found.others, fresh, directory, store)
    table.save(directory, store)
    return directory


def held(table: KeyedTable, store: MemoryStore) -> list[int]:
    directory = table.load(store)
    found: list[int] = ints(table.read(np.flatnonzero(directory.rows), directory, store), HASH).tolist()
    return found


def test_buckets_are_large_until_a_small_batch_comes_and_small_from_then_on() -> None:
    hashes = np.sort(np.random.default_rng(1).integers(-(2**63), 2**63 - 1, 40_000))
    table, store = KeyedTable("t", SCHEMA, "plan", nothing_due), MemoryStore()
    for _ in range(3):
        large = take(table, hashes, store)
        assert 2 <= len(large.rows) <= 16
    small = take(table, hashes[:10], store)
    assert len(small.rows) >= 8 * len(large.rows)
    assert int(small.rows.sum()) == len(hashes)
    again = take(table, hashes, store)
    assert len(again.rows) == len(small.rows)
    assert held(table, store) == hashes.tolist()
    assert len(list(store.buckets("t"))) == len(again.rows)


def add(table: KeyedTable, hashes: Ints, start: int, store: MemoryStore) -> Directory:
    """A batch that puts one row for each hash beside what is held."""
    directory = table.load(store)
    starts = np.full(len(hashes), start)
    table.make_room(len(hashes), directory, store)
    table.add(pa.Table.from_arrays([pa.array(starts), pa.array(hashes)], schema=SCHEMA), directory, store)
    table.save(directory, store)
    return directory


def test_rows_that_were_added_are_found_in_order_and_counted() -> None:
    hashes = np.random.default_rng(2).integers(-(2**63), 2**63 - 1, 9_000)
    table, store = KeyedTable("t", SCHEMA, "plan", nothing_due), MemoryStore()
    for start in reversed(range(12)):
        directory = add(table, hashes, start, store)
    assert int(directory.rows.sum()) == 12 * len(hashes)
    found = table.look_up(hashes[:3], directory, store)
    expected = [(value, start) for value in sorted(hashes[:3].tolist()) for start in range(12)]
    assert list(zip(ints(found, HASH).tolist(), ints(found, START).tolist(), strict=True)) == expected
    assert held(table, store) == np.sort(np.repeat(hashes, 12)).tolist()


def test_rows_may_be_added_to_buckets_that_were_written_in_the_same_batch() -> None:
    hashes = np.arange(40) << 58
    table, store = KeyedTable("t", SCHEMA, "plan", nothing_due), MemoryStore()
    directory = take(table, hashes, store)
    found = table.find(hashes[:5], directory, store)
    table.write(found.buckets, found.others, found.asked.slice(0, 0), directory, store)
    table.add(pa.table({START: [7, 7], HASH: hashes[3:5]}, schema=SCHEMA), directory, store)
    table.save(directory, store)
    assert held(table, store) == np.sort(hashes[3:]).tolist()


def test_nothing_is_found_for_no_keys() -> None:
    table, store = KeyedTable("t", SCHEMA, "plan", nothing_due), MemoryStore()
    directory = add(table, np.array([1, 2]), 0, store)
    assert table.look_up(np.empty(0, np.int64), directory, store).num_rows == 0
    assert table.look_up(np.array([3]), directory, store).num_rows == 0
