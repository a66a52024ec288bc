from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from eventide.kernels.vector.hashing import hash_rows

NAN = float("nan")
STORED = [14009208139879023514, 1533851083346035844]


def hashes(values: pa.Array) -> list[int]:
    found: list[int] = hash_rows([values], len(values)).tolist()
    return found


@pytest.mark.parametrize(
    "values",
    [
        pa.array(["", "a", "b", "ab", "abcdefgh", "abcdefghi", "x" * 2000, "x" * 2001, None]),
        pa.array([b"", b"\x00", b"\x00\x00", None]),
        pa.array([0.0, 1.5, NAN, None]),
        pa.array([0, 1, -1, None], pa.int8()),
        pa.array([Decimal("1.10"), Decimal("-1.10"), None]),
        pa.array([True, False, None]),
        pa.array([[], [1], [1, 2], [2, 1], [None], None]),
        pa.array([{"a": 1, "b": None}, {"a": None, "b": 1}, None]),
    ],
)
def test_different_values_have_different_hashes_and_slices_the_same(values: pa.Array) -> None:
    found = hashes(values)
    assert len(set(found)) == len(found)
    assert hashes(values.slice(1)) == found[1:]


def test_values_that_spark_groups_together_share_a_hash() -> None:
    assert len(set(hashes(pa.array([0.0, -0.0])))) == 1
    odd_nan = np.array([0x7FF8000000000001], np.uint64).view(np.float64)[0]
    assert len(set(hashes(pa.array([NAN, odd_nan])))) == 1


def test_hashes_never_change() -> None:
    """They are in stored state: another value here means that old checkpoints can no longer be read."""
    columns = [pa.array(["eventide", None]), pa.array([7, 8], pa.int64())]
    assert hash_rows(columns, 2).tolist() == STORED


def test_hashes_are_spread_evenly() -> None:
    found = hash_rows([pa.array([f"user{n}" for n in range(16_000)])], 16_000)
    assert np.bincount((found >> np.uint64(60)).astype(np.int64)).min() > 850
    assert len(np.unique(found)) == 16_000
