"""When rows are folded before they travel: how many groups are expected, and what decides."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from eventide.kernels.aggregates import AggregateSpec
from eventide.kernels.contract import TS
from eventide.kernels.prefold import Prefold, TimeBound, expected_groups
from tests.kernels.harness import paned_spec

ROWS = 200_000


@given(st.integers(1, 10**6), st.integers(1, 10**5), st.integers(1, 10**7))
def test_groups_are_between_those_found_and_one_per_row(found: int, sample: int, rows: int) -> None:
    found, rows = min(found, sample), max(rows, sample)
    assert found <= round(expected_groups(found, sample, rows), 3) <= rows


@pytest.mark.parametrize("groups", [10, 1_000, 50_000, 100_000, 1_000_000])
def test_the_estimate_of_even_groups_is_close(groups: int) -> None:
    keys = np.random.default_rng(1).integers(0, groups, 500_000)
    found = len(np.unique(keys[:65_536]))
    assert expected_groups(found, 65_536, len(keys)) == pytest.approx(len(np.unique(keys)), rel=0.05)


def prefold() -> Prefold:
    count = AggregateSpec("__a0", "count", (), (), pa.int64())
    keys = (("k", "__k0"),)
    spec = paned_spec(
        10, 10, 0, lateness=0, keys=keys, key_types=(pa.int64(),), originals=(), aggregates=(count,)
    ).prefold()
    assert spec is not None
    return spec


def rows(keys: int, text: str | None = None) -> pa.Table:
    numbers = np.random.default_rng(2).integers(0, keys, ROWS)
    columns = {TS: pa.array(np.zeros(ROWS, np.int64)), "__k0": pa.array(numbers)}
    return pa.table(columns if text is None else {**columns, "__o0": pa.repeat(text, ROWS)})


def test_few_groups_are_folded_and_as_many_as_rows_are_not() -> None:
    found = prefold().fold(rows(1_000), TimeBound())
    assert found is not None and found[0].num_rows == 1_000 and found[1].num_rows == 0
    assert prefold().fold(rows(100 * ROWS), TimeBound()) is None


def test_wide_rows_are_folded_even_for_many_groups() -> None:
    assert prefold().fold(rows(100_000), TimeBound()) is None
    assert prefold().fold(rows(100_000, "a text that travels with every row " * 4), TimeBound()) is not None
