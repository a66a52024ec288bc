"""The key that has most of the rows of a shard."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given, strategies as st

from eventide.kernels.vector.busiest_key import busiest_key


@given(st.integers(0, 400), st.integers(1, 3_000), st.integers(0, 1 << 32))
def test_a_key_that_most_rows_have_is_found_wherever_they_are(others: int, hot: int, seed: int) -> None:
    keys = np.array(["hot"] * hot + [f"k{number}" for number in range(others)])
    np.random.default_rng(seed).shuffle(keys)
    found = busiest_key([pa.table({"__ts": range(len(keys)), "__k0": keys})])
    if hot > 2 * others:
        assert found is not None and found["key"] == ["hot"] and found["share"] > 0.5
    if others > 2 * hot:
        assert found is None or hot == 1


def test_the_larger_table_counts_and_values_are_shown_as_texts() -> None:
    small, large = pa.table({"__k0": [1]}), pa.table({"__k0": [2, 2, 3], "__k1": [None, None, "x" * 90]})
    assert busiest_key([small, large]) == {"key": ["2", "NULL"], "share": 0.667}
    shown = busiest_key([large.slice(2)])
    assert shown is not None and len(shown["key"][1]) == 60


def test_rows_without_a_key_have_none() -> None:
    assert busiest_key([pa.table({"__ts": [1, 2]})]) is None
