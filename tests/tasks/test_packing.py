"""Rows as blobs, by shard: all of them in their order, and no blob larger than Spark should have to copy."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from eventide.eventtime.resolution import DECLARED
from eventide.kernels.contract import DETAIL, TS
from eventide.tasks import packing
from eventide.tasks.blobs import binaries, to_buffer
from eventide.tasks.packing import HOW, Packing, ShardBy, from_blob

ROWS, SHARDS, LARGEST = 5_000, (3, 8), 20_000


def rows_of(texts: list[str]) -> pa.Table:
    return pa.table(
        {
            TS: pa.array(range(len(texts)), pa.int64()),
            HOW: pa.array(np.full(len(texts), DECLARED, np.int8)),
            DETAIL: pa.nulls(len(texts), pa.string()),
            "__k0": pa.array([f"k{number % 7}" for number in range(len(texts))]),
            "__o0": pa.array(texts),
        }
    )


def test_many_bytes_travel_in_several_blobs_in_the_order_of_their_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "_LARGEST_BLOB", LARGEST)
    packed = Packing(0, SHARDS, ShardBy(("__k0",)), 0).pack(rows_of(["x" * 100] * ROWS), 0)
    tables = {shard: [from_blob(each["blob"]) for each in packed if each["shard"] == shard] for shard in SHARDS}
    assert max(table.nbytes for found in tables.values() for table in found) < 1.2 * LARGEST
    assert len(packed) > ROWS * 100 / LARGEST
    for found in tables.values():
        times = pa.concat_tables(found)[TS].to_pylist()
        assert times == sorted(times)
    assert sum(table.num_rows for found in tables.values() for table in found) == ROWS
    assert {each["top"] for each in packed} == {ROWS - 1}


def test_few_bytes_travel_in_one_blob_per_shard() -> None:
    packed = Packing(0, SHARDS, ShardBy(("__k0",)), 0).pack(rows_of(["x"] * ROWS), 0)
    assert sorted(each["shard"] for each in packed) == list(SHARDS)
    assert Packing(0, SHARDS, ShardBy(), 0).pack(rows_of([]), 0) == []


def test_blobs_become_a_column_as_they_are_and_too_many_bytes_for_one_are_refused() -> None:
    some = to_buffer(pa.table({"n": [1, 2, 3]}))
    for values in ([some], [None, some, b"", None, b"xyz"], [None], []):
        column = binaries(values)
        column.validate(full=True)
        expected = [None if value is None else bytes(memoryview(value)) for value in values]
        assert column.type == pa.binary() and column.to_pylist() == expected
    many = pa.py_buffer(bytes(1 << 20))
    with pytest.raises(pa.ArrowCapacityError, match="too many for one column"):
        binaries([many] * 2048)
