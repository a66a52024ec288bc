"""Percentiles of lags from counts by size."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from eventide.admission.lags import aged, lag_counts, percentiles, sample


@given(st.lists(st.integers(0, 10**11), min_size=1, max_size=300))
def test_percentiles_are_right_to_a_tenth(lags: list[int]) -> None:
    found = percentiles(lag_counts(np.array(lags, np.int64)))
    for share in (50, 99):
        exact = float(np.percentile(lags, share, method="inverted_cdf")) / 1000
        assert found[f"lag_p{share}_ms"] == pytest.approx(exact, rel=0.1, abs=0.2)


def test_of_many_rows_some_are_looked_at_and_stand_for_all() -> None:
    admitted = np.arange(1_500_000) % 3 > 0
    for some, rows in ((admitted, 1_000_000), (np.ones(1_000_000, np.bool_), 1_000_000)):
        places, each = sample(some)
        assert some[places].all() and len(places) < 10_000
        counts = lag_counts(np.full(len(places), 5_000_000, np.int64), each)
        assert sum(counts.values()) == pytest.approx(rows, rel=0.01)


def test_old_batches_are_forgotten_and_other_figures_are_not() -> None:
    figures = {"admitted": 7.0, **lag_counts(np.full(10, 60_000_000, np.int64))}
    for _ in range(20):
        figures = aged(figures)
    assert figures == {"admitted": 7.0}
    assert percentiles(figures) == {}


def test_a_row_from_the_future_has_no_lag() -> None:
    assert percentiles(lag_counts(np.array([-5_000_000], np.int64)))["lag_p50_ms"] == 0
