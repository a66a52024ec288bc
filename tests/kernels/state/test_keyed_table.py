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
