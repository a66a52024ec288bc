"""Medians, spreads and ratios."""

from __future__ import annotations

import pytest

from benchmarks.figures import CPU, SPEED, Results, Spread, advantage, spread
from benchmarks.memory import growth


def results(ours: list[float], theirs: list[float], figure: str = SPEED.key) -> Results:
    return {"w": {"eventide": [{figure: value} for value in ours], "other": [{figure: value} for value in theirs]}}


def test_a_spread_is_the_median_with_the_lowest_and_the_highest() -> None:
    assert spread([{SPEED.key: 3.0}, {SPEED.key: 1.0}, {SPEED.key: 10.0}], SPEED) == Spread(3.0, 1.0, 10.0)


def test_samples_without_the_figure_do_not_count() -> None:
    assert spread([{SPEED.key: 3.0}, {CPU.key: 1.0}], SPEED) == Spread(3.0, 3.0, 3.0)
    assert spread([{CPU.key: 1.0}], SPEED) is None


def test_more_rows_per_second_is_an_advantage() -> None:
    assert advantage(results([200, 300, 100], [100, 50, 1000]), "w", SPEED, "other") == 2.0


def test_fewer_cpu_seconds_is_an_advantage() -> None:
    assert advantage(results([2, 3, 1], [5, 4, 6], CPU.key), "w", CPU, "other") == 2.5


def test_an_advantage_over_what_was_not_measured_is_unknown() -> None:
    assert advantage(results([1], []), "w", SPEED, "other") is None
    assert advantage(results([1], [1]), "another", SPEED, "other") is None
    assert advantage(results([1], [1]), "w", CPU, "other") is None


def test_growth_compares_the_last_third_with_the_middle_one_and_ignores_the_first() -> None:
    assert growth([1, 1, 1, 10, 10, 10, 15, 15, 15]) == 1.5
    assert growth([900, 500, 100, 100, 100, 100]) == 1.0


def test_growth_needs_three_rounds() -> None:
    with pytest.raises(ValueError, match="at least 3"):
        growth([1, 2])
